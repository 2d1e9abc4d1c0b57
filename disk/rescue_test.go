package disk

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// rescueFiles are the names of the rescue files on the medium.
func rescueFiles(h *harness) (names []string) {
	for _, p := range h.dev.Paths() {
		if strings.Contains(p, rescuePrefix) {
			names = append(names, p)
		}
	}
	return names
}

// turnRing goes on with another partition until every generation that is live now has been given back.
func turnRing(h *harness) {
	h.t.Helper()
	last := h.s.journal.at / h.s.journal.perFile
	h.until("the ring has turned", func() bool { return h.s.journal.durable.Dead > last })
	h.settle()
}

// A partition has damage in the middle and most of the ring behind it. The ring is free again after one round: nobody else
// is refused, what lies behind the damage is on the disk once, and what lies below is read at every later start.
func TestRule09DamagedPartitionLeavesTheRing(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFiles = 8
	b := newLogBench(t, 81, cfg)
	j := b.s.journal
	b.mustAppend(testKey, 700, 700, 700)
	b.settle()
	hurt := j.at
	b.mustAppend(testKey, 700)
	b.settle()
	for j.at < j.perFile+j.ringBlocks()/2-20 { // the checkpoint has not begun
		b.mustAppend(testKey, 5000)
		b.turn()
	}
	b.settle()
	b.cut()
	b.dev.Flip(journalPath(0, j.fileOf(hurt/j.perFile)), int64(hurt%j.perFile*blockBytes)+200, 1)
	b.open()
	if len(b.report.Damages) != 1 || b.report.Damages[0].Index != 3 {
		t.Fatalf("damages: %v", b.report)
	}
	b.sent[testKey] = b.sent[testKey][:3]
	b.check(testKey)
	turnRing(b.harness)
	if used, ring := b.s.journal.used(), b.s.journal.ringBlocks(); used > ring/2+b.s.journal.perFile {
		t.Errorf("%d of %d blocks are live after a whole round", used, ring)
	}
	files := rescueFiles(b.harness)
	if len(files) == 0 || len(files) > cfg.JournalFiles {
		t.Errorf("rescue files: %v", files)
	}
	for range 3 {
		turnRing(b.harness)
		b.crash()
		if len(b.report.Damages) != 1 || b.report.Damages[0].Index != 3 || len(b.report.Blocks) > 0 {
			t.Fatalf("damages: %v", b.report)
		}
		b.check(testKey)
		if got := rescueFiles(b.harness); !slices.Equal(got, files) {
			t.Errorf("rescue files: %v, then %v", files, got)
		}
	}
}

// The id of a partition is unknown to meta for some starts, and the ring turns. When it is known again all of it is there,
// and the rescue files go once segments and snapshot have what they held.
func TestUnknownPartitionComesBack(t *testing.T) {
	for seed := range uint64(12) {
		cutShort := seed > 0
		cfg := smallConfig()
		cfg.JournalFiles = 8
		b := newLogBench(t, 100+seed, cfg)
		b.mustAppend(testKey, 700, 20_000, 3000, 5000, 40_000, 15_000, 15_000, 15_000, 10)
		b.note(testKey, "a note")
		b.settle()
		want := slices.Clone(b.state()[testKey])
		b.m.exist[testKey] = Unknown
		b.crash()
		if cutShort { // power fails in the first rescue
			b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/rescue", Times: 1, StallNanos: 1e18})
			b.until("a rescue", func() bool { return len(rescueFiles(b.harness)) > 0 })
			b.crash()
			if len(b.report.Blocks) > 0 {
				t.Fatalf("seed %d: a rescue that was cut short counts as damage: %v", seed, b.report)
			}
		}
		turnRing(b.harness)
		b.crash()
		turnRing(b.harness)
		if len(rescueFiles(b.harness)) == 0 {
			t.Fatal("nothing was rescued")
		}
		b.m.exist[testKey] = Live
		b.crash()
		b.mustBeClean()
		if got := b.state()[testKey]; !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d of %d entries", seed, len(got), len(want))
		}
		b.check(testKey)
		b.mustAppend(testKey, 100)
		turnRing(b.harness)
		b.crash()
		b.mustBeClean()
		b.check(testKey)
		if files := rescueFiles(b.harness); len(files) > 0 {
			t.Errorf("seed %d: nobody needs %v", seed, files)
		}
	}
}

