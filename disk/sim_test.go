package disk

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// aligned returns n bytes at a multiple of 4096, filled with fill.
func aligned(n int, fill byte) []byte {
	b := make([]byte, n+pageBytes)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (pageBytes - 1))
	b = b[off : off+n : off+n]
	for i := range b {
		b[i] = fill
	}
	return b
}

// run submits op and waits for it.
func run(t testing.TB, d Device, op Op) *Op {
	t.Helper()
	done := false
	op.Done = func(*Op) { done = true }
	d.Submit(&op)
	if done {
		t.Fatal("Done was called inside Submit")
	}
	for !done {
		if d.InFlight() == 0 {
			t.Fatal("nothing in flight and op not done")
		}
		if err := d.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return &op
}

// must is run for an op that may not fail.
func must(t testing.TB, d Device, op Op) *Op {
	t.Helper()
	o := run(t, d, op)
	if o.Err != nil {
		t.Fatalf("op %d %s: %v", o.Kind, o.Path, o.Err)
	}
	return o
}

func createFile(t testing.TB, d Device, path string) File {
	t.Helper()
	f := must(t, d, Op{Kind: OpCreate, Path: path}).File
	must(t, d, Op{Kind: OpSyncDir, Path: parent(path)})
	return f
}

// What a sync write promised survives every cut; what nothing covered comes back whole, torn or not at all, and each
// of the three is seen.
func TestSimCrashKeepsSyncedAndDoubtsTheRest(t *testing.T) {
	whole, torn, gone := 0, 0, 0
	for seed := range uint64(400) {
		s := NewSim(SimOptions{Seed: seed})
		f := createFile(t, s, "a/b")
		must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(8192, 1)}, Sync: true})
		must(t, s, Op{Kind: OpWrite, File: f, Pos: 4096, Data: [][]byte{aligned(8192, 2)}})
		got := s.Crash().Peek("a/b")
		if len(got) < 8192 || !bytes.Equal(got[:4096], aligned(4096, 1)) {
			t.Fatalf("seed %d: the synced block is gone", seed)
		}
		switch ones, twos := bytes.Count(got[4096:], []byte{1}), bytes.Count(got[4096:], []byte{2}); {
		case twos == 8192:
			whole++
		case twos == 0 && ones == 4096:
			gone++
		default:
			torn++
		}
		for at := 4096; at < len(got); at += sectorBytes {
			if s := got[at : at+sectorBytes]; bytes.Count(s, s[:1]) != sectorBytes {
				t.Fatalf("seed %d: torn inside a sector at %d", seed, at)
			}
		}
	}
	if whole == 0 || torn == 0 || gone == 0 {
		t.Errorf("whole %d, torn %d, gone %d: one of them never happens", whole, torn, gone)
	}
}

func TestSimSyncCoversEarlierWritesAndSize(t *testing.T) {
	for seed := range uint64(100) {
		s := NewSim(SimOptions{Seed: seed})
		f := createFile(t, s, "x")
		for i := range 4 {
			must(t, s, Op{Kind: OpWrite, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, byte(i+1))}})
		}
		must(t, s, Op{Kind: OpSync, File: f})
		got := s.Crash().Peek("x")
		if len(got) != 4*4096 || got[3*4096] != 4 || got[4095] != 1 {
			t.Fatalf("seed %d: synced file has %d bytes", seed, len(got))
		}
	}
}

// A file whose name was not synced may be missing; a rename is whole or not at all.
func TestSimNamesAreDoubtfulUntilSyncDir(t *testing.T) {
	lost, kept, renamed := 0, 0, 0
	for seed := range uint64(200) {
		s := NewSim(SimOptions{Seed: seed})
		createFile(t, s, "d/old")
		must(t, s, Op{Kind: OpCreate, Path: "d/new"})
		must(t, s, Op{Kind: OpRename, Path: "d/old", NewPath: "d/moved"})
		names := s.Crash().Paths()
		if slices.Contains(names, "d/new") {
			kept++
		} else {
			lost++
		}
		if slices.Contains(names, "d/moved") {
			renamed++
		}
		if slices.Contains(names, "d/moved") == slices.Contains(names, "d/old") {
			t.Fatalf("seed %d: a rename tore: %v", seed, names)
		}
	}
	if lost == 0 || kept == 0 || renamed == 0 || renamed == 200 {
		t.Errorf("lost %d, kept %d, renamed %d", lost, kept, renamed)
	}
}

