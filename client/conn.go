package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// conn is one connection after its handshake: requests of any goroutine are pipelined by request id, a writer goroutine
// sends them, a reader goroutine hands the replies to their receivers.
type conn struct {
	addr   string
	stream Conn
	in     *instream
	out    *outstream
	hello  frame.HelloReply
	window window
	parts  sync.Mutex    // held while the parts of a request are queued
	silent time.Duration // a broker that owes replies and says nothing for so long is taken for dead

	mu        sync.Mutex
	calls     map[uint64]*call // nil once the connection is buried
	forgotten int              // calls without a receiver
	nextID    uint64
	err       error // why the connection ended

	lastWords error // the reader goroutine's

	heard atomic.Int64  // frames received: the sign of life that the writer's watch looks at
	dying chan struct{} // closed by fail
	dead  chan struct{} // closed when both goroutines are gone and every call has ended
}

// receiver takes the reply of one request. Both methods run on the reader goroutine and must not block.
type receiver interface {
	// part takes the payload of one part; it aliases the read buffer. An error closes the connection.
	part(h frame.Header, payload []byte) error
	// end is called exactly once, after the last part or with the reason why there will be none.
	end(err error)
}

// call is a request that waits for its reply.
type call struct {
	cmd    frame.Command // of a proper reply
	stream bool          // a subscription: DELIVER frames come before the end, and a reply of cmd is not the last frame
	to     receiver      // nil: nobody waits any more, the reply is dropped
}

// A connection whose broker leaves so many cancelled requests unanswered is not worth keeping.
const forgottenMax = 10_000

const pingEvery = 5 * time.Second

// dial opens a stream to addr and shakes hands.
func dial(ctx context.Context, o *Options, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	stream, err := o.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConnection, addr, err)
	}
	c := &conn{
		addr: addr, stream: stream, in: newInstream(stream), out: newOutstream(), silent: o.RequestTimeout,
		calls: map[uint64]*call{}, nextID: 1, dying: make(chan struct{}), dead: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	err = c.handshake(o.Name)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the stream was closed under us
	}
	if err != nil {
		stream.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer to HELLO: %w", context.Cause(ctx))
		}
		if errors.As(err, new(*Error)) {
			return nil, withOp("hello "+addr, err)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrConnection, addr, err)
	}
	c.window.max = int(c.hello.ProduceWindow)
	go c.read()
	return c, nil
}

// handshake sends HELLO and, where asked for, AUTH with the mechanism "none".
func (c *conn) handshake(name string) error {
	hello := frame.Hello{MinVersion: frame.Version, MaxVersion: frame.Version, ClientName: name, Software: software}
	if err := c.exchange(frame.CmdHello, &hello, &c.hello); err != nil {
		return err
	}
	if c.hello.Version != frame.Version {
		return fmt.Errorf("%w: HELLO chose version %d", ErrProtocol, c.hello.Version)
	}
	if !c.hello.AuthRequired {
		return nil
	}
	var reply frame.AuthReply
	if err := c.exchange(frame.CmdAuth, &frame.Auth{Mechanism: "none"}, &reply); err != nil {
		return err
	}
	if !reply.Done {
		return fmt.Errorf("%w: AUTH none wants another step", ErrProtocol)
	}
	return nil
}

// encoder and decoder are what every message of package frame is.
type (
	encoder interface{ Append([]byte) []byte }
	decoder interface{ Decode([]byte) error }
)

// exchange is one request and its reply before the goroutines run.
func (c *conn) exchange(cmd frame.Command, request encoder, reply decoder) error {
	id := c.nextID
	c.nextID++
	if _, err := c.stream.Write(frame.AppendFrame(nil, cmd, 0, id, request)); err != nil {
		return err
	}
	h, payload, err := c.in.next()
	switch {
	case err != nil:
		return err
	case h.Command == frame.CmdError:
		return decodeError(payload)
	case h.RequestID != id || h.Command != cmd || h.More():
		return fmt.Errorf("%w: %v in answer to %v", ErrProtocol, h.Command, cmd)
	}
	if err := reply.Decode(payload); err != nil {
		return fmt.Errorf("%w: %v: %v", ErrProtocol, cmd, err)
	}
	return nil
}

func decodeError(payload []byte) error {
	var e frame.Error
	if err := e.Decode(payload); err != nil {
		return fmt.Errorf("%w: ERROR: %v", ErrProtocol, err)
	}
	return fromFrame("", &e)
}

