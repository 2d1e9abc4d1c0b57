package disk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
)

// sampledConfig has files that are not read whole when only their beginning is live.
func sampledConfig() Config {
	cfg := smallConfig()
	cfg.JournalFileBytes, cfg.GroupBytes, cfg.StagedBytes = 6*sampleBlocks*blockBytes, 1<<20, 4<<20
	return cfg
}

// fillRing stages notes of up to 60 KiB, in groups of any size, until the journal has come to place.
func fillRing(h *harness, rng *rand.Rand, place uint64) {
	h.t.Helper()
	for i := 0; h.s.journal.at < place; i++ {
		text := fmt.Sprintf("%0*d", 1+rng.IntN(60_000), i)
		for h.tryNote(Key{1, uint32(i % 3)}, text) != nil {
			h.turn()
		}
		if rng.IntN(20) == 0 {
			h.turn()
		}
		for _, p := range h.m.parts { // what is compared is the end; snapshots stay small
			if n := len(p.entries); n > 0 && len(p.entries[0]) > 0 {
				p.entries[0] = ""
			}
			for e := 0; e+200 < len(p.entries); e++ {
				p.entries[e] = ""
			}
		}
	}
}

// A start reads of each file what is live, wherever the journal ends, whatever an older round left behind that, and whether
// the last group is torn; it finds everything that was acknowledged.
func TestStartReadsLiveBlocksOnly(t *testing.T) {
	runs := 12
	if testing.Short() {
		runs = 4
	}
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := &harness{t: t, cfg: sampledConfig(), dev: NewSim(SimOptions{Seed: seed}), pool: block.NewPool(256 << 20)}
		h.open()
		perFile := h.s.journal.perFile
		end := perFile * uint64(1+rng.IntN(7)) // generations 1 to 3 lie in new files, later ones in used ones
		end += sampleBlocks*uint64(rng.IntN(6)) + uint64(rng.IntN(40))
		fillRing(h, rng, end)
		if seed%2 == 0 {
			h.settle()
		}
		want, live := h.state(), int64(h.s.journal.used())*blockBytes
		h.crash()
		if h.report.Damaged() {
			t.Fatalf("seed %d: damage reported:\n%s", seed, h.report)
		}
		for k, entries := range want {
			got := h.m.part(k).entries
			if len(got) < len(entries) {
				t.Fatalf("seed %d: partition %s has %d entries, %d were acknowledged", seed, k, len(got), len(entries))
			}
			for i := range entries {
				if entries[i] != "" && got[i] != "" && got[i] != entries[i] {
					t.Fatalf("seed %d: entry %d of %s differs", seed, i, k)
				}
			}
		}
		if most := live + 4*2*sampleBlocks*blockBytes + h.s.state.end; h.report.BytesRead > most {
			t.Errorf("seed %d: %d bytes read for %d live ones", seed, h.report.BytesRead, live)
		}
	}
}

// A block that is read as a sample and does not check hides nothing behind it: neither when it is the last of the live
// ones nor when all samples of the file are gone.
func TestDamagedSamplesHideNothing(t *testing.T) {
	for _, all := range []bool{false, true} {
		h := &harness{t: t, cfg: sampledConfig(), dev: NewSim(SimOptions{Seed: 1}), pool: block.NewPool(256 << 20)}
		h.open()
		j := h.s.journal
		fillRing(h, rand.New(rand.NewPCG(2, 2)), j.perFile+3*sampleBlocks+50)
		h.settle()
		end := j.at
		h.cut()
		for b := uint64(0); b < 6*sampleBlocks; b += sampleBlocks {
			if all || b == 3*sampleBlocks {
				h.dev.Flip(journalPath(0, 1), int64(b*blockBytes)+100, 3)
			}
		}
		h.open()
		if len(h.report.Blocks) == 0 {
			t.Fatalf("all %v: nothing is reported:\n%s", all, h.report)
		}
		if h.s.journal.at < end {
			t.Errorf("all %v: the journal goes on at %d, acknowledged blocks lie up to %d", all, h.s.journal.at, end)
		}
	}
}
