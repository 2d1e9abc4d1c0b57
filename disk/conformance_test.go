package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipringmq/slipring/loop/uring"
)

// devices is every implementation; each test of this file runs on all of them.
var devices = []struct {
	name string
	open func(t testing.TB, depth int) Device
}{
	{"sim", func(t testing.TB, depth int) Device {
		return NewSim(SimOptions{Seed: 1, Depth: depth})
	}},
	{"uring", func(t testing.TB, depth int) Device {
		return newTestUring(t, t.TempDir(), UringOptions{Depth: depth})
	}},
	{"uring buffered", func(t testing.TB, depth int) Device {
		return newTestUring(t, t.TempDir(), UringOptions{Depth: depth, Buffered: true})
	}},
}

// newTestUring makes a ring and a device on this goroutine's thread, and closes both at the end.
func newTestUring(t testing.TB, dir string, opt UringOptions) *Uring {
	t.Helper()
	runtime.LockOSThread()
	ring, err := uring.New(uring.Config{Entries: 64})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewUring(ring, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), ring.Close()); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	return d
}

// onAll runs a test on each device, on the goroutine that owns it.
func onAll(t *testing.T, depth int, test func(t *testing.T, d Device)) {
	for _, c := range devices {
		t.Run(c.name, func(t *testing.T) { test(t, c.open(t, depth)) })
	}
}

func TestDeviceReadsWhatItWrote(t *testing.T) {
	onAll(t, 0, func(t *testing.T, d Device) {
		f := createFile(t, d, "topics/1/2/file")
		pieces := [][]byte{aligned(4096, 1), aligned(8192, 2), aligned(4096, 3)}
		w := must(t, d, Op{Kind: OpWrite, File: f, Pos: 4096, Data: pieces, Sync: true})
		if w.N != 16384 {
			t.Errorf("wrote %d bytes", w.N)
		}
		p, q := aligned(8192, 9), aligned(16384, 9)
		r := must(t, d, Op{Kind: OpRead, File: f, Data: [][]byte{p, q}})
		want := slices.Concat(aligned(4096, 0), aligned(4096, 1), aligned(8192, 2), aligned(4096, 3))
		if r.N != len(want) || !bytes.Equal(slices.Concat(p, q)[:r.N], want) {
			t.Errorf("read %d bytes, want %d, or other bytes", r.N, len(want))
		}
		if r := must(t, d, Op{Kind: OpRead, File: f, Pos: 1 << 20, Data: [][]byte{p}}); r.N != 0 {
			t.Errorf("read %d bytes behind the end", r.N)
		}
		must(t, d, Op{Kind: OpSync, File: f})
		if s := must(t, d, Op{Kind: OpStat, File: f}); s.Size != 20480 {
			t.Errorf("size %d", s.Size)
		}
		must(t, d, Op{Kind: OpTruncate, File: f, Size: 6000})
		if r := must(t, d, Op{Kind: OpRead, File: f, Data: [][]byte{q}}); r.N != 6000 || q[5999] != 1 {
			t.Errorf("read %d bytes after a truncate to 6000", r.N)
		}
		must(t, d, Op{Kind: OpTruncate, File: f, Size: 8192})
		if must(t, d, Op{Kind: OpRead, File: f, Data: [][]byte{q}}); q[6000] != 0 || q[8191] != 0 {
			t.Error("a truncated tail came back")
		}
		must(t, d, Op{Kind: OpAllocate, File: f, Pos: 8192, Size: 65536})
		if s := must(t, d, Op{Kind: OpStat, File: f}); s.Size != 73728 {
			t.Errorf("size %d after an allocation up to 73728", s.Size)
		}
		must(t, d, Op{Kind: OpClose, File: f})
	})
}

