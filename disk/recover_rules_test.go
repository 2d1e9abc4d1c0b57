package disk

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// until turns, with notes to another partition so that the journal moves, until the condition holds.
func (h *harness) until(what string, ok func() bool) {
	h.t.Helper()
	for i := 0; !ok(); i++ {
		if i > 20_000 {
			h.t.Fatalf("never: %s", what)
		}
		_ = h.tryNote(Key{9, 0}, fmt.Sprintf("%d %0*d", i, 900, 0))
		h.turn()
	}
}

// A snapshot holds entries that the journal still has: outcomes are applied once, by index, not again.
func TestRule05SnapshotAndEntries(t *testing.T) {
	h := newHarness(t, 41, smallConfig())
	k := Key{1, 0}
	for i := 0; h.s.checkpoint.finished == 0; i++ {
		_ = h.tryNote(k, fmt.Sprintf("%d %0*d", i, 300, 0))
		if g := h.s.journal.at / h.s.journal.perFile; g == 2 && h.s.Log(Key{2, 0}) == nil {
			h.note(Key{2, 0}, "holds generation 2")
		}
		h.turn()
	}
	h.settle()
	if h.log(k).member.placed == 0 {
		t.Fatal("no snapshot of it")
	}
	for i := range 5 {
		h.note(k, fmt.Sprint("later ", i))
	}
	h.settle()
	want := h.state()
	h.crash()
	h.mustBeClean()
	if h.report.Skipped == 0 {
		t.Fatalf("no entry was covered by a snapshot: nothing was at stake; dead %d, at %d: %s", h.s.journal.now.Dead, h.s.journal.at/16, h.report)
	}
	if !sameState(h.state(), want) {
		t.Errorf("recovered %d entries of %d", len(h.state()[k]), len(want[k]))
	}
}

// An acknowledged journal block rots. Whose entries were in it is not known; the index of what follows tells: a partition
// with a gap is fenced behind its last good entry, one that goes on without a gap is untouched, one of which nothing
// follows is named as possibly short.
func TestRule05DamageNamesPartitions(t *testing.T) {
	h := newHarness(t, 42, largeConfig())
	a, b, c := Key{1, 0}, Key{1, 1}, Key{1, 2}
	for _, k := range []Key{a, b, c} {
		h.note(k, "one")
	}
	h.settle()
	bad := h.s.journal.at
	h.note(a, "lost")
	h.settle()
	h.note(a, "behind the gap")
	h.note(b, "two")
	h.settle()
	h.flipBlock(bad, 100)
	h.crash()
	if len(h.report.Blocks) != 1 {
		t.Fatalf("the block is not reported:\n%s", h.report)
	}
	if len(h.m.damages) != 1 || h.m.damages[0].Key != a || h.m.damages[0].Index != 1 || h.m.damages[0].Cause != CauseJournal {
		t.Errorf("damages: %+v", h.m.damages)
	}
	if want := []Key{Meta, c}; !slices.Equal(h.report.Short, want) {
		t.Errorf("possibly short: %v, want %v", h.report.Short, want)
	}
	if want := (map[Key][]string{a: {"one"}, b: {"one", "two"}, c: {"one"}}); !sameState(h.state(), want) {
		t.Errorf("recovered %v", h.state())
	}
	if err := h.tryNote(a, "more"); err != ErrFenced {
		t.Errorf("a fenced partition takes a note: %v", err)
	}
	h.note(b, "three")
	h.until("the damaged generation is gone", func() bool { return h.s.journal.durable.Dead >= bad/h.s.journal.perFile })
	h.settle()
	h.crash()
	if len(h.m.damages) != 1 || h.m.damages[0].Key != a {
		t.Errorf("after its generation is gone the fence is forgotten: %+v", h.m.damages)
	}
	if got := h.state()[b]; !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("b: %v", got)
	}
}

// A chunk of the state log is lost. The snapshots before it are too old for whoever was in it; nobody goes on from them.
func TestRule05LostSnapshotFences(t *testing.T) {
	h := newHarness(t, 43, smallConfig())
	k := Key{1, 0}
	h.note(k, "old")
	h.until("a first snapshot", func() bool { return h.log(k).member.placed == 1 })
	h.settle()
	h.note(k, "new")
	h.settle()
	end := h.s.state.end
	h.until("a second snapshot", func() bool { return h.log(k).member.placed == 2 && h.log(k).member.firstGen == 0 })
	if h.s.state.end <= end {
		t.Fatal("the state log was written anew: choose other sizes")
	}
	h.until("its entries are gone from the journal", func() bool { return h.s.journal.durable.Dead >= h.log(k).member.lastGen })
	h.settle()
	for pos := end; pos < h.s.state.end; pos += blockBytes {
		if !h.dev.Flip("shard-00/state", pos+70, 1) {
			t.Fatal("no such byte")
		}
	}
	h.crash()
	if len(h.report.Blocks) == 0 {
		t.Errorf("lost chunks are not reported:\n%s", h.report)
	}
	i := slices.IndexFunc(h.m.damages, func(d Damage) bool { return d.Key == k })
	if i < 0 || h.m.damages[i].Cause != CauseState {
		t.Fatalf("the partition goes on from an old snapshot: %+v\n%s", h.m.damages, h.report)
	}
}

