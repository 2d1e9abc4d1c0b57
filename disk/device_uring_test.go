package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The kernel may answer anything legal; an op is done when all of it is, or fails after a bounded number of tries.
func TestUringResumesAndRetries(t *testing.T) {
	const size = 64 << 10
	answer := func(path string, values ...int32) func(*Op, int32) int32 {
		return func(op *Op, real int32) int32 {
			if len(values) == 0 {
				return real
			}
			v := values[0]
			if len(values) > 1 || v >= 0 { // a last error stays for ever
				values = values[1:]
			}
			if op.Kind == OpWrite {
				spoil(t, path, int64(op.state.ring.from)+int64(max(v, 0)), int64(real-max(v, 0)))
			} else if op.Kind == OpRead {
				op.spoil(op.state.ring.from + int(max(v, 0)))
			}
			return v
		}
	}
	eagain, eintr, enomem, ecanceled, eio, enospc := errnoResult(syscall.EAGAIN), errnoResult(syscall.EINTR),
		errnoResult(syscall.ENOMEM), errnoResult(syscall.ECANCELED), errnoResult(syscall.EIO), errnoResult(syscall.ENOSPC)
	for _, c := range []struct {
		name    string
		kind    OpKind
		answers []int32
		want    error
	}{
		{"short by a block", OpWrite, []int32{size - 4096}, nil},
		{"short by a byte", OpWrite, []int32{size - 1}, nil},
		{"a byte at a time", OpWrite, []int32{1, 4097, 5}, nil},
		{"nothing, then all", OpWrite, []int32{0, 0}, nil},
		{"nothing for ever", OpWrite, make([]int32, 40), syscall.EIO},
		{"EAGAIN then well", OpWrite, []int32{eagain, eagain, 4096}, nil},
		{"EINTR then well", OpWrite, []int32{eintr, 8192, eintr, 1}, nil},
		{"ENOMEM then well", OpWrite, []int32{enomem, 0}, nil},
		{"ECANCELED then well", OpWrite, []int32{ecanceled, 4096, ecanceled, 1}, nil},
		{"EAGAIN for ever", OpWrite, []int32{eagain}, syscall.EAGAIN},
		{"ECANCELED for ever", OpWrite, []int32{ecanceled}, syscall.ECANCELED},
		{"EIO is final", OpWrite, []int32{eio, 0}, syscall.EIO},
		{"ENOSPC is final", OpWrite, []int32{8192, enospc, 0}, syscall.ENOSPC},
		{"read short by a byte", OpRead, []int32{size - 1}, nil},
		{"read a byte at a time", OpRead, []int32{1, 4097, 4500}, nil},
		{"read EAGAIN", OpRead, []int32{eagain, 4096}, nil},
		{"read EIO", OpRead, []int32{eio, 0}, syscall.EIO},
		{"sync EINTR", OpSync, []int32{eintr, 0}, nil},
		{"sync ENOMEM is final", OpSync, []int32{enomem, 0}, syscall.ENOMEM},
		{"sync EIO is final", OpSync, []int32{eio, 0}, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d := newTestUring(t, dir, UringOptions{})
			f := createFile(t, d, "f")
			data := pattern(size)
			if c.kind == OpRead {
				must(t, d, Op{Kind: OpWrite, File: f, Data: [][]byte{data}})
			}
			d.tamper = answer(filepath.Join(dir, "f"), c.answers...)
			buf := aligned(size, 0)
			op := Op{Kind: c.kind, File: f, Sync: true, Data: [][]byte{data[:4096], data[4096:12288], data[12288:]}}
			if c.kind == OpRead {
				op.Data = [][]byte{buf[:8192], buf[8192:]}
			}
			if got := run(t, d, op); !errors.Is(got.Err, c.want) || c.want == nil && c.kind != OpSync && got.N != size {
				t.Fatalf("%v after %d bytes, want %v", got.Err, got.N, c.want)
			}
			if c.want != nil || c.kind == OpSync {
				return
			}
			if c.kind == OpWrite {
				buf, _ = os.ReadFile(filepath.Join(dir, "f"))
			}
			if !bytes.Equal(buf, data) {
				t.Error("other bytes than those written")
			}
		})
	}
}

// spoil makes the bytes that the kernel is said not to have written wrong.
func spoil(t *testing.T, path string, at, n int64) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xee}, int(n)), at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// spoil makes the bytes of Data from the given one on wrong.
func (op *Op) spoil(from int) {
	for _, p := range op.Data {
		for i := min(from, len(p)); i < len(p); i++ {
			p[i] = 0xee
		}
		from = max(from-len(p), 0)
	}
}

// A reader of a file that ends inside a block gets all of it, once.
func TestUringReadsUnalignedEnd(t *testing.T) {
	dir := t.TempDir()
	want := pattern(9000)
	if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	d := newTestUring(t, dir, UringOptions{})
	f := must(t, d, Op{Kind: OpOpen, Path: "f"}).File
	buf := aligned(16384, 0)
	if op := must(t, d, Op{Kind: OpRead, File: f, Data: [][]byte{buf}}); op.N != len(want) || !bytes.Equal(buf[:op.N], want) {
		t.Errorf("read %d bytes of %d", op.N, len(want))
	}
}

