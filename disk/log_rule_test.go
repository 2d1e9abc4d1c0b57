package disk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// events lets n completions happen, with an end of turn now and then, and stops anywhere.
func (b *logBench) events(rng *rand.Rand, n int) {
	for range n {
		b.now += 1e5
		b.dev.Step(b.now)
		if rng.IntN(3) == 0 {
			b.s.EndTurn(b.now)
		}
	}
}

// (a) A reference lands and its data does not: power fails while a direct batch is on its way. What was durable must be
// there, and a reference without its bytes must not be.
func TestRule02DataBeforeReference(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := newLogBench(t, seed, smallConfig())
		b.mustAppend(testKey, 100)
		b.settle()
		b.mustAppend(testKey, 90_000)
		b.events(rng, rng.IntN(12))
		durable := b.log(testKey).DurableEnd()
		b.crash()
		b.mustBeClean()
		b.lost(testKey, durable)
		b.check(testKey)
	}
}

// (b) A slow direct batch is followed by a small one, which must not be durable before it: the log would have a hole
// below an acknowledged offset.
func TestRule02LaterAppendsWait(t *testing.T) {
	b := newLogBench(t, 3, smallConfig())
	b.mustAppend(testKey, 100)
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/", StallNanos: 1e12})
	b.mustAppend(testKey, 90_000, 100)
	for range 50 {
		b.turn()
	}
	if end := b.log(testKey).DurableEnd(); end != 1 {
		t.Fatalf("durable end %d while the batch at 1 is on its way", end)
	}
	b.crash()
	b.mustBeClean()
	b.lost(testKey, 1)
	b.check(testKey)
}

// (c) A direct batch begins and ends in the middle of a block, with small ones on both sides: no byte of any of them may
// be left to nobody.
func TestRule02BothEndsAreWritten(t *testing.T) {
	for seed := range uint64(10) {
		b := newLogBench(t, seed, smallConfig())
		b.mustAppend(testKey, 100, 50_001, 33, 20_003, 20_001, 7)
		b.settle()
		b.crash()
		b.mustBeClean()
		b.lost(testKey, 6)
		b.check(testKey)
	}
}

// (d) A large batch stands in memory at a phase that the medium would refuse.
func TestRule02AnyPhaseInMemory(t *testing.T) {
	b := newLogBench(t, 5, smallConfig())
	for n := range 8 {
		b.mustAppend(testKey, 30_000+n)
	}
	b.settle()
	if end := b.log(testKey).DurableEnd(); end != 8 {
		t.Fatalf("durable end %d, want 8 (fenced: %v)", end, b.log(testKey).fenced)
	}
	b.check(testKey)
}

// Padding lies between batches wherever a tail was placed or a direct batch stands; no reader gets it, hot or cold.
func TestRule08PaddingIsNotHandedOut(t *testing.T) {
	b := newLogBench(t, 6, smallConfig())
	for range 6 {
		b.mustAppend(testKey, 10, 700, 20_000)
		b.check(testKey)
		b.settle()
		b.log(testKey).SyncNow()
	}
	b.check(testKey)
	b.close()
	b.open()
	b.check(testKey)
}

// A partition that is idle and placed holds no memory, whatever was in its last block.
func TestRule08PlacedTailHoldsNoMemory(t *testing.T) {
	b := newLogBench(t, 7, smallConfig())
	before := b.pool.Stats().InUse
	for p := range uint32(50) {
		b.mustAppend(Key{9, p}, 100+int(p))
	}
	b.settle()
	placed := 0
	for p := range uint32(50) {
		b.log(Key{9, p}).place(func(err error) {
			if err == nil {
				placed++
			}
		})
	}
	b.settle()
	if placed != 50 {
		t.Fatalf("%d of 50 tails placed", placed)
	}
	if after := b.pool.Stats().InUse; after != before {
		t.Fatalf("%d bytes in use, %d before the appends", after, before)
	}
	for p := range uint32(50) {
		b.check(Key{9, p})
	}
}

