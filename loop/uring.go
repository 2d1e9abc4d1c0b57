package loop

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
)

// Kinds of the engine's completions.
const (
	kindAccept = uring.KindLoop + iota
	kindReceive
	kindSend
)

// Uring is the engine on io_uring (Linux 6.1 or newer). It shares the ring with the shard's disk requests: both are
// submitted, and both complete, with the one enter of a turn.
type Uring struct {
	config  Config
	ring    *uring.Ring
	pool    *block.Pool
	handler Handler
	stats   Stats

	conns     table
	listeners []*listener
	receive   receiver
	sends     sender

	dirty   []*conn // have something to arm, cancel, send or end at the end of the turn
	ended   []*conn // Closed is due
	flushBy deadlines
	endBy   deadlines

	spin       spinner
	now        int64 // monotonic nanoseconds of this turn
	unixMillis int64
	stopped    atomic.Bool
	acceptWarn bool // the shortage that stops accepting has been reported
}

var _ Loop = (*Uring)(nil)

// epoch makes monotonic time a number; one for the process, so that shards agree.
var epoch = time.Now()

// NewUring makes an engine on a ring and a pool of the calling thread. It takes the memory for receive buffers from the
// pool at once.
//
// Errors: uring.ErrUnsupported with the kernel version it takes; ErrNoMemory.
func NewUring(ring *uring.Ring, pool *block.Pool, c Config) (*Uring, error) {
	if !ring.Deferred() {
		return nil, fmt.Errorf("loop: engine uring: %w: multishot receive with deferred task work needs Linux 6.1", uring.ErrUnsupported)
	}
	e := &Uring{config: c.withDefaults(), ring: ring, pool: pool}
	e.conns.limit = e.config.MaxConnections
	e.spin.maxNanos = e.config.Spin.Nanoseconds()
	if err := e.receive.open(ring, pool, e.config); err != nil {
		return nil, err
	}
	ring.Handle(kindAccept, e.accepted)
	ring.Handle(kindReceive, e.received)
	ring.Handle(kindSend, e.sent)
	e.readClock()
	return e, nil
}

// Run turns until Stop, then ends all connections: queued output still goes out, for at most the close timeout. The
// handler hears Closed for each of them, and no EndTurn any more.
func (e *Uring) Run(h Handler) error {
	e.handler = h
	for _, l := range e.listeners {
		e.armAccept(l)
	}
	for !e.stopped.Load() {
		e.beginTurn()
		wakeAt := h.EndTurn(e.now, e.unixMillis)
		e.receive.publish(e.stats.Turns)
		e.flush()
		if e.stopped.Load() {
			break
		}
		if err := e.endTurn(wakeAt); err != nil {
			return err
		}
	}
	return e.finish()
}

// Stop ends Run after the current turn. From any thread.
func (e *Uring) Stop() {
	e.stopped.Store(true)
	e.ring.Wake()
}

// Wake makes a parked loop turn. From any thread.
func (e *Uring) Wake() { e.ring.Wake() }

// Now is the monotonic time of this turn, nanoseconds.
func (e *Uring) Now() int64 { return e.now }

// UnixMillis is the wall clock's time of this turn.
func (e *Uring) UnixMillis() int64 { return e.unixMillis }

// Stats returns the counters so far.
func (e *Uring) Stats() Stats {
	s := e.stats
	s.Enters = e.ring.Stats().Enters
	s.Connections = e.conns.live
	return s
}

// Free gives the receive memory back; after Run, or instead of it. The ring and the pool are their makers'.
func (e *Uring) Free() error {
	e.closeListenerSockets()
	return e.receive.close()
}

// beginTurn hands all completions over.
func (e *Uring) beginTurn() {
	e.readClock()
	e.stats.Turns++
	e.deliverHeld()
	e.ring.Dispatch()
	e.expire()
	e.bury()
}

// flush decides, for every connection that something happened to, what the kernel shall do next.
func (e *Uring) flush() {
	for i := 0; i < len(e.dirty); i++ { // may grow meanwhile
		e.settle(e.dirty[i])
	}
	e.dirty = e.dirty[:0]
	e.feedStarved()
}

// endTurn submits and waits, with at most one enter. Entries are submitted at once and looked after in the next turn;
// only a loop with nothing to submit spins, then parks.
func (e *Uring) endTurn(wakeAt int64) error {
	if e.busy() {
		return e.ring.Enter(0, 0)
	}
	until := e.nextDeadline(wakeAt)
	if e.spin.budgetNanos == 0 {
		return e.park(monotonic(), until)
	}
	if e.ring.Queued() > 0 {
		return e.ring.Enter(0, 0)
	}
	start := monotonic()
	if e.spinUntil(min(start+e.spin.budgetNanos, until)) {
		e.stats.Spins++
		e.spin.learn(monotonic() - start)
		if e.ring.Completions() || e.ring.TakeWake() {
			return nil
		}
		return e.ring.Enter(0, 0) // runs the work that the kernel has put off for us
	}
	return e.park(start, until)
}

// busy reports that the next turn has work already.
func (e *Uring) busy() bool {
	return len(e.receive.held) > 0 || e.receive.starved.len() > 0 || len(e.ended) > 0 || len(e.dirty) > 0 || e.ring.Completions()
}

const never = int64(1<<63 - 1)

// nextDeadline is the earliest time at which something is due; never when nothing is.
func (e *Uring) nextDeadline(wakeAt int64) int64 {
	until := min(e.flushBy.next(), e.endBy.next())
	if wakeAt > 0 {
		until = min(until, wakeAt)
	}
	for _, l := range e.listeners {
		if l.retryAt > 0 {
			until = min(until, l.retryAt)
		}
	}
	return until
}

func (e *Uring) spinUntil(end int64) bool {
	for {
		for range 64 {
			if e.ring.Ready() || e.ring.Woken() {
				return true
			}
		}
		if monotonic() >= end {
			return false
		}
	}
}

// park waits in the kernel; idleSince is when the loop ran out of work.
func (e *Uring) park(idleSince, until int64) error {
	timeout := int64(-1)
	if until != never {
		if timeout = until - idleSince; timeout <= 0 {
			return e.ring.Enter(0, 0)
		}
	}
	e.stats.Parks++
	err := e.ring.Enter(1, timeout)
	e.spin.learn(monotonic() - idleSince)
	return err
}

func (e *Uring) readClock() {
	t := time.Now()
	e.now, e.unixMillis = int64(t.Sub(epoch)), t.UnixMilli()
}

func monotonic() int64 { return int64(time.Since(epoch)) }

// touch puts the connection on the list for the end of the turn.
func (e *Uring) touch(c *conn) {
	if !c.dirty {
		c.dirty = true
		e.dirty = append(e.dirty, c)
	}
}
