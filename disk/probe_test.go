package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A probe leaves nothing but the reserve and finds an alignment that a device can work with.
func TestProbeFindsDirectIO(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, probeName), []byte("of a killed start"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Probe(dir, ProbeOptions{})
	if err != nil || !p.Direct || p.Alignment < sectorBytes || p.Alignment > pageBytes {
		t.Fatalf("%+v, %v", p, err)
	}
	if l, _ := os.ReadDir(dir); len(l) != 1 || l[0].Name() != reserveName {
		t.Errorf("left %v", l)
	}
	d := newTestUring(t, dir, UringOptions{Alignment: p.Alignment})
	f := createFile(t, d, "f")
	piece := aligned(pageBytes, 3)[:p.Alignment]
	must(t, d, Op{Kind: OpWrite, Sync: true, File: f, Pos: Position(p.Alignment), Data: [][]byte{piece}})
}

// On a disk that is full to the last block a start gives the reserve up and has room for its manifest. Without a reserve it
// is refused in one line.
func TestProbeGivesUpTheReserve(t *testing.T) {
	dir := mounted(t, "tmpfs", "size=1m")
	if _, err := Probe(dir, ProbeOptions{AllowBuffered: true}); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	for err == nil {
		_, err = fill.Write(make([]byte, pageBytes))
	}
	if !errors.Is(err, syscall.ENOSPC) || fill.Close() != nil {
		t.Fatal(err)
	}
	p, err := Probe(dir, ProbeOptions{AllowBuffered: true})
	if err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	d := newTestUring(t, dir, UringOptions{Alignment: p.Alignment, Buffered: !p.Direct})
	if _, _, err := BeginStart(d, Manifest{Shards: 1}); err != nil {
		t.Errorf("the manifest has no room: %v", err)
	}
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint("fill-", i)), make([]byte, pageBytes), 0o600)
	}
	if _, err = Probe(dir, ProbeOptions{AllowBuffered: true}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("without a reserve: %v", err)
	}
}

// Without direct I/O the start is refused in one line, or goes on buffered when asked by name.
func TestProbeWithoutDirectIO(t *testing.T) {
	dir := noDirectIO(t)
	_, err := Probe(dir, ProbeOptions{})
	want := "disk: " + dir + ": open with O_DIRECT: invalid argument; move the data directory to ext4 or xfs, or allow buffered I/O"
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
	return mounted(t, "ramfs", "")
}

// mounted is a fresh file system of a kind.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, kind, 0, options); err != nil {
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
