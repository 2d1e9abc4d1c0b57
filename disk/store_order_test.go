package disk

import (
	"slices"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// orderDevice notes the class of each write it is given.
type orderDevice struct {
	*Sim
	writes []Class
}

func (d *orderDevice) Submit(op *Op) {
	if op.Kind == OpWrite {
		d.writes = append(d.writes, op.Class)
	}
	d.Sim.Submit(op)
}

// A turn in which tails become ready to be placed and entries are staged gives the commit group to the device first: a ring
// starts requests in the order in which it gets them.
func TestCommitGroupGoesBeforeTails(t *testing.T) {
	cfg := smallConfig()
	cfg.Start, cfg.JournalFileBytes, cfg.StagedBytes = 1, 4<<20, 2<<20
	dev := &orderDevice{Sim: NewSim(SimOptions{Seed: 3})}
	h := &harness{t: t, cfg: cfg, dev: dev.Sim, m: newTestMachine(), pool: block.NewPool(64 << 20)}
	var err error
	if h.s, _, err = Open(cfg, dev, h.pool, h.m, h.options); err != nil {
		t.Fatal(err)
	}
	h.next = make(map[Key]batch.Offset)
	both := 0
	for i := range 1000 {
		for p := range uint32(8) {
			_ = h.produce(Key{1, p}, 12_000)
		}
		dev.writes = dev.writes[:0]
		h.turn()
		journal, tail := slices.Index(dev.writes, ClassJournal), slices.Index(dev.writes, ClassTail)
		if journal < 0 || tail < 0 {
			continue
		}
		if both++; tail < journal {
			t.Fatalf("turn %d: %v", i, dev.writes)
		}
	}
	if both < 10 {
		t.Errorf("%d turns with both: the test proves nothing", both)
	}
}
