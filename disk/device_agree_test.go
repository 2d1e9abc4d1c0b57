package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
)

// The simulated device answers as the kernel does: random ops, one at a time, on both; results, bytes and names agree.
// What the simulator gets wrong here, every simulated run would get wrong.
func TestSimAgreesWithKernel(t *testing.T) {
	rounds := uint64(20)
	if testing.Short() {
		rounds = 5
	}
	for seed := range rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			real := newTestUring(t, t.TempDir(), UringOptions{})
			sim := NewSim(SimOptions{Seed: seed})
			compare(t, rand.New(rand.NewPCG(seed, 1)), real, sim)
		})
	}
}

func compare(t *testing.T, rng *rand.Rand, real, sim Device) {
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/b"}
	paths := append(slices.Clone(names), "d", "d/e")
	dirs := []string{"", "d", "d/e", "x"}
	type pair struct{ real, sim File }
	files := []pair{{0, 0}}
	for step := range 400 {
		kind := OpKind(1 + rng.IntN(int(OpTruncate)))
		file := files[rng.IntN(len(files))]
		op := Op{
			Kind: kind, Pos: Position(rng.IntN(8)) * 4096, Size: int64(rng.IntN(40000)), Sync: rng.IntN(2) == 0,
			Path: paths[rng.IntN(len(paths))], NewPath: paths[rng.IntN(len(paths))], Class: Class(rng.IntN(4)),
		}
		if kind == OpSyncDir || kind == OpList {
			op.Path = dirs[rng.IntN(len(dirs))]
		}
		if kind == OpRename { // of files only, to files only
			op.Path, op.NewPath = names[rng.IntN(len(names))], names[rng.IntN(len(names))]
		}
		for kind == OpRemove && len(files) > 1 { // nobody may read what is removed
			must(t, real, Op{Kind: OpClose, File: files[1].real})
			must(t, sim, Op{Kind: OpClose, File: files[1].sim})
			files = slices.Delete(files, 1, 2)
		}
		if kind == OpAllocate {
			op.Size = max(op.Size, 1)
		}
		a, b := op, op
		a.File, b.File = file.real, file.sim
		if kind == OpRead || kind == OpWrite {
			n, fill := 4096*(1+rng.IntN(4)), byte(rng.IntN(256))
			a.Data, b.Data = [][]byte{aligned(n, fill)}, [][]byte{aligned(n, fill)}
		}
		x, y := run(t, real, a), run(t, sim, b)
		what := fmt.Sprintf("step %d: op %d %s→%s pos %d size %d", step, kind, op.Path, op.NewPath, op.Pos, op.Size)
		if !sameError(x.Err, y.Err) {
			t.Fatalf("%s: kernel says %v, simulator %v", what, x.Err, y.Err)
		}
		if x.Err != nil {
			continue
		}
		switch kind {
		case OpRead, OpWrite:
			if x.N != y.N || kind == OpRead && !bytes.Equal(x.Data[0][:x.N], y.Data[0][:y.N]) {
				t.Fatalf("%s: kernel did %d bytes, simulator %d, or other ones", what, x.N, y.N)
			}
		case OpStat:
			if x.Size != y.Size {
				t.Fatalf("%s: size %d, simulator %d", what, x.Size, y.Size)
			}
		case OpList:
			if !slices.Equal(x.Names, y.Names) {
				t.Fatalf("%s: %v, simulator %v", what, x.Names, y.Names)
			}
		case OpCreate, OpOpen:
			files = append(files, pair{x.File, y.File})
		case OpClose:
			files = slices.DeleteFunc(files, func(p pair) bool { return p == file && p.real != 0 })
		}
	}
}

// sameError compares errnos. Which of several reasons a kernel finds first is not ours to promise.
func sameError(a, b error) bool {
	var x, y syscall.Errno
	if errors.As(a, &x) != errors.As(b, &y) {
		return false
	}
	return x == y
}
