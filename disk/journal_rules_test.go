package disk

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// largeConfig is a ring in which the first half of a file is long enough that no other file is made meanwhile.
func largeConfig() Config {
	cfg := smallConfig()
	cfg.JournalFileBytes = 256 << 10
	return cfg
}

// quiet turns until nothing is in flight, but gives the last group no time to be marked.
func (h *harness) quiet() {
	h.t.Helper()
	for range 1000 {
		h.now++
		for h.dev.Step(h.now) {
		}
		h.s.EndTurn(h.now)
		if h.dev.InFlight() == 0 && h.s.journal.image.entries == 0 && len(h.s.journal.queue) == 0 {
			return
		}
	}
	h.t.Fatal("does not come to rest")
}

// place returns file and position of a block of the ring.
func (h *harness) place(place uint64) (path string, pos int64) {
	j := h.s.journal
	return journalPath(h.cfg.Shard, j.fileOf(place/j.perFile)), int64(place%j.perFile) * blockBytes
}

func (h *harness) blockAt(place uint64) []byte {
	path, pos := h.place(place)
	return bytes.Clone(h.dev.Peek(path)[pos : pos+blockBytes])
}

func (h *harness) pokeBlock(place uint64, p []byte) {
	path, pos := h.place(place)
	if !h.dev.Poke(path, pos, p) {
		h.t.Fatalf("no block %s at %d", path, pos)
	}
}

func (h *harness) flipBlock(place uint64, at int) {
	path, pos := h.place(place)
	if !h.dev.Flip(path, pos+int64(at), 3) {
		h.t.Fatalf("no byte %d in %s", pos+int64(at), path)
	}
}

// A group of many blocks is torn by a power cut: a bad block before good ones of the same group. Nobody was told, so it
// is cut, reported with its range, and nobody is fenced.
func TestRule01TornGroupIsCut(t *testing.T) {
	h := newHarness(t, 11, largeConfig())
	h.note(Key{1, 0}, "before")
	h.settle()
	first := h.s.journal.at
	for i := range 20 {
		h.note(Key{1, uint32(i)}, fmt.Sprintf("%02d %0*d", i, 1000, 0))
	}
	h.quiet()
	blocks := h.s.journal.at - first
	if blocks < 5 {
		t.Fatalf("the group has %d blocks", blocks)
	}
	h.pokeBlock(first+2, make([]byte, blockBytes))
	h.crash()
	h.mustBeClean()
	if want := map[Key][]string{{1, 0}: {"before"}}; !sameState(h.state(), want) {
		t.Errorf("recovered %v, want %v", h.state(), want)
	}
	j := h.s.journal
	want := []Cut{{Group: h.report.Cut[0].Group, Generation: first / j.perFile, Block: int(first % j.perFile), Blocks: int(blocks)}}
	if !slices.Equal(h.report.Cut, want) {
		t.Errorf("cut %+v, want %+v", h.report.Cut, want)
	}
	h.note(Key{1, 0}, "after")
	h.settle()
	h.crash()
	h.mustBeClean()
	if got := h.state()[Key{1, 0}]; !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("after going on: %q", got)
	}
}

// The last flushed group has no later one: the empty group that follows when nothing else does says that it was flushed,
// so a flipped bit in it is damage and not a torn end.
func TestRule01LastGroupDamageIsReported(t *testing.T) {
	h := newHarness(t, 12, smallConfig())
	h.note(Key{1, 0}, "first")
	h.settle()
	last := h.s.journal.at
	h.note(Key{1, 0}, "last")
	h.settle()
	h.flipBlock(last, 200)
	h.crash()
	if len(h.report.Blocks) != 1 || h.report.Blocks[0].Blocks != 1 || !strings.HasPrefix(h.report.Blocks[0].File, "shard-00/journal-1") {
		t.Fatalf("acknowledged entries are gone without a word:\n%s", h.report)
	}
	if len(h.report.Cut) != 0 {
		t.Errorf("acknowledged blocks were cut:\n%s", h.report)
	}
	h.crash()
	if len(h.report.Blocks) == 0 {
		t.Errorf("the second recovery forgets the damage:\n%s", h.report)
	}
}

// fillTo stages notes, and turns, until the journal stands in the given generation.
func (h *harness) fillTo(generation uint64) {
	h.t.Helper()
	for i := 0; h.s.journal.at < generation*h.s.journal.perFile; i++ {
		if i > 100_000 {
			h.t.Fatal("the journal does not get there")
		}
		_ = h.tryNote(Key{1, uint32(i % 3)}, fmt.Sprintf("%d %0*d", i, 900, 0))
		h.turn()
	}
}

