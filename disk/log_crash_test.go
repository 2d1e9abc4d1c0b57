package disk

import (
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

var logRuns = flag.Int("log.runs", 40, "seeds of the log's crash test")

// Everything a shard may do to its logs, in any order, with power cuts, kills and clean stops between: batches that were
// durable are there unchanged, what was trimmed or dropped stays away, and nothing is reported as damage.
func TestLogSurvivesAnyOrderOfEvents(t *testing.T) {
	runs := *logRuns
	if testing.Short() {
		runs = 10
	}
	for seed := range uint64(runs) {
		anyOrder(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func anyOrder(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	cfg := smallConfig()
	cfg.HotBytes = []int64{4096, 64 << 10, 1 << 20}[rng.IntN(3)]
	b := newLogBench(t, seed, cfg)
	keys := []Key{{1, 0}, {1, 1}, {2, 0}, {3, 0}, {3, 1}}
	b.opt[keys[2]] = LogOptions{SyncEvery: 3e6, SegmentBytes: 256 << 10}
	b.opt[keys[3]] = LogOptions{SegmentBytes: 128 << 10}
	b.opt[keys[4]] = LogOptions{Journaled: true, SegmentBytes: 64 << 10}
	b.mustAppend(keys[0], 1)
	b.settle()
	dropped := make(map[Key]bool)
	starts := make(map[Key]batch.Offset)
	for range 5 {
		for range 1 + rng.IntN(60) {
			k := keys[rng.IntN(len(keys))]
			if dropped[k] {
				continue
			}
			b.anyEvent(rng, k, dropped)
		}
		durable := make(map[Key]batch.Offset)
		for _, k := range keys {
			if !dropped[k] {
				durable[k] = b.log(k).DurableEnd()
				starts[k] = b.log(k).LogStart()
			}
		}
		b.anyEnd(rng)
		if b.report.Damaged() {
			t.Fatalf("seed %d: %s", seed, b.report)
		}
		for _, k := range keys {
			if dropped[k] {
				continue
			}
			if got := b.log(k).LogStart(); got < starts[k] {
				t.Fatalf("seed %d: %s: log start fell from %d to %d", seed, k, starts[k], got)
			}
			b.lost(k, durable[k])
			b.check(k)
		}
	}
}

// anyEvent does one thing to one log.
func (b *logBench) anyEvent(rng *rand.Rand, k Key, dropped map[Key]bool) {
	l := b.log(k)
	switch rng.IntN(24) {
	case 0:
		if l.DurableEnd() > l.LogStart() {
			b.trim(k, l.LogStart()+1+batch.Offset(rng.Uint64N(uint64(l.DurableEnd()-l.LogStart()))))
		}
	case 1:
		if rng.IntN(8) == 0 {
			if _, err := l.Drop(b.cfg.Start); err != nil {
				b.t.Fatal(err)
			}
			part := b.m.part(k)
			part.staged = append(part.staged, "drop")
			dropped[k] = true
			b.m.exist[k] = Deleted // the tombstone is durable before its partitions are dropped
		}
	case 2:
		if l.opt.Journaled {
			b.dropStaged(k)
		}
	case 3:
		l.SyncNow()
	case 4:
		b.settle()
	case 5:
		if len(l.trims) == 0 { // else the log start may move between two reads
			b.check(k)
		}
	case 6:
		b.note(k, "note")
	case 7, 8, 9:
		b.turn()
	case 10, 11:
		b.now += 1e6
		b.dev.Step(b.now)
	default:
		n := rng.IntN(3000)
		if rng.IntN(5) == 0 {
			n = rng.IntN(70_000)
		}
		base := l.LogEnd()
		if rng.IntN(10) == 0 {
			base += batch.Offset(rng.IntN(5)) // gaps are legal
		}
		if err := b.appendAt(k, base, n); err != nil && !errors.Is(err, ErrBusy) {
			b.t.Fatalf("append: %v (%v)", err, l.fenced)
		}
	}
}

// dropStaged drops the overlay of one log, here and in the model.
func (b *logBench) dropStaged(k Key) {
	l := b.log(k)
	l.DropStaged()
	part := b.m.part(k)
	part.staged = part.staged[:l.NextIndex()-1-part.applied]
	for n := len(b.sent[k]); n > 0 && offsetOf(b.sent[k][n-1].head.BaseOffset) >= l.LogEnd(); n-- {
		b.sent[k] = b.sent[k][:n-1]
	}
}

func (b *logBench) anyEnd(rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		b.settle()

		b.close()

		b.open()
	case 1:
		b.dev = b.dev.Kill()
		b.pool = block.NewPool(32 << 20)
		b.open()
	default:
		b.crash()
	}
}
