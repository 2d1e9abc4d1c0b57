package disk

import (
	"testing"

	"github.com/slipringmq/slipring/loop/block"
)

// A journal holds more tail bytes than memory has room for: replay writes segments as it goes (R26), and all of it is
// there afterwards.
func TestReplayFitsIntoLittleMemory(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFiles, cfg.JournalFileBytes, cfg.StagedBytes = 4, 4<<20, 256<<10
	b := newLogBench(t, 1, cfg)
	keys := []Key{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}}
	for i := range 420 {
		b.mustAppend(keys[i%len(keys)], 15_000)
	}
	b.settle()
	if b.s.checkpoint.finished > 0 {
		t.Fatal("a checkpoint ran: the journal does not hold all of it")
	}
	b.dev = b.dev.Crash()
	b.pool = block.NewPool(6 << 20) // 6.3 MB of batches
	b.open()
	b.mustBeClean()
	for _, k := range keys {
		b.lost(k, 70)
		b.check(k)
	}
}
