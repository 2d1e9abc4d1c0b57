package loop

import (
	"fmt"

	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
	"golang.org/x/sys/unix"
)

const receiveGroup = 1

// receiver is the memory that the kernel receives into, and who waits for some of it.
//
// A buffer is the kernel's until a completion names it. Then it is delivered within the turn and goes back at its end,
// unless its connection has had its share of the turn: then it waits in held, in order.
//
// Few buffers go round while few suffice, since the kernel takes them in turn and 4 MiB would leave the cache: with 8 of
// 64 KiB a bulk relay took a tenth less CPU than with 64. Running out doubles them, a calm time halves them.
type receiver struct {
	group   *uring.BufRing
	blocks  []*block.Block
	buffers [][]byte // by id

	round  int      // buffers that go round: the kernel's, held, or delivered in this turn
	target int      // how many should
	idle   []uint16 // the others
	calmAt uint64   // turn since which none was short
	used   []piece  // delivered in this turn

	held, spare []piece     // spare is the other half of a double buffer
	starved     fifo[*conn] // receive ended for want of buffers
	feedMax     int         // re-armed a turn: all at once would only exhaust the buffers again
}

type piece struct {
	c  *conn
	id uint16
	n  int32
}

func (r *receiver) open(ring *uring.Ring, pool *block.Pool, c Config) (err error) {
	if c.ReceiveBuffers&(c.ReceiveBuffers-1) != 0 || c.ReceiveBuffers > 1<<15 || c.ReceiveBytes&(c.ReceiveBytes-1) != 0 ||
		c.ReceiveBytes < block.Size4K || c.ReceiveBytes > block.Size1M {
		return fmt.Errorf("loop: %d receive buffers of %d bytes: both must be powers of two, at most 32768 of 4 KiB to 1 MiB",
			c.ReceiveBuffers, c.ReceiveBytes)
	}
	if r.group, err = ring.RegisterBufRing(receiveGroup, c.ReceiveBuffers); err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	for len(r.buffers) < c.ReceiveBuffers {
		b := pool.GetFor(min(c.ReceiveBytes*c.ReceiveBuffers, block.Size1M))
		if b == nil {
			_ = r.close()
			return fmt.Errorf("%w: receive buffers take %d bytes", ErrNoMemory, c.ReceiveBytes*c.ReceiveBuffers)
		}
		r.blocks = append(r.blocks, b)
		for at := 0; at+c.ReceiveBytes <= len(b.Data) && len(r.buffers) < c.ReceiveBuffers; at += c.ReceiveBytes {
			r.buffers = append(r.buffers, b.Data[at:at+c.ReceiveBytes:at+c.ReceiveBytes])
		}
	}
	for id := len(r.buffers) - 1; id >= 0; id-- {
		r.idle = append(r.idle, uint16(id))
	}
	r.target = min(roundMin, len(r.buffers))
	r.fill()
	r.group.Publish()
	r.feedMax = max(1, c.ReceiveBuffers/4)
	return nil
}

func (r *receiver) close() error {
	if r.group == nil {
		return nil
	}
	err := r.group.Close()
	for _, b := range r.blocks {
		b.Release()
	}
	*r = receiver{}
	return err
}

const (
	roundMin  = 8
	calmTurns = 10_000
)

// fill lets idle buffers go round up to the target.
func (r *receiver) fill() {
	for n := len(r.idle); r.round < r.target && n > 0; n-- {
		id := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.group.Add(id, r.buffers[id])
		r.round++
	}
}

// short notes that the kernel found no buffer; once a turn, however many connections it was for.
func (r *receiver) short(turn uint64) {
	if r.calmAt != turn {
		r.target, r.calmAt = min(2*r.target, len(r.buffers)), turn
		r.fill()
	}
}

// recycle takes a buffer back; the kernel sees it at publish.
func (r *receiver) recycle(id uint16, n int32) {
	block.Poison(r.buffers[id][:n])
	if r.round > r.target {
		r.round--
		r.idle = append(r.idle, id)
		return
	}
	r.group.Add(id, r.buffers[id])
}

// publish ends a turn: what was delivered in it goes back to the kernel.
func (r *receiver) publish(turn uint64) {
	for _, p := range r.used {
		r.recycle(p.id, p.n)
	}
	r.used = r.used[:0]
	if turn-r.calmAt > calmTurns {
		r.target, r.calmAt = max(r.target/2, min(roundMin, len(r.buffers))), turn
	}
	r.group.Publish()
}

