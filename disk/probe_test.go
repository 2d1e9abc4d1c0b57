package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A probe leaves nothing and finds an alignment that a device can work with.
func TestProbeFindsDirectIO(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, probeName), []byte("of a killed start"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Probe(dir, ProbeOptions{})
	if err != nil || !p.Direct || p.Alignment < sectorBytes || p.Alignment > pageBytes {
		t.Fatalf("%+v, %v", p, err)
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("left %v", l)
	}
	d := newTestUring(t, dir, UringOptions{Alignment: p.Alignment})
	f := createFile(t, d, "f")
	piece := aligned(pageBytes, 3)[:p.Alignment]
	must(t, d, Op{Kind: OpWrite, Sync: true, File: f, Pos: Position(p.Alignment), Data: [][]byte{piece}})
}

// Without direct I/O the start is refused in one line, or goes on buffered when asked by name.
func TestProbeWithoutDirectIO(t *testing.T) {
	dir := noDirectIO(t)
	_, err := Probe(dir, ProbeOptions{})
	want := "disk: " + dir + ": open with O_DIRECT: invalid argument; move data.dir to ext4 or xfs, or allow buffered I/O"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	p, err := Probe(dir, ProbeOptions{AllowBuffered: true})
	if err != nil || p.Direct || p.Alignment == 0 || p.Reason == "" {
		t.Errorf("allowed by name: %+v, %v", p, err)
	}
}

// noDirectIO mounts a file system that refuses O_DIRECT: ramfs takes buffered writes only.
func noDirectIO(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("needs root: mounting a file system without direct I/O: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestProbeSaysWhatIsWrongInOneLine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a file":        {second(Probe(file, ProbeOptions{})), "not a directory"},
		"lock a file":   {second(TakeLock(file, LockOptions{})), "not a directory"},
		"missing":       {second(Probe(filepath.Join(dir, "none"), ProbeOptions{})), "no such file"},
		"full":          {directoryError(dir, syscall.ENOSPC), "free some space"},
		"read-only":     {directoryError(dir, syscall.EROFS), "mounted read-only"},
		"not permitted": {directoryError(dir, &os.PathError{Op: "open", Path: dir, Err: syscall.EACCES}), "change owner or mode"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") || strings.Count(c.err.Error(), dir) != 1 {
			t.Errorf("%s: %q, want one line with %q and the directory once", name, c.err, c.want)
		}
	}
}

// A full disk is found by the probe's write; tmpfs of one page holds the directory and nothing else.
func TestProbeFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Skipf("needs root: mounting a small file system: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Probe(dir, ProbeOptions{AllowBuffered: true})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("%v", err)
	}
}

func TestExplainRingNamesWhatToLookAt(t *testing.T) {
	err := ExplainRing(syscall.ENOSYS)
	for _, want := range []string{"kernel ", "kernel.io_uring_disabled", "seccomp"} {
		if !errors.Is(err, syscall.ENOSYS) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