// (c) Segments are unlinked for a trim that a power cut takes back: a start would miss them.
func TestRule12UnlinkWaitsForTheTrim(t *testing.T) {
	for seed := range uint64(10) {
		b := newLogBench(t, seed, smallConfig())
		b.opt[testKey] = LogOptions{Journaled: true, SegmentBytes: 8 << 10}
		for range 6 {
			b.mustAppend(testKey, 5000)
			b.settle()
			b.log(testKey).SyncNow()
		}
		b.settle()
		b.close()
		b.open() // the journal holds nothing of them any more
		b.trim(testKey, 4)
		for range 40 { // no end of turn: the trim stays where it is
			b.now += 1e6
			b.dev.Step(b.now)
		}
		b.crash()
		b.mustBeClean()
		if start := b.log(testKey).LogStart(); start != 0 {
			t.Fatalf("log start %d, but the trim was never written", start)
		}
		b.check(testKey)
	}
}

// (a), (b) Records expire before they are placed, and a reference names a segment that is gone: after a crash neither
// comes back, and neither is damage.
func TestRule12TrimmedStaysAway(t *testing.T) {
	for seed := range uint64(10) {
		b := newLogBench(t, seed, smallConfig())
		b.opt[testKey] = LogOptions{Journaled: true, SegmentBytes: 32 << 10}
		b.mustAppend(testKey, 30_000, 100, 30_000, 100, 100, 200)
		b.settle()
		b.trim(testKey, 5)
		b.settle()
		b.crash()
		b.mustBeClean()
		if start := b.log(testKey).LogStart(); start != 5 {
			t.Fatalf("log start %d, want 5", start)
		}
		if _, err := b.read(testKey, &Read{From: Cursor{Offset: 1}, MaxBytes: 100}); !errors.Is(err, ErrOutOfRange) {
			t.Fatalf("read below the log start: %v", err)
		}
		b.check(testKey)
	}
}

// landUnacknowledged leaves two direct batches on the medium whose references are not in the journal, and cuts the power.
// They have offsets 1 and 2; what was durable ends at 1.
func landUnacknowledged(t *testing.T, seed uint64) *logBench {
	b := newLogBench(t, seed, smallConfig())
	b.mustAppend(testKey, 100)
	b.settle()
	b.log(testKey).SyncNow() // placed: replay has nothing to write to the old file
	b.settle()
	b.mustAppend(testKey, 40_000, 40_000)
	for range 40 {
		b.now += 1e6
		b.dev.Step(b.now) // no end of turn: the writes land, nothing is staged further
	}
	b.crash()
	b.mustBeClean()
	return b
}

// An unacknowledged direct write landed. Its positions are written again with other content, of the same length in
// blocks; behind it an old batch with the expected offset and a valid CRC remains. Only the journal knows the end.
func TestRule16EndComesFromTheJournal(t *testing.T) {
	for seed := range uint64(5) {
		b := landUnacknowledged(t, seed)
		if end := b.log(testKey).LogEnd(); end != 1 {
			t.Fatalf("log end %d, want 1: the references were never written", end)
		}
		b.lost(testKey, 1)
		b.mustAppend(testKey, 39_500) // shorter, and its successor would have offset 2
		b.settle()
		b.crash()
		b.mustBeClean()
		if end := b.log(testKey).LogEnd(); end != 2 {
			t.Fatalf("log end %d, want 2", end)
		}
		b.check(testKey)
	}
}

// After an unclean start the partition goes on in a new file: bytes of earlier starts are never written over, because a
// write in place could tear what is durable beside them.
func TestRule16NewSegmentAfterACrash(t *testing.T) {
	b := landUnacknowledged(t, 9)
	before := b.dev.Paths()
	old := make(map[string]string)
	for _, p := range before {
		if len(p) > 6 && p[:6] == "topics" {
			old[p] = string(b.dev.Peek(p))
		}
	}
	b.lost(testKey, 1)
	b.dev.Plan(SimFault{Kind: OpRemove, Err: 5}) // keep the file that a sweep may remove, to look at it
	b.mustAppend(testKey, 39_500, 10)
	b.settle()
	if len(old) == 0 {
		t.Fatal("no segment before the crash")
	}
	for p, bytes := range old {
		if now := string(b.dev.Peek(p)); now[:min(len(bytes), len(now))] != bytes {
			t.Errorf("%s was written over", p)
		}
	}
	if n := len(slices.DeleteFunc(b.dev.Paths(), func(p string) bool { return slices.Contains(before, p) })); n == 0 {
		t.Error("no new file")
	}
	b.check(testKey)
}