// The same seed gives the same trace; another seed another order of completions.
func TestSimSameSeedSameHash(t *testing.T) {
	trace := func(seed uint64) (uint64, string) {
		s := NewSim(SimOptions{Seed: seed, MaxLatencyNanos: 1000})
		f := createFile(t, s, "f")
		order := ""
		for i := range 8 {
			op := &Op{Kind: OpWrite, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, byte(i))}}
			op.Done = func(op *Op) { order += fmt.Sprint(op.Pos / 4096) }
			s.Submit(op)
		}
		for s.InFlight() > 0 {
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		return s.Crash().Hash(), order
	}
	h1, o1 := trace(7)
	h2, o2 := trace(7)
	h3, o3 := trace(8)
	if h1 != h2 || o1 != o2 {
		t.Errorf("seed 7 gave %x %s, then %x %s", h1, o1, h2, o2)
	}
	if h1 == h3 || o1 == o3 {
		t.Errorf("seeds 7 and 8 gave the same: %x %s", h1, o1)
	}
}

// A failed sync loses for good what it should have covered, even if a later one succeeds (the kernel calls it clean).
func TestSimFailedSyncIsNotHealedByALaterOne(t *testing.T) {
	lost := 0
	for seed := range uint64(100) {
		s := NewSim(SimOptions{Seed: seed})
		f := createFile(t, s, "f")
		must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(4096, 9)}})
		s.Plan(SimFault{Kind: OpSync, Times: 1, Err: syscall.EIO})
		if op := run(t, s, Op{Kind: OpSync, File: f}); !errors.Is(op.Err, syscall.EIO) {
			t.Fatalf("planned sync gave %v", op.Err)
		}
		must(t, s, Op{Kind: OpSync, File: f})
		if got := s.Crash().Peek("f"); bytes.Count(got, []byte{9}) < 4096 {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no cut lost what the failed sync gave up")
	}
}

func TestSimFaults(t *testing.T) {
	s := NewSim(SimOptions{Seed: 3, Capacity: 64 << 10})
	f := createFile(t, s, "topics/1/0/f")
	w := Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(8192, 5)}, Sync: true}

	s.Plan(SimFault{Kind: OpWrite, Prefix: "topics/", After: 1, Times: 2, Err: syscall.EIO})
	for i, want := range []error{nil, syscall.EIO, syscall.EIO, nil} {
		if op := run(t, s, w); !errors.Is(op.Err, want) {
			t.Errorf("write %d: %v, want %v", i, op.Err, want)
		}
	}
	s.ClearPlans()

	s.Plan(SimFault{Kind: OpWrite, Times: 1, Lost: true})
	must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(4096, 6)}, Sync: true})
	if b := s.Peek("topics/1/0/f"); b[0] != 5 {
		t.Errorf("a lost write was written: %d", b[0])
	}
	s.Plan(SimFault{Kind: OpWrite, After: 0, Times: 1, Misdirect: 8192})
	s.faults = s.faults[1:]
	must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(4096, 7)}, Sync: true})
	if b := s.Peek("topics/1/0/f"); b[0] != 5 || b[8192] != 7 {
		t.Errorf("a misdirected write landed elsewhere: %d %d", b[0], b[8192])
	}
	s.ClearPlans()

	s.Plan(SimFault{Kind: OpWrite, Times: 1, Short: 4096})
	events := s.Events()
	must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(8192, 8)}, Sync: true})
	if n := s.Events() - events; n != 2 {
		t.Errorf("a short write took %d completions, want 2", n)
	}
	s.Plan(SimFault{Times: 1, StallNanos: 5e9})
	before := s.Now()
	s.faults = s.faults[1:]
	must(t, s, Op{Kind: OpSync, File: f})
	if d := s.Now() - before; d != 5e9 {
		t.Errorf("a stalled op took %d ns", d)
	}
	s.ClearPlans()
	if op := run(t, s, Op{Kind: OpAllocate, File: f, Size: 1 << 20}); !errors.Is(op.Err, syscall.ENOSPC) {
		t.Errorf("allocating beyond the capacity: %v", op.Err)
	}
	if !s.Flip("topics/1/0/f", 10, 3) || s.Peek("topics/1/0/f")[10] != 0 {
		t.Error("flip did not flip")
	}
}

func TestSimCutStopsEverything(t *testing.T) {
	s := NewSim(SimOptions{Seed: 1})
	f := createFile(t, s, "f")
	s.CutAfter(s.Events() + 1)
	for i := range 3 {
		s.Submit(&Op{Kind: OpWrite, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, 1)}})
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); !errors.Is(err, ErrPowerCut) || s.InFlight() != 2 || s.Step(1e9) {
		t.Errorf("after the cut: %v, %d in flight", err, s.InFlight())
	}
	if n := s.Crash(); n.InFlight() != 0 || n.Wait() != nil {
		t.Error("the next device is not idle")
	}
}

