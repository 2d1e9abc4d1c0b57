package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// Client is one connection to a World that speaks frames.
type Client struct {
	w    *World
	link *link
	last uint64 // request id
	out  []byte
	kept []Reply // taken while looking for another one

	// Chop, if not nil, says how many of n bytes arrive before the turn ends; 0: all of them.
	Chop func(n int) int
}

// Reply is one frame from the broker. Payload is the client's copy.
type Reply struct {
	frame.Header
	Payload []byte
}

// Dial connects without saying HELLO.
func (w *World) Dial() *Client {
	c := &Client{w: w, link: w.Net.open()}
	w.Shard.Opened(c.link.id, "sim")
	return c
}

// Connect connects and says HELLO.
func (w *World) Connect() *Client {
	c := w.Dial()
	r := c.Call(frame.CmdHello, &frame.Hello{MinVersion: 1, MaxVersion: 1, ClientName: "sim"})
	if r.Command != frame.CmdHello {
		panic(fmt.Sprintf("sim: HELLO was answered %v %s", r.Command, r.Error().Text))
	}
	return c
}

// ID is the connection's name.
func (c *Client) ID() uint64 { return c.link.id }

// Open says whether the broker has the connection still.
func (c *Client) Open() bool { return c.w.Net.links[c.link.id] == c.link && !c.link.closing }

// Hangup closes from the client's side.
func (c *Client) Hangup() {
	if c.w.Net.links[c.link.id] == c.link {
		c.w.Net.drop(c.link)
		c.w.Shard.Closed(c.link.id, nil)
	}
}

// Raw sends bytes as they are, with a turn between the pieces of Chop.
func (c *Client) Raw(p []byte) {
	for len(p) > 0 && c.Open() {
		n := len(p)
		if c.Chop != nil {
			if first := c.Chop(n); first > 0 && first < n {
				n = first
			}
		}
		c.w.Shard.StartTurn(c.w.mono, c.w.wall)
		c.w.Shard.Received(c.link.id, c.w.lend(p[:n]))
		if p = p[n:]; len(p) > 0 {
			c.w.Turn(1)
		}
	}
}

// Message is what frame encodes.
type Message interface{ Append([]byte) []byte }

// Send sends one request and returns its id.
func (c *Client) Send(cmd frame.Command, m Message) uint64 {
	c.last++
	c.out = frame.AppendFrame(c.out[:0], cmd, 0, c.last, m)
	c.Raw(c.out)
	return c.last
}

// SendAs is Send under an id of the caller's: for what a subscription's id names.
func (c *Client) SendAs(cmd frame.Command, id uint64, m Message) {
	c.out = frame.AppendFrame(c.out[:0], cmd, 0, id, m)
	c.Raw(c.out)
}

// Produce sends a batch, in parts when it is long, and returns the request's id.
func (c *Client) Produce(topic, partition uint32, acks frame.Acks, batch []byte, partBytes int) uint64 {
	c.last++
	m := frame.Produce{Topic: topic, Partition: partition, Acks: acks, Batch: batch}
	payload := m.Append(nil)
	for len(payload) > partBytes {
		c.out = frame.AppendHeader(c.out[:0], frame.CmdProduce, frame.FlagMore, c.last, partBytes)
		c.Raw(append(c.out, payload[:partBytes]...))
		payload = payload[partBytes:]
	}
	c.out = frame.AppendHeader(c.out[:0], frame.CmdProduce, 0, c.last, len(payload))
	c.Raw(append(c.out, payload...))
	return c.last
}

// Next takes the next frame that has arrived; false when there is none.
func (c *Client) Next() (Reply, bool) {
	if len(c.kept) > 0 {
		r := c.kept[0]
		c.kept = c.kept[1:]
		return r, true
	}
	return c.arrived()
}

func (c *Client) arrived() (Reply, bool) {
	p := c.link.out[c.link.at:]
	if len(p) < frame.HeaderBytes {
		return Reply{}, false
	}
	h, err := frame.ParseHeader(p)
	if err != nil {
		panic(fmt.Sprintf("sim: the broker sent a bad header: %v", err))
	}
	if !h.Reply() {
		panic("sim: the broker sent a frame without the reply flag")
	}
	n := frame.HeaderBytes + h.PayloadBytes()
	if len(p) < n {
		return Reply{}, false
	}
	r := Reply{h, append([]byte(nil), p[frame.HeaderBytes:n]...)}
	c.link.take(n)
	return r, true
}

// Await turns the world until request id is answered in full; parts are joined. Other frames are kept for Next. A Reply
// without a command says that no answer came within 10,000 turns, or that the connection or the power is gone.
func (c *Client) Await(id uint64) Reply {
	var joined Reply
	for range 10_000 {
		for r, ok := c.arrived(); ok; r, ok = c.arrived() {
			c.kept = append(c.kept, r)
		}
		if c.join(&joined, id) {
			return joined
		}
		if c.w.Dev.Off() || !c.Open() && c.link.queued() == 0 {
			break
		}
		c.w.Turn(1 << 20)
	}
	return Reply{}
}

// join takes the parts of the reply to id off what has arrived, and says whether it is whole.
func (c *Client) join(joined *Reply, id uint64) bool {
	for i := 0; i < len(c.kept); i++ {
		r := c.kept[i]
		if r.RequestID != id {
			continue
		}
		c.kept = append(c.kept[:i], c.kept[i+1:]...)
		i--
		joined.Header, joined.Payload = r.Header, append(joined.Payload, r.Payload...)
		if !r.More() {
			return true
		}
	}
	return false
}

// Call is Send and Await.
func (c *Client) Call(cmd frame.Command, m Message) Reply { return c.Await(c.Send(cmd, m)) }

// Error decodes an ERROR; a zero value for any other reply.
func (r Reply) Error() frame.Error {
	var e frame.Error
	if r.Command == frame.CmdError {
		if err := e.Decode(r.Payload); err != nil {
			panic(fmt.Sprintf("sim: bad ERROR: %v", err))
		}
	}
	return e
}

// Produced decodes the reply to PRODUCE or PUBLISH.
func (r Reply) Produced() frame.ProduceReply {
	var m frame.ProduceReply
	if err := m.Decode(r.Payload); err != nil {
		panic(fmt.Sprintf("sim: %v is no answer to PRODUCE: %v", r.Command, err))
	}
	return m
}
