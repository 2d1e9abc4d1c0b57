package loop

import (
	"github.com/slipringmq/slipring/loop/block"
	"golang.org/x/sys/unix"
)

// gatherMax is how many pieces one send takes: half a MiB in full blocks.
const gatherMax = 8

// WAITALL lets the kernel go on by itself after a short write; NOSIGNAL keeps SIGPIPE away.
const sendFlags = unix.MSG_NOSIGNAL | unix.MSG_WAITALL

// out is one block of a connection's queued output: bytes [start, end) are still to be taken by the kernel. Bytes may be
// added behind end while a send of those before it is in flight.
type out struct {
	block      *block.Block
	start, end int
	next       *out
}

// gather is what sendmsg(2) points to; one per send in flight that has more than one piece.
type gather struct {
	header unix.Msghdr
	pieces [gatherMax]unix.Iovec
}

// sender keeps spare headers, so that a warm loop allocates nothing.
type sender struct {
	outs    *out
	gathers []*gather
}

// Send copies p to the end of c's queued output; it goes out at the end of the turn, or when earlier output has. Without
// memory for it the connection ends with ErrNoMemory: half a message would be worse.
func (e *Uring) Send(id Conn, p []byte) {
	c := e.conns.find(id)
	if c == nil || c.state != open || c.cut || len(p) == 0 {
		return
	}
	e.touch(c)
	c.queued += len(p)
	if c.queued >= HighWater {
		c.high = true
	}
	for len(p) > 0 {
		if c.last == nil || c.last.end == len(c.last.block.Data) {
			if !e.extend(c, len(p)) {
				e.fail(c, ErrNoMemory)
				return
			}
		}
		n := copy(c.last.block.Data[c.last.end:], p)
		c.last.end += n
		p = p[n:]
	}
}

// Queued is the output of c that the kernel has not taken yet, bytes.
func (e *Uring) Queued(id Conn) int {
	if c := e.conns.find(id); c != nil {
		return c.queued
	}
	return 0
}

// extend adds a block. Small output on an idle connection takes a small one: thousands of connections may be answered in
// one turn.
func (e *Uring) extend(c *conn, want int) bool {
	size := block.Size64K
	if c.last == nil && want <= block.Size4K {
		size = block.Size4K
	}
	b := e.pool.Get(size)
	if b == nil {
		return false
	}
	o := e.sends.outs
	if o == nil {
		o = new(out)
	} else {
		e.sends.outs = o.next
	}
	*o = out{block: b}
	if c.last == nil {
		c.first = o
	} else {
		c.last.next = o
	}
	c.last = o
	return true
}

// submitSend sends what is queued, up to gatherMax pieces. One send is in flight per socket, so bytes keep their order.
func (e *Uring) submitSend(c *conn) {
	c.sending = true
	o := c.first
	s := e.ring.SQE()
	if o.next == nil {
		s.Send(int(c.fd), o.block.Data[o.start:o.end], sendFlags)
		s.Tag(kindSend, c.token())
		return
	}
	g := e.takeGather()
	n := 0
	for ; o != nil && n < gatherMax; o = o.next {
		g.pieces[n] = unix.Iovec{Base: &o.block.Data[o.start], Len: uint64(o.end - o.start)}
		n++
	}
	g.header = unix.Msghdr{Iov: &g.pieces[0], Iovlen: uint64(n)}
	c.gather = g
	s.Sendmsg(int(c.fd), &g.header, sendFlags)
	s.Tag(kindSend, c.token())
}

// sent is the completion of a send. A short one is resumed from where it ended.
func (e *Uring) sent(token uint64, result int32, _ uint32) {
	c := e.conns.owner(token)
	c.sending = false
	e.touch(c)
	if c.gather != nil {
		e.sends.gathers = append(e.sends.gathers, c.gather)
		c.gather = nil
	}
	if result < 0 {
		switch errno := unix.Errno(-result); errno {
		case unix.EINTR, unix.EAGAIN, unix.ECANCELED:
		default:
			e.fail(c, errno)
		}
		return
	}
	e.consume(c, int(result))
	if c.high && c.queued < LowWater {
		c.high = false
		if c.state == open && !c.cut {
			e.handler.Drained(c.id())
		}
	}
}

// consume frees the first n bytes of the queued output.
func (e *Uring) consume(c *conn, n int) {
	e.stats.BytesOut += uint64(n)
	c.queued -= n
	for n > 0 {
		o := c.first
		k := min(n, o.end-o.start)
		o.start += k
		n -= k
		if o.start < o.end {
			return
		}
		e.drop(c)
	}
}

// drop gives the first block back.
func (e *Uring) drop(c *conn) {
	o := c.first
	if c.first = o.next; c.first == nil {
		c.last = nil
	}
	o.block.Release()
	*o = out{next: e.sends.outs}
	e.sends.outs = o
}

func (e *Uring) takeGather() *gather {
	if n := len(e.sends.gathers); n > 0 {
		g := e.sends.gathers[n-1]
		e.sends.gathers = e.sends.gathers[:n-1]
		return g
	}
	return new(gather)
}
