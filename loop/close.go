package loop

import (
	"errors"

	"github.com/slipringmq/slipring/loop/uring"
	"golang.org/x/sys/unix"
)

// Close sends what is queued, then closes; Closed follows. The handler gets no bytes from c any more.
func (e *Uring) Close(id Conn) {
	if c := e.conns.find(id); c != nil && c.state == open {
		e.letGo(c)
	}
}

// Abort closes at once and resets the peer; queued output is lost. Closed follows with ErrAborted.
func (e *Uring) Abort(id Conn) {
	if c := e.conns.find(id); c != nil && c.state < dying {
		c.reset = true
		e.fail(c, ErrAborted)
	}
}

// letGo leaves a connection only its queued output. It goes on reading, to discard: a peer that must get rid of its own
// bytes first would never read ours.
func (e *Uring) letGo(c *conn) {
	c.state = flushing
	e.flushBy.add(c, e.now+e.config.CloseTimeout.Nanoseconds())
	e.touch(c)
}

// fail ends the connection at the next flush. The first reason counts.
func (e *Uring) fail(c *conn, err error) {
	if c.cut || c.state >= dying {
		return
	}
	c.cut, c.failure = true, err
	e.touch(c)
}

// settle looks at one connection and asks the kernel for what it needs next. It may be called at any time.
func (e *Uring) settle(c *conn) {
	c.dirty = false
	if c.state == open && c.peerEnded && c.held == 0 {
		e.letGo(c)
	}
	if c.cut && c.state != free && c.state < dying {
		e.hangUp(c)
	}
	if c.state == flushing && c.queued == 0 && !c.sending {
		e.shut(c)
	}
	if c.state == lingering && c.peerEnded {
		c.state = dying
	}
	switch c.state {
	case open, flushing, lingering:
		if c.queued > 0 && !c.sending {
			e.submitSend(c)
		}
		e.settleReceive(c)
	case dying:
		if c.idle() {
			c.state = ended
			e.ended = append(e.ended, c)
		}
	}
}

// shut ends our side once everything is out.
func (e *Uring) shut(c *conn) {
	c.state = lingering
	if !c.peerEnded {
		_ = unix.Shutdown(int(c.fd), unix.SHUT_WR) // the ring's own shutdown would start a worker thread
		e.endBy.add(c, e.now+lingerNanos)
	}
}

// hangUp takes back what the kernel has of the connection.
func (e *Uring) hangUp(c *conn) {
	c.state = dying
	if c.receiving || c.sending {
		c.cancelling = true
		s := e.ring.SQE()
		s.CancelFD(int(c.fd))
		s.Tag(uring.KindIgnore, 0)
	}
}

// bury frees the connections with which kernel and queues are done, and tells the handler.
func (e *Uring) bury() {
	for i := 0; i < len(e.ended); i++ {
		c := e.ended[i]
		if c.reset {
			_ = unix.SetsockoptLinger(int(c.fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
		e.closeFD(c.fd)
		for c.first != nil {
			e.drop(c)
		}
		id, err := c.id(), c.failure
		e.conns.remove(c)
		e.stats.Closed++
		e.handler.Closed(id, err)
	}
	e.ended = e.ended[:0]
}

// expire acts on what is overdue: accepting after a shortage, output that a peer does not take, ends that do not come.
func (e *Uring) expire() {
	for _, l := range e.listeners {
		if l.retryAt > 0 && l.retryAt <= e.now {
			e.armAccept(l)
		}
	}
	for d, ok := e.flushBy.due(e.now); ok; d, ok = e.flushBy.due(e.now) {
		c := e.conns.find(d.id)
		switch {
		case c == nil || c.state != flushing:
		case c.queued < d.queued && !e.stopped.Load(): // slow, but it moves
			e.flushBy.add(c, e.now+e.config.CloseTimeout.Nanoseconds())
		default:
			c.reset = true
			e.fail(c, ErrCloseTimeout)
		}
	}
	for d, ok := e.endBy.due(e.now); ok; d, ok = e.endBy.due(e.now) {
		if c := e.conns.find(d.id); c != nil && c.state == lingering {
			e.fail(c, ErrCloseTimeout)
		}
	}
}

// finish ends everything after Stop.
func (e *Uring) finish() error {
	e.readClock() // Stop may have come after a long park
	e.CloseListeners()
	e.conns.each(func(c *conn) {
		if c.state == open {
			e.letGo(c)
		}
	})
	end := e.now + e.config.CloseTimeout.Nanoseconds() + 2*lingerNanos
	for e.conns.live > 0 || e.listening() {
		e.flush()
		if err := e.endTurn(end); err != nil {
			return err
		}
		e.beginTurn()
		e.receive.publish(e.stats.Turns)
		switch {
		case e.now > end+e.config.CloseTimeout.Nanoseconds():
			return errors.New("loop: the kernel did not end all requests on sockets")
		case e.now > end:
			e.conns.each(func(c *conn) { e.Abort(c.id()) })
		}
	}
	return e.ring.Enter(0, 0) // the last closes
}

// deadlines are connections by the time at which something is due. All wait equally long, so they come in order.
type deadlines struct{ fifo[deadline] }

type deadline struct {
	id     Conn
	at     int64
	queued int // output at that time
}

func (d *deadlines) add(c *conn, at int64) { d.push(deadline{c.id(), at, c.queued}) }

// next is the earliest time; never when there is none.
func (d *deadlines) next() int64 {
	if d.len() == 0 {
		return never
	}
	return d.first().at
}

// due takes the first one if its time has come.
func (d *deadlines) due(now int64) (deadline, bool) {
	if d.next() > now {
		return deadline{}, false
	}
	return d.pop(), true
}
