package disk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
)

// 12,500 partitions have a small tail each. The checkpoint pads and places them, finishes while appends go on, and the
// ring is given back, again and again.
func TestRule08SmallTails(t *testing.T) {
	partitions := 12_500
	if testing.Short() {
		partitions = 2_000
	}
	cfg := smallConfig()
	cfg.JournalFiles, cfg.JournalFileBytes, cfg.GroupBytes, cfg.StagedBytes = 8, 2<<20, 256<<10, 1<<20
	h := &harness{t: t, cfg: cfg, dev: NewSim(SimOptions{Seed: 21}), pool: block.NewPool(256 << 20)}
	h.open()
	for p := range partitions {
		for h.produce(Key{1, uint32(p)}, 330) != nil {
			h.turn()
		}
		if p%16 == 0 {
			h.turn()
		}
	}
	j := h.s.journal
	target := j.at/j.perFile + 1 + uint64(cfg.JournalFiles)
	for i, turns := 0, 0; j.durable.Dead < target; i++ {
		if turns > 60_000 {
			t.Fatalf("the checkpoint does not finish: dead %d of %d, at %d, checkpoints %d", j.durable.Dead, target, j.at/j.perFile, h.s.checkpoint.finished)
		}
		if err := h.tryNote(Key{2, uint32(i % 5)}, fmt.Sprintf("%0*d", 4000, i)); err != nil || i%16 == 0 {
			h.turn()
			turns++
		}
	}
	h.settle()
	waiting := 0
	for _, l := range h.s.order {
		if !l.placed() {
			waiting++
		}
	}
	if waiting > 5 {
		t.Errorf("%d idle partitions still have a tail in memory", waiting)
	}
	want := h.state()
	h.dev = h.dev.Crash()
	h.pool = block.NewPool(256 << 20)
	h.open()
	h.mustBeClean()
	if !sameState(h.state(), want) {
		t.Error("state differs")
	}
}

// Nothing gives the ring back: the state log's writes hang. Produce is refused while a quarter of the room is left, and
// acks, commits and deletes go on in it.
func TestRule09QuarterStaysOpenToTheRest(t *testing.T) {
	h := newHarness(t, 22, largeConfig())
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/state", StallNanos: 1e18})
	refused := 0
	for i := range 5000 {
		if h.produce(Key{1, uint32(i % 3)}, 700) == ErrBusy {
			refused++
		}
		h.turn()
	}
	if refused == 0 {
		t.Fatal("produce is never refused")
	}
	acks := 0
	for range 20 {
		if err := h.tryNote(Key{1, 0}, "ack"); err != nil {
			t.Fatalf("ack %d is refused although the rest of the ring is for it: %v", acks, err)
		}
		acks++
		for range 5 {
			h.turn()
		}
	}
	p := h.m.part(Key{1, 0})
	if got := p.entries[len(p.entries)-acks:]; len(p.staged) > 0 || slices.ContainsFunc(got, func(e string) bool { return e != "ack" }) {
		t.Errorf("the acks are not durable: %d staged", len(p.staged))
	}
	h.dev.ClearPlans()
}

// A checkpoint of 500 partitions costs a few writes of one file, not one each.
func TestRule25OneStateFile(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFileBytes = 256 << 10
	h := newHarness(t, 23, cfg)
	writes := 0
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/state", Match: func(*Op) bool { writes++; return false }})
	for i := range 500 {
		h.note(Key{1, uint32(i)}, fmt.Sprint(i))
	}
	h.settle()
	before := h.s.checkpoint.finished
	for i := 0; h.s.checkpoint.finished == before; i++ {
		_ = h.tryNote(Key{2, 0}, fmt.Sprintf("%0*d", 900, i))
		h.turn()
		if i > 10_000 {
			t.Fatal("no checkpoint")
		}
	}
	if writes == 0 || writes > 20 {
		t.Errorf("%d writes to the state log for 500 partitions", writes)
	}
	for _, p := range h.dev.Paths() {
		if p != "shard-00/state" && len(p) > 13 && p[:13] == "shard-00/stat" {
			t.Errorf("another state file: %s", p)
		}
	}
}