// A partition whose files fail is fenced with most of it in its segments: only what is not there is rescued.
func TestRescueLeavesOutWhatIsPlaced(t *testing.T) {
	b := newLogBench(t, 85, smallConfig())
	b.mustAppend(testKey, 12_000, 12_000, 12_000, 12_000)
	b.settle()
	b.log(testKey).SyncNow()
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Err: syscall.EIO})
	b.mustAppend(testKey, 700)
	b.settle()
	b.log(testKey).SyncNow()
	turnRing(b.harness)
	size := 0
	for _, name := range rescueFiles(b.harness) {
		size += len(b.dev.Peek(name))
	}
	if len(b.m.fenced) != 1 || size == 0 || size > 2*blockBytes {
		t.Errorf("fenced %v, %d bytes rescued", b.m.fenced, size)
	}
	b.dev.ClearPlans()
	b.crash()
	b.mustBeClean()
	b.check(testKey)
}

// A rescue that fails is told and tried again; meanwhile its generation is not given back.
func TestRescueSurvivesAFullDisk(t *testing.T) {
	b := newLogBench(t, 83, smallConfig())
	b.mustAppend(testKey, 700, 5000)
	b.settle()
	b.m.exist[testKey] = Unknown
	b.crash()
	for _, kind := range []OpKind{OpCreate, OpWrite, OpSyncDir} {
		b.dev.Plan(SimFault{Kind: kind, Prefix: "shard-00", Match: func(op *Op) bool {
			return kind == OpSyncDir || strings.Contains(op.Path, rescuePrefix) || kind == OpWrite && op.Class == ClassCold && op.Sync
		}, Err: syscall.ENOSPC})
		for i := 0; b.s.checkpoint.err == nil && i < 20_000; i++ {
			_ = b.tryNote(Key{1, 0}, fmt.Sprintf("%0900d", i))
			b.turn()
		}
		if b.s.checkpoint.err == nil || b.s.journal.durable.Dead > 0 {
			t.Fatalf("kind %d: checkpoint error %v, dead %d", kind, b.s.checkpoint.err, b.s.journal.durable.Dead)
		}
		b.dev.ClearPlans()
		b.s.checkpoint.err = nil
	}
	b.now += 2e9
	b.until("the first file is given back", func() bool { return b.s.journal.durable.Dead > 0 })
	b.m.exist[testKey] = Live
	b.crash()
	b.mustBeClean()
	b.check(testKey)
}

// A rescue fails in the middle, and then nobody needs it: the partition is deleted. The part that was written does not
// outlive its generation, so no later start takes it for damage.
func TestRescueInPartIsRemoved(t *testing.T) {
	b := newLogBench(t, 86, smallConfig())
	b.mustAppend(testKey, 12_000, 12_000, 12_000)
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Err: syscall.EIO})
	b.log(testKey).SyncNow()
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/rescue", Times: 1, Err: syscall.ENOSPC})
	b.until("a rescue fails", func() bool { return b.s.checkpoint.err != nil })
	if len(rescueFiles(b.harness)) == 0 {
		t.Fatal("nothing is left in part")
	}
	b.dev.ClearPlans()
	if _, err := b.log(testKey).Drop(1); err != nil {
		t.Fatal(err)
	}
	b.until("it is dropped", func() bool { return b.log(testKey).member.dropped })
	b.now += 2e9
	turnRing(b.harness)
	if files := rescueFiles(b.harness); len(files) > 0 {
		t.Errorf("left: %v", files)
	}
}

// Each byte of a rescue file is flipped: what it held is there, or damage is reported.
func TestFlippedRescueFileIsReported(t *testing.T) {
	b := newLogBench(t, 84, smallConfig())
	b.mustAppend(testKey, 60, 400)
	b.note(testKey, "a note")
	b.settle()
	want := slices.Clone(b.state()[testKey])
	b.m.exist[testKey] = Unknown
	b.crash()
	turnRing(b.harness)
	files := rescueFiles(b.harness)
	if len(files) != 1 {
		t.Fatalf("rescue files: %v", files)
	}
	b.m.exist[testKey] = Live
	size := len(b.dev.Peek(files[0]))
	for at := 0; at < size; at += 1 + at/1024*16 {
		b.cut()
		b.dev.Flip(files[0], int64(at), uint(at%8))
		b.open()
		if got := b.state()[testKey]; !slices.Equal(got, want) && !b.report.Damaged() {
			t.Fatalf("byte %d: %d of %d entries, and nothing is reported:\n%s", at, len(got), len(want), b.report)
		}
		b.dev.Flip(files[0], int64(at), uint(at%8))
	}
}
