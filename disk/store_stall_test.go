package disk

import (
	"errors"
	"slices"
	"syscall"
	"testing"
)

// A journal flush hangs for five seconds. After one the shard is stalled: produce is refused with nothing staged, what is
// durable is read; the late completion resumes and acknowledges.
func TestRule30Stall(t *testing.T) {
	h := newHarness(t, 31, smallConfig())
	k := Key{1, 0}
	if err := h.produce(k, 100); err != nil {
		t.Fatal(err)
	}
	h.settle()
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/journal", Times: 1, StallNanos: 5e9})
	if err := h.produce(k, 100); err != nil {
		t.Fatal(err)
	}
	h.turn()
	began := h.now
	for h.now < began+2e9 {
		h.now += 50e6
		h.turn()
	}
	if !slices.Equal(h.m.stalls, []bool{true}) {
		t.Fatalf("stalls: %v", h.m.stalls)
	}
	end := h.log(k).LogEnd()
	if err := h.produce(k, 100); err != ErrBusy || h.log(k).LogEnd() != end {
		t.Fatalf("produce during a stall: %v, log end %d, was %d", err, h.log(k).LogEnd(), end)
	}
	r := &Read{From: Cursor{Offset: 0}, Limit: 1, MaxBytes: 1 << 16, Done: func(*Read) {}}
	if !h.log(k).Read(r) || r.Err != nil || r.Records != 1 {
		t.Errorf("read during a stall: %d records, %v", r.Records, r.Err)
	}
	r.Release()
	for h.now < began+6e9 {
		h.now += 50e6
		h.turn()
	}
	if !slices.Equal(h.m.stalls, []bool{true, false}) {
		t.Errorf("stalls: %v", h.m.stalls)
	}
	if err := h.produce(k, 100); err != nil {
		t.Errorf("produce after the stall: %v", err)
	}
	h.settle()
	if n := len(h.state()[k]); n != 3 {
		t.Errorf("%d of 3 batches are durable", n)
	}
}

// A journal write fails: the machine hears it once, nothing more is acknowledged or admitted, and nothing is written to
// the journal again; the next start finds what had been acknowledged.
func TestFailedFlushIsFinal(t *testing.T) {
	h := newHarness(t, 32, smallConfig())
	h.note(Key{1, 0}, "acknowledged")
	h.settle()
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/journal", Times: 1, Err: syscall.EIO})
	writes := 0
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/journal", Match: func(*Op) bool { writes++; return false }})
	h.note(Key{1, 0}, "lost")
	h.note(Key{1, 1}, "lost")
	h.settle()
	if len(h.m.failed) != 1 || !errors.Is(h.m.failed[0], syscall.EIO) {
		t.Fatalf("Failed: %v", h.m.failed)
	}
	after := writes
	if err := h.s.Room(1); err != ErrFailed {
		t.Errorf("Room: %v", err)
	}
	if err := h.tryNote(Key{1, 0}, "more"); err != ErrFailed {
		t.Errorf("Note: %v", err)
	}
	for range 100 {
		h.now += 1e9
		h.turn()
	}
	if got := h.state(); len(got) != 1 || len(got[Key{1, 0}]) != 1 || len(h.m.failed) != 1 || writes != after {
		t.Errorf("after the failure: %v, Failed %d times, %d writes more", got, len(h.m.failed), writes-after)
	}
	h.dev.ClearPlans()
	h.crash()
	h.mustBeClean()
	if got := h.state()[Key{1, 0}]; len(got) == 0 || got[0] != "acknowledged" {
		t.Errorf("recovered %v", got)
	}
}
