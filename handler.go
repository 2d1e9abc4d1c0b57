package slipring

import (
	"net/netip"
	"time"

	"github.com/slipringmq/slipring/loop"
)

// The host is its loop's handler: it passes on what the loop brings, with the time of the turn.

// stopStepNanos is how long a stopping shard may rest: its steps follow one another without a completion that would make
// the loop turn.
const stopStepNanos = int64(time.Millisecond)

// Opened passes on a new connection.
func (h *host) Opened(c loop.Conn, _ int, remote netip.AddrPort) {
	h.startTurn()
	h.shard.Opened(uint64(c), remote.String())
}

// Received passes on bytes, which are the loop's.
func (h *host) Received(c loop.Conn, p []byte) {
	h.startTurn()
	h.shard.Received(uint64(c), p)
}

// Drained passes on that a connection's output is low again.
func (h *host) Drained(c loop.Conn) {
	h.startTurn()
	h.shard.Drained(uint64(c))
}

// Closed passes on the end of a connection.
func (h *host) Closed(c loop.Conn, err error) {
	h.startTurn()
	h.shard.Closed(uint64(c), err)
}

// EndTurn ends the shard's turn and runs what other threads asked for.
func (h *host) EndTurn(monoNanos, unixMillis int64) (wakeAt int64) {
	for len(h.calls) > 0 {
		(<-h.calls)()
	}
	stopping := h.stopping.Load()
	if stopping {
		h.loop.CloseListeners()
		h.shard.Stop()
	}
	wakeAt = h.shard.EndTurn(monoNanos, unixMillis)
	switch {
	case !stopping:
	case h.shard.Stopped() || h.giveUp.Load():
		// After the turn: the one that stops the shard may be the last for which there is anything to do.
		h.loop.Stop()
	default:
		wakeAt = monoNanos + stopStepNanos
	}
	return wakeAt
}

func (h *host) startTurn() { h.shard.StartTurn(h.loop.Now(), h.loop.UnixMillis()) }

// network is the shard's view of the loop.
type network struct{ loop *loop.Uring }

func (n network) Send(c uint64, p []byte) { n.loop.Send(loop.Conn(c), p) }
func (n network) Queued(c uint64) int     { return n.loop.Queued(loop.Conn(c)) }
func (n network) Pause(c uint64)          { n.loop.Pause(loop.Conn(c)) }
func (n network) Resume(c uint64)         { n.loop.Resume(loop.Conn(c)) }
func (n network) Close(c uint64)          { n.loop.Close(loop.Conn(c)) }
func (n network) Abort(c uint64)          { n.loop.Abort(loop.Conn(c)) }
