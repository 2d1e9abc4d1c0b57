package disk

import (
	"fmt"
	"slices"
	"testing"
)

// goesOn wants the store to take entries, to end, and to be whole at the next start.
func (h *harness) goesOn(k Key) {
	h.t.Helper()
	h.note(k, "after the damage")
	h.settle()
	if got := h.state()[k]; !slices.Contains(got, "after the damage") {
		h.t.Fatalf("an entry behind the damage never becomes durable: %v", got)
	}
	h.close()
	h.cut()
	h.open()
	if got := h.state()[k]; !slices.Contains(got, "after the damage") {
		h.t.Fatalf("an entry behind the damage is gone at the next start: %v", got)
	}
	if len(h.report.Damages) > 0 || len(h.report.Short) > 0 {
		h.t.Fatalf("the next start finds more:\n%s", h.report)
	}
}

// shorten leaves n bytes of a file.
func (h *harness) shorten(path string, n int) {
	h.t.Helper()
	whole := h.dev.Peek(path)
	if whole == nil || !h.dev.Unlink(path) {
		h.t.Fatalf("no %s", path)
	}
	op, err := do(h.dev, Op{Kind: OpCreate, Path: path})
	if err != nil {
		h.t.Fatal(err)
	}
	file := op.File
	mem := alignedHeap(max(n, blockBytes))
	copy(mem, whole)
	if n > 0 {
		if _, err := do(h.dev, Op{Kind: OpWrite, Class: ClassTail, Sync: true, File: file, Data: [][]byte{mem[:n]}}); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := do(h.dev, Op{Kind: OpClose, File: file}); err != nil {
		h.t.Fatal(err)
	}
	if _, err := do(h.dev, Op{Kind: OpSyncDir, Path: shardDir(0)}); err != nil {
		h.t.Fatal(err)
	}
}

// fill writes until the journal is in generation g or a later one, some blocks in.
func (h *harness) fill(g uint64) {
	h.t.Helper()
	h.until("the generation", func() bool { return h.s.journal.at/h.s.journal.perFile >= g && h.s.journal.at%h.s.journal.perFile > 4 })
	h.settle()
}

// After a clean stop everything but the last generation is dead. Losing files of the ring then loses no record, and the
// journal goes on.
func TestRule01RingLostAfterCleanStop(t *testing.T) {
	for _, which := range []string{"newest", "newest short", "all"} {
		t.Run(which, func(t *testing.T) {
			h := newHarness(t, 61, smallConfig())
			k := Key{1, 0}
			h.note(k, "one")
			h.fill(6)
			h.close()
			newest := h.s.journal.fileOf(h.s.journal.at / h.s.journal.perFile)
			h.cut()
			switch which {
			case "newest":
				h.dev.Unlink(journalPath(0, newest))
			case "newest short":
				h.shorten(journalPath(0, newest), 0)
			default:
				for n := range h.cfg.JournalFiles {
					h.dev.Unlink(journalPath(0, n))
				}
			}
			h.open()
			if !h.report.Damaged() {
				t.Errorf("not reported:\n%s", h.report)
			}
			if got := h.state()[k]; !slices.Equal(got, []string{"one"}) {
				t.Errorf("recovered %v", got)
			}
			h.goesOn(k)
		})
	}
}

// After a crash the file that was written last is short, missing, or holds another file's blocks: no mark says how much
// was in it, so every partition may be short, and says so.
func TestRule05LastFileLostNamesAll(t *testing.T) {
	for _, which := range []string{"missing", "empty", "half", "copy"} {
		t.Run(which, func(t *testing.T) {
			h := newHarness(t, 62, smallConfig())
			k := Key{1, 0}
			h.note(k, "one")
			h.fill(6)
			g := h.s.journal.at / h.s.journal.perFile
			h.cut()
			path := journalPath(0, h.s.journal.fileOf(g))
			before := h.dev.Peek(journalPath(0, h.s.journal.fileOf(g-1)))
			switch which {
			case "missing":
				h.dev.Unlink(path)
			case "empty":
				h.shorten(path, 0)
			case "half":
				h.shorten(path, 2*blockBytes)
			default:
				h.dev.Poke(path, 0, before)
			}
			h.open()
			if !h.report.Damaged() || !slices.Contains(h.report.Short, k) || !slices.Contains(h.report.Short, Key{9, 0}) {
				t.Errorf("not reported:\n%s", h.report)
			}
			h.goesOn(k)
		})
	}
}

// A chunk of the state log that held the record of a start is lost: the blocks of that start are still its own.
func TestRule05LostResumeKeepsTheJournal(t *testing.T) {
	h := newHarness(t, 63, largeConfig())
	k := Key{1, 0}
	h.note(k, "one")
	h.settle()
	old := h.dev.Peek("shard-00/state")
	h.crash()
	for i := range 5 {
		h.note(k, fmt.Sprint("two ", i))
		h.settle()
	}
	want := h.state()[k]
	h.cut()
	for pos := int64(len(old)); pos < int64(len(h.dev.Peek("shard-00/state"))); pos += blockBytes {
		h.dev.Flip("shard-00/state", pos+70, 1)
	}
	h.open()
	if got := h.state()[k]; !slices.Equal(got, want) {
		t.Errorf("recovered %v, want %v:\n%s", got, want, h.report)
	}
	h.note(k, "after the damage")
	h.settle()
	h.close()
}

// The state log is another file. Whose snapshot is lost with it stays fenced, also when the next start finds a state log
// that is whole.
func TestRule05LostStateStaysFenced(t *testing.T) {
	for _, end := range []string{"stop", "crash"} {
		t.Run(end, func(t *testing.T) {
			h := newHarness(t, 64, smallConfig())
			h.note(Meta, "topics")
			h.fill(6)
			h.close()
			h.cut()
			whole := h.dev.Peek("shard-00/state")
			h.dev.Poke("shard-00/state", 0, make([]byte, len(whole)))
			h.open()
			for range 2 {
				if len(h.m.damages) == 0 || h.m.damages[0].Key != Meta || h.m.damages[0].Cause != CauseState {
					t.Fatalf("meta is not fenced:\n%s", h.report)
				}
				h.settle()
				if end == "stop" {
					h.close()
				}
				h.cut()
				h.open()
			}
		})
	}
}