// The first group over a file that is used again is torn, or lands late: what stands at its head is of a generation that
// a durable mark elsewhere declared dead. It is dropped; the same picture without the mark would have been kept.
func TestRule03ReusedFileHead(t *testing.T) {
	h := newHarness(t, 13, smallConfig())
	j := h.s.journal
	h.fillTo(1)
	h.settle()
	old := h.blockAt(j.perFile) // generation 1, block 0
	h.fillTo(uint64(len(j.files)))
	h.settle()
	head := (uint64(len(j.files)) + 1) * j.perFile
	for j.at < head-2 {
		h.note(Key{1, 0}, "step")
		h.settle()
	}
	want := h.state()
	h.note(Key{1, 0}, fmt.Sprintf("torn %0*d", 12_000, 0))
	h.quiet()
	if j.at <= head {
		t.Fatalf("the last group ends at %d, the file begins at %d", j.at, head)
	}
	h.pokeBlock(head, old)
	h.crash()
	h.mustBeClean()
	if !sameState(h.state(), want) {
		t.Errorf("the old generation came back, or the torn group stayed")
	}
	if len(h.report.Cut) != 1 {
		t.Errorf("no cut reported: %s", h.report)
	}
}

// A file must not be overwritten before a flushed mark declares its old generation dead. Here no checkpoint can finish;
// the journal fills and answers busy, and a power cut finds everything.
func TestRule03LiveFileIsNotReused(t *testing.T) {
	h := newHarness(t, 14, smallConfig())
	h.dev.Plan(SimFault{Kind: OpWrite, Prefix: "shard-00/state", StallNanos: 1e18})
	busy := 0
	for i := range 2000 {
		if err := h.tryNote(Key{1, uint32(i % 3)}, fmt.Sprintf("%d %0*d", i, 900, 0)); err == ErrBusy {
			busy++
		}
		h.turn()
	}
	if busy == 0 {
		t.Error("a journal that cannot be given back never says busy")
	}
	want := h.state()
	h.dev.ClearPlans()
	h.crash()
	h.mustBeClean()
	for k, w := range want {
		if got := h.state()[k]; len(got) < len(w) || !slices.Equal(got[:len(w)], w) {
			t.Fatalf("%s: %d of %d acknowledged entries", k, len(got), len(w))
		}
	}
}

// After a cut the journal goes on in the same place. Blocks of the torn group stay behind it, with good checksums and of
// the same generation; when the next group is torn as well they complete it, unless their start number gives them away.
func TestRule03WritingOnAfterACut(t *testing.T) {
	h := newHarness(t, 15, largeConfig())
	h.note(Key{1, 0}, "before")
	h.settle()
	first := h.s.journal.at
	write := func(text string) (blocks [][]byte) {
		for i := range 20 {
			h.note(Key{1, 1}, fmt.Sprintf("%s %02d %0*d", text, i, 1000, 0))
		}
		h.quiet()
		for p := first; p < h.s.journal.at; p++ {
			blocks = append(blocks, h.blockAt(p))
		}
		return blocks
	}
	old := write("old")
	h.pokeBlock(first, make([]byte, blockBytes)) // torn: the first block is missing
	h.crash()
	if len(h.report.Cut) != 1 || h.s.journal.at != first {
		t.Fatalf("went on at %d, want %d: %s", h.s.journal.at, first, h.report)
	}
	if fresh := write("new"); len(fresh) != len(old) {
		t.Fatalf("groups of %d and %d blocks", len(fresh), len(old))
	}
	for i, b := range old[1:] { // only the first block of the new group landed
		h.pokeBlock(first+1+uint64(i), b)
	}
	h.crash()
	h.mustBeClean()
	if want := map[Key][]string{{1, 0}: {"before"}}; !sameState(h.state(), want) {
		t.Errorf("recovered %d keys, old blocks among them: %.100v", len(h.state()), h.state())
	}
	if len(h.report.Cut) != 1 || h.report.Cut[0].Blocks != len(old) {
		t.Errorf("cut: %+v", h.report.Cut)
	}
}

// The newest file is lost whole. Without a note elsewhere that it existed the ring would end cleanly before it.
func TestRule03LostNewestFile(t *testing.T) {
	h := newHarness(t, 16, smallConfig())
	h.fillTo(3)
	h.note(Key{1, 0}, "in the newest file")
	h.settle()
	if g := h.s.journal.at / h.s.journal.perFile; g != 3 {
		t.Fatalf("in generation %d", g)
	}
	if !h.dev.Unlink("shard-00/journal-3") {
		t.Fatal("no such file")
	}
	h.crash()
	if !slices.Equal(h.report.Missing, []string{"shard-00/journal-3"}) {
		t.Fatalf("a lost file is not missed:\n%s", h.report)
	}
}