// register announces a request and gives its id. to.end is called exactly once unless register fails.
func (c *conn) register(cl *call) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	id := c.nextID
	c.nextID++
	c.calls[id] = cl
	return id, nil
}

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

// forget drops the reply of a request that nobody waits for any more.
func (c *conn) forget(id uint64) {
	c.mu.Lock()
	cl := c.calls[id]
	if cl != nil && cl.to != nil {
		cl.to = nil
		c.forgotten++
	}
	tooMany := c.forgotten > forgottenMax
	c.mu.Unlock()
	if tooMany {
		c.fail(errors.New("too many cancelled requests without an answer"))
	}
}

// read is the reader goroutine; it also buries the connection.
func (c *conn) read() {
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		c.write()
	}()
	for {
		h, payload, err := c.in.next()
		if err == nil {
			c.heard.Add(1)
			err = c.dispatch(h, payload)
		}
		if err != nil {
			if c.lastWords != nil {
				err = fmt.Errorf("%w; the broker said: %w", err, c.lastWords)
			}
			c.fail(err)
			break
		}
	}
	<-writer
	c.mu.Lock()
	calls, err := c.calls, c.err
	c.calls = nil
	c.mu.Unlock()
	c.out.close(err)
	for _, cl := range calls {
		if cl.to != nil {
			cl.to.end(err)
		}
	}
	close(c.dead)
}

// write is the writer goroutine. It also watches the broker: PING when replies are owed and nothing comes.
func (c *conn) write() {
	watch := time.NewTicker(min(pingEvery, max(c.silent/3, time.Millisecond)))
	defer watch.Stop()
	var heard int64
	quietSince := time.Now()
	for {
		select {
		case <-c.dying:
			return
		case <-c.out.wake:
			if err := c.out.flush(c.stream); err != nil {
				c.fail(err)
				return
			}
		case now := <-watch.C:
			if n := c.heard.Load(); n != heard || !c.owed() {
				heard, quietSince = n, now
				continue
			}
			if now.Sub(quietSince) > c.silent {
				c.fail(fmt.Errorf("no sign of life for %v", c.silent))
				return
			}
			if id, err := c.register(&call{cmd: frame.CmdPing, to: discard{}}); err == nil {
				c.post(frame.CmdPing, id, &frame.Empty{})
			}
		}
	}
}

// owed says whether a reply is awaited.
func (c *conn) owed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// dispatch hands one frame to the call it belongs to.
func (c *conn) dispatch(h frame.Header, payload []byte) error {
	c.mu.Lock()
	cl := c.calls[h.RequestID]
	if cl == nil {
		c.mu.Unlock()
		if h.Command == frame.CmdError { // of a request that asked for no reply, or the last words before closing
			c.lastWords = decodeError(payload)
			return nil
		}
		return fmt.Errorf("%w: %v for request %d, which does not wait", ErrProtocol, h.Command, h.RequestID)
	}
	delivery := cl.stream && h.Command == frame.CmdDeliver
	switch {
	case h.Command == cl.cmd, delivery, cl.stream && h.Command == frame.CmdUnsubscribe:
	case h.Command == frame.CmdError && !h.More():
	default:
		c.mu.Unlock()
		return fmt.Errorf("%w: %v in answer to %v", ErrProtocol, h.Command, cl.cmd) // the call ends with the connection
	}
	ends := !h.More() && !delivery && !(cl.stream && h.Command == cl.cmd)
	to := cl.to
	if ends {
		delete(c.calls, h.RequestID)
		if to == nil {
			c.forgotten--
		}
	}
	c.mu.Unlock()
	if to == nil {
		return nil
	}

	if h.Command == frame.CmdError {
		err := decodeError(payload)
		to.end(err)
		if errors.Is(err, ErrProtocol) {
			return err
		}
		return nil
	}
	err := to.part(h, payload)
	if ends {
		to.end(err)
	}
	return err
}

// fail ends the connection for the given reason; the first one stays. The reader goroutine does the rest.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if errors.Is(err, ErrClosed) {
		c.err = err
	} else {
		c.err = fmt.Errorf("%w: %s: %w", ErrConnection, c.addr, err)
	}
	close(c.dying)
	c.stream.Close()
}

// alive says whether requests may still be sent.
func (c *conn) alive() bool {
	select {
	case <-c.dying:
		return false
	default:
		return true
	}
}

// discard takes replies that do not matter.
type discard struct{}

func (discard) part(frame.Header, []byte) error { return nil }
func (discard) end(error)                       {}
