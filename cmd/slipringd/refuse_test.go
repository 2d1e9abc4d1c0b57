package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is missing or wrong is one clear line on stderr, nothing on stdout, and exit status 2.
func TestRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(text string) string {
		path := filepath.Join(t.TempDir(), "slipring.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, x := range []struct {
		name string
		args []string
		want []string // in the line
	}{
		{"port taken", []string{"--listen", taken.Addr().String()}, []string{taken.Addr().String(), "address already in use", "--listen"}},
		{"no such address", []string{"--listen", "192.0.2.1:7400"}, []string{"192.0.2.1:7400", "cannot assign requested address", "--listen"}},
		{"data is a file", []string{"--data", file}, []string{file, "not a directory"}},
		{"data below a file", []string{"--data", filepath.Join(file, "data")}, []string{file, "not a directory"}},
		{"unknown key", []string{"--config", config("disk:\n  journel: 1GiB\n")}, []string{"slipring.yaml:2", `unknown key "disk.journel"`, `"disk.journal"`}},
		{"bad value", []string{"--config", config("memory.limit: much\n")}, []string{"slipring.yaml:1", "memory.limit", `"much"`}},
		{"too little memory", []string{"--config", config("memory.limit: 1MiB\n")}, []string{"memory.limit", "at least"}},
		{"no such file", []string{"--config", "/nonexistent/slipring.yaml"}, []string{"/nonexistent/slipring.yaml", "no such file"}},
		{"bad flag", []string{"--lisen", "127.0.0.1:0"}, []string{"-lisen", "--help"}},
		{"bad listen", []string{"--listen", "here"}, []string{"--listen", `"here"`, "127.0.0.1:7400"}},
		{"two shards", []string{"--shards", "2"}, []string{"--shards", "2", "1"}},
		{"argument", []string{"now"}, []string{`"now"`, "--help"}},
		{"empty data", []string{"--data", ""}, []string{"--data", "empty"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			args := []string{"--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")}
			checkRefusal(t, launch(t, conditions{dir: t.TempDir()}, append(args, x.args...)...), x.want...)
		})
	}
}

// checkRefusal waits for the end and looks at the line.
func checkRefusal(t *testing.T, d *daemon, want ...string) {
	t.Helper()
	status, stdout := d.wait(t, 20*time.Second)
	text := d.stderr.String()
	if status != 2 || stdout != "" {
		t.Errorf("exit %d, stdout %q; stderr:\n%s", status, stdout, text)
	}
	line, more, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "slipringd: ") || more != "" {
		t.Errorf("stderr is not one line of slipringd's:\n%s", text)
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			t.Errorf("the line does not say %q:\n%s", w, line)
		}
	}
}

// A data directory has one broker, and the second is told which process it is.
func TestRefusesDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, conditions{}, "--data", dir)
	second := launch(t, conditions{}, "--listen", "127.0.0.1:0", "--data", dir)
	checkRefusal(t, second, dir, "in use", fmt.Sprintf("process %d", first.cmd.Process.Pid))
	first.signal(t, unix.SIGTERM)
	if status, _ := first.wait(t, 20*time.Second); status != 0 {
		t.Errorf("the first one ended with %d", status)
	}
}

// A directory that another user may not write is named with the user.
func TestRefusesForeignDirectory(t *testing.T) {
	dir, c := t.TempDir(), conditions{uid: 0}
	if os.Getuid() == 0 {
		c.uid, dir = nobody, publicDir(t, 0)
	} else if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	d := launch(t, c, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", memoryFile(t))
	uid := os.Getuid()
	if c.uid != 0 {
		uid = c.uid
	}
	checkRefusal(t, d, dir, "permission denied", fmt.Sprintf("user %d", uid))
}

// A manifest that is not one is refused with its path and left as it is.
func TestRefusesForeignManifest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "manifest")
	if err := os.WriteFile(path, []byte("some other program's file"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkRefusal(t, launch(t, conditions{}, "--listen", "127.0.0.1:0", "--data", dir), dir, "manifest")
	if text, err := os.ReadFile(path); err != nil || string(text) != "some other program's file" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

// A kernel or container that bars io_uring is named, with where to look.
func TestRefusesWithoutRing(t *testing.T) {
	d := launch(t, conditions{env: []string{childNoRing + "=1"}}, "--listen", "127.0.0.1:0", "--data", t.TempDir())
	checkRefusal(t, d, "io_uring", "not permitted", "seccomp")
}

// So little lockable memory that the kernel makes no ring is named with what to raise.
func TestRefusesTinyMemlock(t *testing.T) {
	needsRoot(t) // root itself has no such limit
	c := conditions{uid: nobody, env: []string{childMemlock + "=4096"}}
	d := launch(t, c, "--listen", "127.0.0.1:0", "--data", filepath.Join(publicDir(t, nobody), "data"), "--config", memoryFile(t))
	checkRefusal(t, d, "io_uring", "RLIMIT_MEMLOCK")
}

// A file system without direct I/O is refused, unless it is allowed by name; then it works, with one warning.
func TestRefusesBufferedUnlessAllowed(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("cannot mount a ramfs, the file system without direct I/O that every kernel has: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(dir, "data")
	checkRefusal(t, launch(t, conditions{}, "--listen", "127.0.0.1:0", "--data", data), data, "O_DIRECT", "allow buffered I/O")
	d := serve(t, conditions{}, "--data", data, "--config", memoryFile(t), "--allow-buffered")
	roundTrip(t, d.addr)
	d.signal(t, unix.SIGTERM)
	if status, _ := d.wait(t, 20*time.Second); status != 0 {
		t.Errorf("exit %d", status)
	}
	if log := d.stderr.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "buffered I/O") {
		t.Errorf("the log does not warn once of buffered I/O:\n%s", log)
	}
}

// memoryFile is a configuration that suits a test.
func memoryFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(publicDir(t, os.Getuid()), "slipring.yaml")
	if err := os.WriteFile(path, []byte("memory.limit: 256MiB\ndisk.journal: 16MiB\ncpu.pin: false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
