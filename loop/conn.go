package loop

import (
	"fmt"

	"github.com/slipringmq/slipring/loop/block"
)

// Life of a connection. Output goes out in open and flushing; bytes reach the handler in open alone.
const (
	free      = iota
	open      // both directions
	flushing  // Close was called or the peer ended its side: what is queued still goes out
	lingering // our side is shut; waits for the peer's end
	dying     // waits until the kernel has let go of every request
	ended     // nothing in flight; Closed is due
)

const (
	slotBits = 24
	slotMask = 1<<slotBits - 1
)

// conn is what an engine keeps per connection. It never moves, and its slot is not given out again before the kernel
// has completed every request that names it.
type conn struct {
	slot       uint32
	generation uint32
	fd         int32
	state      uint8

	dirty      bool // in Uring.dirty
	paused     bool
	receiving  bool // a multishot receive is armed
	cancelling bool // its cancel is under way
	starved    bool // in Uring.starved
	sending    bool // a send is in flight
	cut        bool // hang up without ceremony at the next flush; failure says why
	high       bool // queued reached HighWater, Drained is due below LowWater
	peerEnded  bool
	reset      bool // close with RST

	held      int32  // received pieces that wait for their turn
	turn      uint64 // of the last delivery
	delivered int    // bytes delivered in that turn

	queued      int
	first, last *out
	gather      *gather
	failure     error
}

func (c *conn) id() Conn { return Conn(c.generation)<<32 | Conn(c.slot) }

func (c *conn) token() uint64 { return uint64(c.generation)<<slotBits | uint64(c.slot) }

// idle reports that neither kernel nor queues name the connection.
func (c *conn) idle() bool { return !c.receiving && !c.sending && c.held == 0 && !c.starved }

const pageConns = 256

// table is the connections by slot, in pages so that none ever moves.
type table struct {
	pages []*[pageConns]conn
	spare []uint32 // free slots
	live  int
	limit int
}

// add returns a fresh connection, nil at the limit.
func (t *table) add(fd int32) *conn {
	if t.live >= t.limit {
		return nil
	}
	if len(t.spare) == 0 {
		base := uint32(len(t.pages) * pageConns)
		page := new([pageConns]conn)
		for i := range page {
			page[i].slot = base + uint32(i)
			t.spare = append(t.spare, base+pageConns-1-uint32(i))
		}
		t.pages = append(t.pages, page)
	}
	slot := t.spare[len(t.spare)-1]
	t.spare = t.spare[:len(t.spare)-1]
	t.live++
	c := t.at(slot)
	*c = conn{slot: slot, generation: max(1, c.generation+1), fd: fd, state: open} // never 0: Conn 0 is none
	return c
}

func (t *table) remove(c *conn) {
	*c = conn{slot: c.slot, generation: c.generation, fd: -1}
	t.live--
	t.spare = append(t.spare, c.slot)
}

func (t *table) at(slot uint32) *conn { return &t.pages[slot/pageConns][slot%pageConns] }

// find returns the connection that id still names, or nil.
func (t *table) find(id Conn) *conn {
	slot := uint32(id)
	if int(slot/pageConns) >= len(t.pages) {
		return nil
	}
	c := t.at(slot)
	if c.state == free || c.generation != uint32(id>>32) {
		return nil
	}
	return c
}

// owner returns the connection of a completion.
func (t *table) owner(token uint64) *conn {
	c := t.at(uint32(token & slotMask))
	if block.Invariants && (c.state == free || c.token() != token) {
		panic(fmt.Sprintf("loop: completion for token %#x, slot is in state %d with generation %d", token, c.state, c.generation))
	}
	return c
}

// each calls fn for every connection that is not free.
func (t *table) each(fn func(*conn)) {
	for _, page := range t.pages {
		for i := range page {
			if page[i].state != free {
				fn(&page[i])
			}
		}
	}
}