func TestDeviceNames(t *testing.T) {
	onAll(t, 0, func(t *testing.T, d Device) {
		for _, n := range []string{"d/c", "d/a", "d/b", "e/f/g"} {
			must(t, d, Op{Kind: OpClose, File: createFile(t, d, n)})
		}
		list := func(dir, want string) {
			t.Helper()
			if l := must(t, d, Op{Kind: OpList, Path: dir}); strings.Join(l.Names, " ") != want {
				t.Errorf("%q holds %v, want %s", dir, l.Names, want)
			}
		}
		list("d", "a b c")
		list("", "d e")
		list("nowhere/at/all", "")
		must(t, d, Op{Kind: OpRename, Path: "d/a", NewPath: "d/c"})
		list("d", "b c")
		must(t, d, Op{Kind: OpRemove, Path: "d/b"})
		must(t, d, Op{Kind: OpSyncDir, Path: "d"})
		must(t, d, Op{Kind: OpSyncDir})
		list("d", "c")
		must(t, d, Op{Kind: OpRemove, Path: "d/c"})
		must(t, d, Op{Kind: OpRemove, Path: "d"})
		list("", "e")
		must(t, d, Op{Kind: OpClose, File: createFile(t, d, "d/again")})
		list("d", "again")
	})
}

func TestDeviceErrors(t *testing.T) {
	onAll(t, 0, func(t *testing.T, d Device) {
		f := createFile(t, d, "d/f")
		good := [][]byte{aligned(4096, 0)}
		closed := createFile(t, d, "d/closed")
		must(t, d, Op{Kind: OpClose, File: closed})
		for i, c := range []struct {
			op   Op
			want error
		}{
			{Op{Kind: OpCreate, Path: "d/f"}, syscall.EEXIST},
			{Op{Kind: OpCreate, Path: "d/f/g"}, syscall.ENOTDIR},
			{Op{Kind: OpOpen, Path: "d/none"}, syscall.ENOENT},
			{Op{Kind: OpOpen, Path: "d"}, syscall.EISDIR},
			{Op{Kind: OpRename, Path: "d/none", NewPath: "d/x"}, syscall.ENOENT},
			{Op{Kind: OpRename, Path: "d/f", NewPath: "x"}, syscall.EXDEV},
			{Op{Kind: OpRemove, Path: "d/none"}, syscall.ENOENT},
			{Op{Kind: OpRemove, Path: "d"}, syscall.ENOTEMPTY},
			{Op{Kind: OpSyncDir, Path: "none"}, syscall.ENOENT},
			{Op{Kind: OpCreate, Path: "../out"}, syscall.EINVAL},
			{Op{Kind: OpOpen, Path: "/etc/passwd"}, syscall.EINVAL},
			{Op{Kind: OpOpen, Path: ""}, syscall.EINVAL},
			{Op{Kind: OpWrite, File: f, Data: good, Pos: 100}, syscall.EINVAL},
			{Op{Kind: OpWrite, File: f, Data: good, Pos: -4096}, syscall.EINVAL},
			{Op{Kind: OpWrite, File: f, Data: [][]byte{good[0][:100]}}, syscall.EINVAL},
			{Op{Kind: OpRead, File: f, Data: [][]byte{aligned(8192, 0)[8:4104]}}, syscall.EINVAL},
			{Op{Kind: OpRead, File: f}, syscall.EINVAL},
			{Op{Kind: OpRead, File: closed, Data: good}, syscall.EBADF},
			{Op{Kind: OpClose, File: closed}, syscall.EBADF},
			{Op{Kind: OpSync, File: 0}, syscall.EBADF},
			{Op{Kind: OpSync, File: -3}, syscall.EBADF},
			{Op{Kind: OpSync, File: 77777}, syscall.EBADF},
			{Op{Kind: 99}, syscall.EINVAL},
			{Op{Kind: OpSync, File: f, Class: 9}, syscall.EINVAL},
		} {
			if op := run(t, d, c.op); !errors.Is(op.Err, c.want) {
				t.Errorf("case %d: %v, want %v", i, op.Err, c.want)
			}
		}
		must(t, d, Op{Kind: OpWrite, File: f, Data: good}) // and it still works
	})
}

// What waits goes by class, and first in first out within one.
func TestDeviceStartsByClass(t *testing.T) {
	onAll(t, 1, func(t *testing.T, d Device) {
		f := createFile(t, d, "f")
		var order []string
		for i, c := range []Class{ClassJournal, ClassCold, ClassTail, ClassCold, ClassDirect, ClassJournal} {
			op := &Op{Kind: OpWrite, Class: c, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, 0)}}
			op.Done = func(op *Op) { order = append(order, fmt.Sprintf("%d:%d", op.Class, op.Pos/4096)) }
			d.Submit(op)
		}
		waitAll(t, d)
		if got, want := strings.Join(order, " "), "0:0 0:5 1:4 2:2 3:1 3:3"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	})
}