// received is the completion of a receive: bytes in a buffer, the peer's end, or why there are none.
func (e *Uring) received(token uint64, result int32, flags uint32) {
	c := e.conns.owner(token)
	if flags&uring.FlagMore == 0 {
		c.receiving, c.cancelling = false, false
		e.touch(c)
	}
	id, hasBuffer := uring.BufferID(flags)
	switch errno := unix.Errno(-result); {
	case result > 0 && hasBuffer:
		if c.held > 0 || e.share(c) >= turnBytes {
			e.hold(c, id, result)
			return
		}
		e.deliver(c, id, result)
		return
	case result == 0:
		c.peerEnded = true
		e.touch(c)
	case errno == unix.ENOBUFS:
		e.receive.short(e.stats.Turns)
		e.starve(c)
	case errno == unix.ECANCELED, errno == unix.EINTR, errno == unix.EAGAIN: // touched: settle arms it again if it shall read
	default:
		e.fail(c, errno)
	}
	if hasBuffer {
		e.receive.recycle(id, 0)
	}
}

// share is what the connection has delivered in this turn, bytes.
func (e *Uring) share(c *conn) int {
	if c.turn != e.stats.Turns {
		c.turn, c.delivered = e.stats.Turns, 0
	}
	return c.delivered
}

func (e *Uring) deliver(c *conn, id uint16, n int32) {
	e.stats.BytesIn += uint64(n)
	c.delivered += int(n)
	if c.state == open && !c.cut {
		e.handler.Received(c.id(), e.receive.buffers[id][:n:n])
	}
	e.receive.used = append(e.receive.used, piece{c, id, n})
}

func (e *Uring) hold(c *conn, id uint16, n int32) {
	c.held++
	e.receive.held = append(e.receive.held, piece{c, id, n})
}

// deliverHeld goes on with what the last turn left. A connection that has had its share again keeps its rest, in order.
func (e *Uring) deliverHeld() {
	r := &e.receive
	if len(r.held) == 0 {
		return
	}
	old := r.held
	r.held = r.spare[:0]
	for _, p := range old {
		p.c.held--
		if e.share(p.c) >= turnBytes && p.c.state == open {
			e.hold(p.c, p.id, p.n)
			continue
		}
		e.deliver(p.c, p.id, p.n)
		if p.c.held == 0 {
			e.touch(p.c) // its end may have waited for this
		}
	}
	r.spare = old[:0]
}

// starve queues a connection whose receive ended because no buffer was left.
func (e *Uring) starve(c *conn) {
	if !c.starved {
		c.starved = true
		e.receive.starved.push(c)
	}
}

// feedStarved lets a few connections receive again, the longest waiting first.
func (e *Uring) feedStarved() {
	for n := 0; n < e.receive.feedMax && e.receive.starved.len() > 0; n++ {
		c := e.receive.starved.pop()
		c.starved = false
		e.stats.Rearmed++
		e.settle(c)
	}
}

// Pause stops reading from c. Bytes that are on their way from the kernel still arrive.
func (e *Uring) Pause(id Conn) { e.setPaused(id, true) }

// Resume reads from c again.
func (e *Uring) Resume(id Conn) { e.setPaused(id, false) }

func (e *Uring) setPaused(id Conn, paused bool) {
	if c := e.conns.find(id); c != nil && c.paused != paused {
		c.paused = paused
		e.touch(c)
	}
}

// settleReceive arms or cancels the receive so that it is as the connection wants it. Pause and Resume within one turn
// meet here and cost nothing.
func (e *Uring) settleReceive(c *conn) {
	want := !c.peerEnded && (c.state == open && !c.paused || c.state == flushing || c.state == lingering)
	switch {
	case want && !c.receiving && !c.starved:
		c.receiving = true
		s := e.ring.SQE()
		s.RecvMultishot(int(c.fd), receiveGroup)
		s.Tag(kindReceive, c.token())
	case !want && c.receiving && !c.cancelling:
		c.cancelling = true
		s := e.ring.SQE()
		s.Cancel(uring.UserData(kindReceive, c.token()))
		s.Tag(uring.KindIgnore, 0)
	}
}
