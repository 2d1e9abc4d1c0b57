package client

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// conn is one connection after its handshake: requests of any goroutine are pipelined by request id, a writer goroutine
// sends them, a reader goroutine hands the replies to their receivers, a third one watches for a broker that is gone.
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

	heard atomic.Int64  // frames received: a sign of life that the watch looks at
	dying chan struct{} // closed by fail
	dead  chan struct{} // closed when all goroutines are gone and every call has ended
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

// encoder and decoder are what every message of package frame is.
type (
	encoder interface{ Append([]byte) []byte }
	decoder interface{ Decode([]byte) error }
)

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
	var others sync.WaitGroup
	others.Go(c.write)
	others.Go(c.watch)
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
	others.Wait()
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

// write is the writer goroutine.
func (c *conn) write() {
	for {
		select {
		case <-c.dying:
			return
		case <-c.out.wake:
			if err := c.out.flush(c.stream); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

// watch is a goroutine of its own because a broker that has stopped reading blocks every writer. It sends PING when replies
// are owed, nothing comes and nothing goes, and ends the connection when that lasts.
func (c *conn) watch() {
	tick := time.NewTicker(min(pingEvery, max(c.silent/3, time.Millisecond)))
	defer tick.Stop()
	var life int64
	quietSince := time.Now()
	for {
		select {
		case <-c.dying:
			return
		case now := <-tick.C:
			if n := c.heard.Load() + c.out.taken.Load(); n != life || !c.owed() {
				life, quietSince = n, now
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

func (discard) end(error) {}
