package disk

import "testing"

// A segment outside the journal is begun while a checkpoint places the one before it. The entry that names the new one is
// durable, none of its batches is, and the snapshot is taken: replay skips the entry, so the snapshot must have the name,
// or the batches that land next are acknowledged and never found.
func TestRule13SnapshotNamesEverySegment(t *testing.T) {
	b := newLogBench(t, 1, smallConfig())
	b.opt[testKey] = LogOptions{SyncEvery: 3600e9, SegmentBytes: 64 << 10}
	b.mustAppend(testKey, 100, 30_000)
	l := b.log(testKey)
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: directory(testKey), Times: 1, StallNanos: 20e6})
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: directory(testKey), After: 1, StallNanos: 500e6})
	b.until("the checkpoint places it", func() bool { return len(l.waiters) > 0 })
	b.mustAppend(testKey, 60_000)
	l.SyncNow()
	finished := b.s.checkpoint.finished
	for b.s.checkpoint.finished == finished {
		b.turn()
	}
	if l.DurableEnd() != 2 || len(l.segments) != 2 || l.segments[1].note > l.durableIndex {
		t.Fatalf("durable end %d, %d segments, the second named at %d of %d", l.DurableEnd(), len(l.segments), l.segments[1].note, l.durableIndex)
	}
	b.settle()
	if l.DurableEnd() != 3 {
		t.Fatalf("durable end %d, want 3", l.DurableEnd())
	}
	b.crash()
	b.mustBeClean()
	if end := b.log(testKey).DurableEnd(); end != 3 {
		t.Fatalf("durable end %d after the crash, want 3: the second segment is lost", end)
	}
	b.lost(testKey, 3)
	b.check(testKey)
}

// The durable end at a snapshot lies in the middle of a block, where a piece ended inside a batch. The scan of the next
// start must go on with that batch, not with the next block.
func TestRule13ScanGoesOnAtTheDurableEnd(t *testing.T) {
	b := newLogBench(t, 1, smallConfig())
	b.opt[testKey] = LogOptions{SyncEvery: 3600e9, SegmentBytes: 4 << 20}
	b.mustAppend(testKey, 100, 30_000)
	l := b.log(testKey)
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: directory(testKey), Times: 1, StallNanos: 20e6})
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: directory(testKey), After: 2, StallNanos: 500e6})
	b.until("the checkpoint places it", func() bool { return len(l.waiters) > 0 })
	for range 30 {
		b.mustAppend(testKey, 20_000)
	}
	finished := b.s.checkpoint.finished
	for b.s.checkpoint.finished == finished {
		b.turn()
	}
	if end := l.DurableEnd(); end <= 2 || end == 32 || l.tail.batches.at(l.durableN).at%blockBytes == 0 {
		t.Fatalf("durable end %d", end)
	}
	l.SyncNow()
	b.settle()
	if l.DurableEnd() != 32 {
		t.Fatalf("durable end %d, want 32", l.DurableEnd())
	}
	b.crash()
	b.mustBeClean()
	if end := b.log(testKey).DurableEnd(); end != 32 {
		t.Fatalf("durable end %d after the crash, want 32", end)
	}
	b.lost(testKey, 32)
	b.check(testKey)
}
