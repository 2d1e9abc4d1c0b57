package disk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
)

// Power fails after a random completion, several times in one life; each unflushed sector survives by coin toss. Every
// acknowledged entry must come back, none may come back changed, and what comes back is a prefix of what was staged.
func TestCrashKeepsAcknowledgedEntries(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	pages, pool := new(SimPages), block.NewPool(32<<20)
	for seed := range uint64(rounds) {
		crashRound(t, seed, pages, pool)
		if t.Failed() {
			return
		}
	}
}

func crashRound(t *testing.T, seed uint64, pages *SimPages, pool *block.Pool) {
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("seed %d: panic", seed)
			panic(v)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 1))
	h := &harness{t: t, cfg: smallConfig(), pool: pool,
		dev: NewSim(SimOptions{Seed: seed, MaxLatencyNanos: 300_000, Pages: pages})}
	pool.Reclaim()
	acked, staged := map[Key][]string{}, map[Key][]string{}
	for life := range 6 {
		if rng.IntN(4) == 0 { // the power may fail during recovery too
			h.dev.CutAfter(rng.Uint64N(40))
			if h.tryOpen() != nil {
				h.cut()
				continue
			}
			h.dev.CutAfter(^uint64(0))
		} else {
			h.open()
		}
		if h.report.Damaged() {
			t.Errorf("seed %d life %d: damage:\n%s", seed, life, h.report)
			return
		}
		got := h.state()
		for k, want := range acked {
			if len(got[k]) < len(want) || !slices.Equal(got[k][:len(want)], want) {
				t.Errorf("seed %d life %d: %s: recovered %d entries, acknowledged %d: %v\nwant %v\n%s", seed, life, k, len(got[k]), len(want), got[k], want, h.report)
				return
			}
		}
		for k, have := range got {
			if all := staged[k]; len(have) > len(all) || !slices.Equal(all[:len(have)], have) {
				t.Errorf("seed %d life %d: %s: recovered what was not staged: %v", seed, life, k, have)
				return
			}
		}
		staged = got
		h.randomLife(rng, seed, life)
		acked = h.state()
		for k, p := range h.m.parts {
			staged[k] = append(slices.Clone(p.entries), p.staged...)
		}
		if rng.IntN(3) == 0 {
			h.dev = h.dev.Kill()
			h.pool.Reclaim()
		} else {
			h.cut()
		}
	}
	h.dev.Release()
}

// randomLife works until the power fails or it has done enough.
func (h *harness) randomLife(rng *rand.Rand, seed uint64, life int) {
	h.dev.CutAfter(h.dev.Events() + rng.Uint64N(400))
	defer h.dev.ClearPlans()
	if rng.IntN(4) == 0 { // a disk that is full for a while, or a bad spot of it
		at := []string{"shard-00/state", "topics/", "shard-00/journal-2"}[rng.IntN(3)]
		kind := []OpKind{OpWrite, OpCreate, OpRename, OpSyncDir, OpSync}[rng.IntN(5)]
		h.dev.Plan(SimFault{Kind: kind, Prefix: at, After: rng.Uint64N(8), Times: 1 + rng.Uint64N(4), Err: syscall.ENOSPC})
	}
	parts := 1 + rng.IntN(12)
	for i := range 200 {
		if h.dev.Off() {
			return
		}
		k := Key{1 + uint32(rng.IntN(2)), uint32(rng.IntN(parts))}
		switch rng.IntN(10) {
		case 0:
			_ = h.tryNote(Meta, fmt.Sprintf("meta %d.%d.%d", seed, life, i))
		case 1, 2, 3:
			_ = h.tryNote(k, fmt.Sprintf("note %d.%d.%d %0*d", seed, life, i, rng.IntN(3000), 0))
		case 4:
			_ = h.produce(k, 16<<10+rng.IntN(100<<10))
		default:
			_ = h.produce(k, rng.IntN(5000))
		}
		for range rng.IntN(3) {
			h.turn()
		}
		if rng.IntN(40) == 0 {
			h.now += 20e6
			h.turn()
		}
	}
	for range 50 {
		h.turn()
	}
}
