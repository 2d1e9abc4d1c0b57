package client

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate bounds the bytes that a producer holds. Taking costs one atomic addition while there is room. An amount larger than
// the bound passes when it is alone, so nothing is stuck for ever.
type gate struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int32
	mu      sync.Mutex
	freed   chan struct{} // closed and replaced when bytes come back and somebody waits
}

func newGate(max int64) *gate { return &gate{max: max, freed: make(chan struct{})} }

// take reserves n bytes, waiting for room until ctx is done or stop is closed.
func (g *gate) take(ctx context.Context, stop <-chan struct{}, n int64) error {
	if g.tryTake(n) {
		return nil
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	for {
		g.mu.Lock()
		freed := g.freed
		g.mu.Unlock()
		// Again after freed was read: bytes given back in between have closed an older channel.
		if g.tryTake(n) {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return ErrClosed
		}
	}
}

func (g *gate) tryTake(n int64) bool {
	for {
		used := g.used.Load()
		if used > 0 && used+n > g.max {
			return false
		}
		if g.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (g *gate) give(n int64) {
	g.used.Add(-n)
	if g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	close(g.freed)
	g.freed = make(chan struct{})
	g.mu.Unlock()
}