// More pieces than one request may have.
func TestUringManyPieces(t *testing.T) {
	d := newTestUring(t, t.TempDir(), UringOptions{})
	f := createFile(t, d, "f")
	data := pattern(1500 * 4096)
	var pieces [][]byte
	for i := range 1500 {
		pieces = append(pieces, data[i*4096:][:4096])
	}
	must(t, d, Op{Kind: OpWrite, File: f, Data: pieces})
	buf := aligned(len(data), 0)
	if must(t, d, Op{Kind: OpRead, File: f, Data: [][]byte{buf}}); !bytes.Equal(buf, data) {
		t.Error("other bytes than those written")
	}
}

func TestUringOpensDirectAndPrivate(t *testing.T) {
	dir := t.TempDir()
	d := newTestUring(t, dir, UringOptions{})
	f := createFile(t, d, "topics/9/f")
	for path, want := range map[string]os.FileMode{"topics/9/f": 0o600, "topics/9": os.ModeDir | 0o700} {
		if st, err := os.Stat(filepath.Join(dir, path)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v %v, want %v", path, st.Mode(), err, want)
		}
	}
	fd := d.files[int32(f)&filesMax-1].fd
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_DIRECT == 0 {
		t.Errorf("flags %x: not direct (%v)", flags, errno)
	}
}

// No name leads out of the data directory, whatever lies in it.
func TestUringFollowsNoLink(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Symlink(out, filepath.Join(dir, "topics")), os.WriteFile(filepath.Join(out, "f"), nil, 0o600),
		os.Symlink(filepath.Join(out, "f"), filepath.Join(dir, "f"))); err != nil {
		t.Fatal(err)
	}
	for _, old := range []bool{false, true} {
		d := newTestUring(t, dir, UringOptions{})
		d.worker.root.old = old
		if op := run(t, d, Op{Kind: OpOpen, Path: "f"}); !errors.Is(op.Err, syscall.ELOOP) {
			t.Errorf("openat2 missing %v: opened a link: %v", old, op.Err)
		}
		if old {
			continue // without openat2 only the last component is guarded
		}
		if op := run(t, d, Op{Kind: OpCreate, Path: "topics/1"}); op.Err == nil {
			t.Error("created a file behind a link")
		}
		if op := run(t, d, Op{Kind: OpRemove, Path: "topics/f"}); op.Err == nil {
			t.Error("removed a file behind a link")
		}
	}
}

// RULES 27. A large removal goes in steps, and what comes after it does not wait for the end.
func TestRule27LargeRemovalInSteps(t *testing.T) {
	dir := t.TempDir()
	d := newTestUring(t, dir, UringOptions{})
	f := createFile(t, d, "big")
	must(t, d, Op{Kind: OpAllocate, File: f, Size: 100 << 20})
	must(t, d, Op{Kind: OpClose, File: f})
	var order []OpKind
	note := func(op *Op) {
		if op.Err != nil {
			t.Error(op.Err)
		}
		order = append(order, op.Kind)
	}
	d.Submit(&Op{Kind: OpRemove, Path: "big", Done: note})
	d.Submit(&Op{Kind: OpCreate, Path: "small", Done: note})
	waitAll(t, d)
	if len(order) != 2 || order[0] != OpCreate {
		t.Errorf("order %v: the small op waited for the large removal", order)
	}
	if _, err := os.Stat(filepath.Join(dir, "big")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

// Once warm an op costs no allocation.
func TestUringAllocatesNothing(t *testing.T) {
	d := newTestUring(t, t.TempDir(), UringOptions{Depth: 4})
	f := createFile(t, d, "f")
	done := 0
	ops := make([]Op, 8)
	for i := range ops {
		ops[i] = Op{Kind: OpWrite, Class: Class(i % 4), Sync: i%2 == 0, File: f, Pos: Position(i) * 8192,
			Data: [][]byte{aligned(4096, 1), aligned(4096, 2)}, Done: func(*Op) { done++ }}
	}
	round := func() {
		for i := range ops {
			d.Submit(&ops[i])
		}
		for d.InFlight() > 0 {
			if err := d.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations in a round of %d writes", n, len(ops))
	}
}

// BenchmarkUringDurableWrite: one 4 KiB write with RWF_DSYNC into a zero-written file, one at a time. It shows the disk
// more than the code.
func BenchmarkUringDurableWrite(b *testing.B) {
	d := newTestUring(b, b.TempDir(), UringOptions{})
	f := createFile(b, d, "f")
	must(b, d, Op{Kind: OpWrite, File: f, Data: [][]byte{aligned(1<<20, 0)}, Sync: true})
	op := Op{Kind: OpWrite, Sync: true, File: f, Data: [][]byte{aligned(4096, 1)}}
	b.ReportAllocs()
	for i := range b.N {
		op.Pos = Position(i%256) * 4096
		d.Submit(&op)
		if err := d.Wait(); err != nil || op.Err != nil {
			b.Fatal(err, op.Err)
		}
	}
}

func errnoResult(e syscall.Errno) int32 { return -int32(e) }

// pattern returns n aligned bytes in which no two blocks are alike.
func pattern(n int) []byte {
	b := aligned(n, 0)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)
	}
	return b
}
