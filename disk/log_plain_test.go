package disk

import (
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
)

func plainBench(t testing.TB, seed uint64, every int64) *logBench {
	b := newLogBench(t, seed, smallConfig())
	b.opt[testKey] = LogOptions{SyncEvery: every, SegmentBytes: 64 << 10}
	return b
}

// An interval log is durable by its flush, not by the journal: the durable end follows within the interval.
func TestIntervalLogFlushesByItself(t *testing.T) {
	b := plainBench(t, 1, 5e6)
	b.mustAppend(testKey, 100, 200, 300)
	b.turn()
	if end := b.log(testKey).DurableEnd(); end != 0 {
		t.Fatalf("durable end %d before any flush", end)
	}
	before := b.log(testKey).NextIndex()
	for range 100 {
		b.turn()
	}
	if end := b.log(testKey).DurableEnd(); end != 3 {
		t.Fatalf("durable end %d after 10 ms, want 3", end)
	}
	if next := b.log(testKey).NextIndex(); next != before {
		t.Errorf("the flush took %d journal entries", next-before)
	}
	b.check(testKey)
	b.crash()
	b.mustBeClean()
	b.lost(testKey, 3)
	b.check(testKey)
}

// A log without an interval is durable where its pieces filled; recovery finds that much by a scan, and no more is lost
// than was never flushed.
func TestUnflushedEndIsFoundByAScan(t *testing.T) {
	for seed := range uint64(20) {
		b := plainBench(t, seed, 0)
		b.opt[testKey] = LogOptions{SegmentBytes: 1 << 20}
		for range 50 {
			b.mustAppend(testKey, 9000, 100, 20_000)
			b.turn()
		}
		durable := b.log(testKey).DurableEnd()
		if durable == 0 {
			t.Fatal("nothing was written out")
		}
		b.crash()
		b.mustBeClean()
		b.lost(testKey, durable)
		b.check(testKey)
		b.mustAppend(testKey, 100)
		b.settle()
		b.close()
		b.open()
		b.mustBeClean()
		b.check(testKey)
	}
}

// Changing the durability goes on in another segment and loses nothing.
func TestDurabilityMayChange(t *testing.T) {
	b := plainBench(t, 3, 2e6)
	b.mustAppend(testKey, 100, 200)
	b.opt[testKey] = LogOptions{Journaled: true}
	b.log(testKey).SetOptions(b.options(testKey))
	b.mustAppend(testKey, 300, 20_000)
	b.settle()
	if end := b.log(testKey).DurableEnd(); end != 4 {
		t.Fatalf("durable end %d, want 4", end)
	}
	b.opt[testKey] = LogOptions{SyncEvery: 2e6}
	b.log(testKey).SetOptions(b.options(testKey))
	b.mustAppend(testKey, 50)
	for range 100 {
		b.turn()
	}
	b.check(testKey)
	b.crash()
	b.mustBeClean()
	b.lost(testKey, 5)
	b.check(testKey)
}

// Seek finds the first batch at or after a time: in the tail, in segments, across their borders, and at the end.
func TestSeekByTime(t *testing.T) {
	b := coldFixture(t)
	b.mustAppend(testKey, 100, 200) // hot; testBatch appends at 1000 + offset
	end := b.log(testKey).LogEnd()
	for time := int64(990); time < 1005+int64(end); time++ {
		want, found := batch.Offset(max(time-1000, 0)), max(time, 1000)
		if want >= end {
			want, found = end, 0
		}
		done := false
		s := &Seek{Time: time, Done: func(*Seek) { done = true }}
		if !b.log(testKey).Seek(s) {
			for !done {
				if b.dev.InFlight() == 0 {
					t.Fatal("seek waits for nothing")
				}
				if err := b.dev.Wait(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s.Err != nil || s.Offset != want || s.Found != found {
			t.Fatalf("seek to %d: offset %d, time %d, %v; want %d, %d", time, s.Offset, s.Found, s.Err, want, found)
		}
	}
}

// A byte rots far below the end of a log outside the journal: what was flushed behind it proves that it was durable, so
// the scan reports damage and does not call it a torn end.
func TestScanTellsDamageFromATornEnd(t *testing.T) {
	b := plainBench(t, 4, 0)
	b.opt[testKey] = LogOptions{SegmentBytes: 2 << 20}
	for range 50 {
		b.mustAppend(testKey, 20_000)
		b.settle()
	}
	path := b.log(testKey).segments[0].path("log")
	b.dev = b.dev.Crash()
	b.dev.Flip(path, 45_000, 2)
	b.open()
	if len(b.report.Damages) != 1 || b.report.Damages[0].From != 2 || b.report.Damages[0].To <= 2 {
		t.Fatalf("report: %s", b.report)
	}
	b.lost(testKey, 2)
	b.check(testKey)
}