// SIGKILL is no power cut: what was completed stays. It is still not durable.
func TestSimKillKeepsCompletedWrites(t *testing.T) {
	lost := 0
	for seed := range uint64(100) {
		s := NewSim(SimOptions{Seed: seed})
		f := createFile(t, s, "f")
		must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(4096, 4)}})
		s = s.Kill()
		if b := s.Peek("f"); len(b) != 4096 || b[0] != 4 {
			t.Fatalf("seed %d: a completed write was lost by SIGKILL", seed)
		}
		if b := s.Crash().Peek("f"); bytes.Count(b, []byte{4}) != 4096 {
			lost++
		}
	}
	if lost == 0 {
		t.Error("a kill made unsynced writes durable")
	}
}

// Two forks of one medium go the same way, and neither sees the other.
func TestSimForksAreEqualAndApart(t *testing.T) {
	s := NewSim(SimOptions{Seed: 5})
	f := createFile(t, s, "d/f")
	must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(8192, 1)}})
	must(t, s, Op{Kind: OpCreate, Path: "d/g"})
	a, b := s.Fork(), s.Fork()
	for _, d := range []*Sim{a, b} {
		must(t, d, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(4096, 2)}})
	}
	if got := s.Peek("d/f"); got[0] != 1 {
		t.Error("a write to a fork is seen outside")
	}
	a, b = a.Crash(), b.Crash()
	if a.Hash() != b.Hash() || !slices.Equal(a.Paths(), b.Paths()) || !bytes.Equal(a.Peek("d/f"), b.Peek("d/f")) {
		t.Error("forks differ after the same ops and a cut")
	}
	if a.Hash() == s.Hash() {
		t.Error("the hash does not see what a fork did")
	}
}

// Space comes back with a truncate and a remove, and is counted anew after a cut.
func TestSimSpaceComesBack(t *testing.T) {
	s := NewSim(SimOptions{Seed: 5, Capacity: 64 << 10})
	for range 5 {
		f := createFile(t, s, "f")
		must(t, s, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(64<<10, 1)}, Sync: true})
		if op := run(t, s, Op{Kind: OpWrite, File: f, Pos: 64 << 10, Data: [][]byte{aligned(4096, 1)}}); !errors.Is(op.Err, syscall.ENOSPC) {
			t.Fatalf("a full disk took more: %v", op.Err)
		}
		must(t, s, Op{Kind: OpTruncate, File: f, Size: 4096})
		must(t, s, Op{Kind: OpAllocate, File: f, Size: 64 << 10})
		must(t, s, Op{Kind: OpClose, File: f})
		must(t, s, Op{Kind: OpRemove, Path: "f"})
		must(t, s, Op{Kind: OpSyncDir})
		s = s.Crash()
		if s.used != 0 {
			t.Fatalf("%d bytes in use on an empty disk", s.used)
		}
	}
}

// Once warm the simulator allocates nothing either, so that it can stand below tests that count allocations.
func TestSimAllocatesNothing(t *testing.T) {
	var pages SimPages
	pages.Reserve(64)
	s := NewSim(SimOptions{Pages: &pages})
	f := createFile(t, s, "f")
	ops := make([]Op, 9)
	for i := range ops[:8] {
		ops[i] = Op{Kind: OpWrite, Sync: i%2 == 0, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, byte(i+1))}}
	}
	ops[8] = Op{Kind: OpSync, File: f}
	round := func() {
		for i := range ops {
			s.Submit(&ops[i])
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations in a round of %d ops", n, len(ops))
	}
}

// BenchmarkSimRun: 8 zero-written files of 64 KiB, 64 sync writes of 4 KiB, a power cut. It bounds a crash-sim round.
func BenchmarkSimRun(b *testing.B) {
	var pages SimPages
	zeros, data := aligned(64<<10, 0), aligned(4096, 1)
	for i := range b.N {
		s := NewSim(SimOptions{Seed: uint64(i), Pages: &pages})
		for j := range 8 {
			f := createFile(b, s, fmt.Sprintf("shard-00/journal-%d", j))
			must(b, s, Op{Kind: OpWrite, File: f, Data: [][]byte{zeros}, Sync: true})
			for k := range 8 {
				must(b, s, Op{Kind: OpWrite, File: f, Pos: Position(k) * 4096, Data: [][]byte{data}, Sync: true})
			}
		}
		s.Crash().Release()
	}
}
