package disk

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// The disk is full for the state log: the checkpoint fails and is reported, acks go on while there is room, and once there
// is space again the state log is written anew and files are given back.
func TestCheckpointSurvivesAFullDisk(t *testing.T) {
	h := newHarness(t, 71, smallConfig())
	h.dev.Plan(SimFault{Prefix: "shard-00/state", Match: func(op *Op) bool { return op.Kind == OpWrite || op.Kind == OpCreate }, Err: syscall.ENOSPC})
	for i := range 3000 {
		_ = h.tryNote(Key{1, uint32(i % 4)}, string(make([]byte, 900)))
		h.turn()
	}
	if h.s.checkpoint.err == nil || h.s.journal.durable.Dead != 0 {
		t.Fatalf("the checkpoint does not notice: dead %d", h.s.journal.durable.Dead)
	}
	if h.s.Room(100) != ErrBusy {
		t.Error("produce is admitted to a journal that cannot be given back")
	}
	if got := h.s.Stats().CheckpointErr; got == nil {
		t.Error("the operator is not told")
	}
	h.dev.ClearPlans()
	h.now += 10e9
	h.settle()
	h.until("files are given back", func() bool { return h.s.journal.durable.Dead > 3 })
	h.settle()
	want := h.state()
	h.crash()
	h.mustBeClean()
	if !sameState(h.state(), want) {
		t.Error("state differs")
	}
}

// One partition's segments fail twice: it is fenced, its entries are written out of the files that are given back, and a
// later start, on a healthy disk, has them all.
func TestRule09FencedPartitionBlocksNobody(t *testing.T) {
	for _, files := range []uint64{1, 2, 9} {
		t.Run(fmt.Sprint(files, " given back"), func(t *testing.T) { fencedPartition(t, files) })
	}
}

func fencedPartition(t *testing.T, files uint64) {
	cfg := smallConfig()
	cfg.JournalFiles = 8
	h := newHarness(t, 72, cfg)
	k := Key{1, 0}
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/1/0/", Err: syscall.EIO})
	for i := range uint64(5) { // over several generations
		if err := h.produce(k, 700); err != nil {
			t.Fatal(err)
		}
		h.until("half a file more", func() bool { return 2*h.s.journal.at > (3+i)*h.s.journal.perFile })
	}
	h.settle()
	want := slices.Clone(h.state()[k])
	h.until("files are given back", func() bool { return h.s.journal.durable.Dead >= files })
	if !slices.Equal(h.m.fenced, []Key{k}) {
		t.Fatalf("fenced: %v", h.m.fenced)
	}
	h.dev.ClearPlans()
	h.crash()
	h.mustBeClean()
	if got := h.state()[k]; len(want) != 5 || !slices.Equal(got, want) {
		t.Fatalf("%d of %d acknowledged batches are left: %v", len(got), len(want), got)
	}
	if err := h.produce(k, 700); err != nil {
		t.Errorf("produce after a start on a healthy disk: %v", err)
	}
	h.settle()
	r := &Read{From: Cursor{Offset: 0}, Limit: 6, MaxBytes: 1 << 16, Done: func(*Read) {}}
	if !h.log(k).Read(r) || r.Err != nil || r.Records != 6 {
		t.Errorf("read: %d records, %v", r.Records, r.Err)
	}
	r.Release()
}

// The state log stays within a small multiple of what is live in it.
func TestStateLogIsWrittenAnew(t *testing.T) {
	h := newHarness(t, 73, smallConfig())
	files := map[string]bool{}
	for i := range 30_000 {
		if h.tryNote(Key{1, uint32(i % 4)}, "") != nil || i%20 == 0 {
			h.turn()
		}
		if i%1000 == 0 {
			for _, p := range h.m.parts { // keep the snapshots small
				p.entries = p.entries[:0]
			}
		}
	}
	h.settle()
	for _, p := range h.dev.Paths() {
		files[p] = true
	}
	if st := h.s.state; st.end > 2*st.live+stateSlack+2*writeBytes || files["shard-00/state.new"] {
		t.Errorf("state log of %d bytes, %d live; files %v", st.end, st.live, files)
	}
	if h.s.state.rewrites == 0 {
		t.Error("it was never written anew")
	}
}

// However large the ring is, a start has to read 384 MiB of it at most before produce is refused, and the checkpoint
// begins at half of that.
func TestLiveJournalIsBounded(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFiles, cfg.JournalFileBytes = 8, 128<<20
	h := newHarness(t, 1, cfg)
	j := h.s.journal
	for _, c := range []struct {
		live          uint64
		due, admitted bool
	}{{liveBlocks - 64, false, true}, {liveBlocks, true, true}, {2*liveBlocks - 64, true, true}, {2 * liveBlocks, true, false}} {
		j.at = j.perFile + c.live
		if due, admitted := h.s.checkpoint.due(), h.s.Room(100) == nil; due != c.due || admitted != c.admitted {
			t.Errorf("%d MiB live: checkpoint due %v, produce admitted %v", c.live*blockBytes>>20, due, admitted)
		}
		if err := h.s.roomForNote(100); err != nil {
			t.Errorf("%d MiB live: a note is refused: %v", c.live*blockBytes>>20, err)
		}
	}
}
