package client

import (
	"github.com/slipringmq/slipring/frame"
)

// unansweredID is the id of a request that asks for no reply.
func (c *conn) unansweredID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID
	c.nextID++
	return id
}

// send sends a frame of one part, and may wait for the socket. After a failure of the connection it does nothing: the calls
// end by themselves.
func (c *conn) send(cmd frame.Command, id uint64, m encoder) {
	var scratch [256]byte
	c.out.add(cmd, 0, id, m.Append(scratch[:0]), nil, nil, nil)
	c.sendNow()
}

// post is send that never waits.
func (c *conn) post(cmd frame.Command, id uint64, m encoder) {
	var scratch [32]byte
	c.out.add(cmd, 0, id, m.Append(scratch[:0]), nil, nil, nil)
	c.out.kick()
}

func (c *conn) sendNow() {
	if err := c.out.sendNow(c.stream); err != nil {
		c.fail(err)
	}
}

// sendBatch sends PRODUCE with a batch of any size, in parts. ref owns batch. written, if not nil, is called once: with
// nil when the last byte has been handed to the kernel, else with the reason why the batch did not go.
func (c *conn) sendBatch(id uint64, p frame.Produce, ref *buffer, written func(error)) {
	rest := p.Batch
	p.Batch = nil
	if len(rest) > frame.MaxPayload-frame.ProduceFixedBytes {
		c.parts.Lock() // a broker bounds how many requests may be half sent: here it is one
		defer c.parts.Unlock()
	}
	var scratch [frame.ProduceFixedBytes]byte
	head := p.Append(scratch[:0])
	for {
		n := min(len(rest), frame.MaxPayload-len(head))
		last := n == len(rest)
		flags, done := frame.FlagMore, (func(error))(nil)
		if last {
			flags, done = 0, written
		}
		if !c.out.add(frame.CmdProduce, flags, id, head, rest[:n], ref, done) {
			if written != nil {
				written(ErrConnection)
			}
			return
		}
		if last {
			c.sendNow()
			return
		}
		rest, head = rest[n:], nil
	}
}

// cancel asks the broker to answer a waiting request now.
func (c *conn) cancel(id uint64) {
	c.post(frame.CmdCancel, id, &frame.Cancel{RequestID: id})
}