// An id that has neither topic nor tombstone is fenced and reported. What is in the journal of it stays, over
// checkpoints and starts, and is there when meta knows it again.
func TestRule12UnknownIsNeverDiscarded(t *testing.T) {
	h := newHarness(t, 44, smallConfig())
	k := Key{7, 3}
	h.note(k, "one")
	h.note(k, "two")
	if err := h.produce(k, 500); err != nil {
		t.Fatal(err)
	}
	h.settle()
	want := h.state()[k]
	h.m.exist[k] = Unknown
	h.crash()
	if len(h.report.Damages) != 1 || h.report.Damages[0].Key != k || h.report.Damages[0].Cause != CauseUnknown {
		t.Fatalf("not reported:\n%s", h.report)
	}
	if err := h.tryNote(k, "x"); err != ErrFenced {
		t.Errorf("not fenced: %v", err)
	}
	from := h.s.journal.at / h.s.journal.perFile
	h.until("its generation is given back", func() bool { return h.s.journal.durable.Dead >= from+3 })
	h.settle()
	h.crash()
	if len(h.report.Damages) != 1 {
		t.Fatalf("forgotten after a checkpoint:\n%s", h.report)
	}
	h.m.exist[k] = Live
	h.crash()
	h.mustBeClean()
	if got := h.state()[k]; !slices.Equal(got, want) {
		t.Errorf("once it is known: %v, want %v", got, want)
	}
}

// A partition is dropped. Its tombstone may go when neither journal nor state log names it any more, and not before: a
// start between would meet entries of an id that nobody knows.
func TestRule12GoneAfterTheLastEntry(t *testing.T) {
	h := newHarness(t, 45, smallConfig())
	k := Key{1, 0}
	if err := h.produce(k, 700); err != nil {
		t.Fatal(err)
	}
	h.until("a snapshot of it", func() bool { return h.log(k).member.placed > 0 })
	if err := h.produce(k, 700); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if _, err := h.log(k).Drop(testEpoch); err != nil {
		t.Fatal(err)
	}
	h.m.part(k).staged = append(h.m.part(k).staged, "drop")
	h.settle()
	tombstone := func() {
		h.m.exist[k] = Deleted
		if slices.Contains(h.m.gone, k) {
			h.m.exist[k] = Unknown // the shard forgets the tombstone
		}
	}
	for range 8 {
		tombstone()
		gone := slices.Contains(h.m.gone, k)
		h.crash()
		h.mustBeClean()
		for _, p := range h.dev.Paths() {
			if bytes.HasPrefix([]byte(p), []byte("topics/1/0/")) && gone {
				t.Fatalf("%s is left", p)
			}
		}
		if gone {
			if h.s.Log(k) != nil {
				t.Error("the log is still there")
			}
			return
		}
		at := h.s.journal.at
		h.until("a file more", func() bool { return h.s.journal.at > at+h.s.journal.perFile })
		h.settle()
	}
	t.Fatal("Gone never comes")
}

// Log start moves and segments below it are removed; references and appends to them are still in the journal. Replay
// takes the log start first, and what lies below is void.
func TestRule12EntriesBelowLogStartAreVoid(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFileBytes = 1 << 20
	h := newHarness(t, 46, cfg)
	k := Key{1, 0}
	for i := range 120 {
		n := 800
		if i%3 == 0 {
			n = 40 << 10
		}
		for errors.Is(h.produce(k, n), ErrBusy) {
			h.turn()
		}
		h.turn()
	}
	h.settle()
	l := h.log(k)
	if l.Segments() < 2 {
		t.Fatalf("%d segments", l.Segments())
	}
	files := len(h.dev.Paths())
	if _, err := l.Trim(testEpoch, l.LogEnd()-5); err != nil {
		t.Fatal(err)
	}
	h.m.part(k).staged = append(h.m.part(k).staged, fmt.Sprintf("trim %d", l.LogEnd()-5))
	h.settle()
	if len(h.dev.Paths()) >= files {
		t.Fatal("no file was removed")
	}
	start, want := l.LogStart(), h.state()
	h.crash()
	h.mustBeClean()
	if got := h.log(k).LogStart(); got != start || !sameState(h.state(), want) {
		t.Errorf("log start %d, want %d", got, start)
	}
	h.crash()
	h.mustBeClean()
}