// 64 writes at once, each resubmitted from its Done as a read of the same place.
func TestDeviceManyAtOnce(t *testing.T) {
	onAll(t, 16, func(t *testing.T, d Device) {
		f := createFile(t, d, "f")
		read := 0
		for i := range 64 {
			op := &Op{Kind: OpWrite, Class: Class(i % 4), File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, byte(i+1))}}
			op.Done = func(op *Op) {
				if op.Err != nil {
					t.Error(op.Err)
				}
				clear(op.Data[0])
				op.Kind = OpRead
				op.Done = func(op *Op) {
					if read++; op.Err != nil || op.N != 4096 || op.Data[0][4095] != byte(i+1) {
						t.Errorf("op %d: %v, %d bytes, %d", i, op.Err, op.N, op.Data[0][4095])
					}
				}
				d.Submit(op)
			}
			d.Submit(op)
		}
		if d.InFlight() != 64 {
			t.Errorf("%d in flight, want 64", d.InFlight())
		}
		waitAll(t, d)
		if read != 64 {
			t.Errorf("%d reads came back", read)
		}
	})
}

// A close waits for the ops before it; those after it are refused, and so is the File once its place is taken again.
func TestDeviceCloseBehindWrites(t *testing.T) {
	for _, c := range devices[1:] {
		t.Run(c.name, func(t *testing.T) {
			d := c.open(t, 2)
			f := createFile(t, d, "f")
			failed := 0
			count := func(op *Op) {
				if op.Err != nil {
					failed++
				}
			}
			for i := range 8 {
				d.Submit(&Op{Kind: OpWrite, File: f, Pos: Position(i) * 4096, Data: [][]byte{aligned(4096, 7)}, Done: count})
			}
			d.Submit(&Op{Kind: OpClose, File: f, Done: count})
			if failed > 0 {
				t.Error("Done ran inside Submit")
			}
			if op := run(t, d, Op{Kind: OpSync, File: f}); !errors.Is(op.Err, syscall.EBADF) {
				t.Errorf("sync after close: %v", op.Err)
			}
			waitAll(t, d)
			if failed != 0 {
				t.Errorf("%d ops before the close failed", failed)
			}
			other := createFile(t, d, "g")
			if op := run(t, d, Op{Kind: OpSync, File: f}); other == f || !errors.Is(op.Err, syscall.EBADF) {
				t.Errorf("File %d was handed out again as %d: %v", f, other, op.Err)
			}
		})
	}
}

func TestDeviceRefusesAnOpTwice(t *testing.T) {
	onAll(t, 0, func(t *testing.T, d Device) {
		f := createFile(t, d, "f")
		op := &Op{Kind: OpSync, File: f}
		d.Submit(op)
		defer func() {
			if recover() == nil {
				t.Error("an op in flight was taken again")
			}
			waitAll(t, d)
		}()
		d.Submit(op)
	})
}

// After everything is closed the process has as many descriptors as before.
func TestDeviceLeavesNoDescriptor(t *testing.T) {
	before := descriptors(t)
	for range 3 {
		t.Run("", func(t *testing.T) {
			d := newTestUring(t, t.TempDir(), UringOptions{})
			f := createFile(t, d, "a/b/c")
			createFile(t, d, "a/b/left-open")
			run(t, d, Op{Kind: OpCreate, Path: "a/b/c"})
			must(t, d, Op{Kind: OpAllocate, File: f, Size: 40 << 20})
			must(t, d, Op{Kind: OpList, Path: "a/b"})
			must(t, d, Op{Kind: OpRemove, Path: "a/b/c"})
			must(t, d, Op{Kind: OpClose, File: f})
		})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(l)
}

func waitAll(t testing.TB, d Device) {
	t.Helper()
	for d.InFlight() > 0 {
		if err := d.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
