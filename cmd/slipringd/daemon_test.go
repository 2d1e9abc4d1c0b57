package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Environment of a child: the test binary is the daemon then, under the conditions that are named here.
const (
	childRun     = "SLIPRINGD_TEST_RUN"
	childMemlock = "SLIPRINGD_TEST_MEMLOCK" // limit of locked memory, bytes
	childNoRing  = "SLIPRINGD_TEST_NO_RING" // bar io_uring by a seccomp filter

	nobody = 65534
)

func TestMain(m *testing.M) {
	if os.Getenv(childRun) == "" {
		os.Exit(m.Run())
	}
	if err := constrain(); err != nil {
		fmt.Fprintln(os.Stderr, "test: cannot set up:", err)
		os.Exit(77)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func constrain() error {
	if v := os.Getenv(childMemlock); v != "" {
		var n uint64
		if _, err := fmt.Sscan(v, &n); err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	if os.Getenv(childNoRing) != "" {
		return barRing()
	}
	return nil
}

// barRing makes io_uring_setup(2) fail for all threads of this process, as container runtimes do; seccomp(2).
func barRing() error {
	const loadNumber, jumpEqual, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: loadNumber, K: 0},
		{Code: jumpEqual, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // both calls from one thread; TSYNC carries them to the others
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// daemon is slipringd in a process of its own.
type daemon struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr syncBuffer
	addr   string
	ended  chan error
}

// conditions under which a daemon runs.
type conditions struct {
	env []string
	uid int // 0: the test's own
	dir string
}

// launch starts a daemon and does not wait for anything.
func launch(t *testing.T, c conditions, args ...string) *daemon {
	t.Helper()
	d := &daemon{ended: make(chan error, 1)}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.uid != 0 {
		path = publicCopy(t, path)
	}
	d.cmd = exec.Command(path, args...)
	d.cmd.Env = append(append(os.Environ(), childRun+"=1"), c.env...)
	d.cmd.Dir = c.dir
	d.cmd.Stderr = &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.uid != 0 {
		d.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid), NoSetGroups: os.Getuid() != 0}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stdout, d.out = w, bufio.NewReader(r)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		d.ended <- <-d.ended
		r.Close()
	})
	return d
}

// serve starts a daemon on a port of the kernel's choice and waits until it listens.
func serve(t *testing.T, c conditions, args ...string) *daemon {
	t.Helper()
	d := launch(t, c, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	line, err := d.out.ReadString('\n')
	addr, ok := strings.CutPrefix(line, "listening ")
	if err != nil || !ok {
		t.Fatalf("stdout says %q (%v); stderr:\n%s", line, err, d.stderr.String())
	}
	d.addr = strings.TrimSpace(addr)
	return d
}

// wait returns the exit status and what was left on stdout.
func (d *daemon) wait(t *testing.T, limit time.Duration) (status int, stdout string) {
	t.Helper()
	select {
	case err := <-d.ended:
		d.ended <- err
		rest, _ := io.ReadAll(d.out)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), string(rest) // -1: by a signal
		}
		if err != nil {
			t.Fatal(err)
		}
		return 0, string(rest)
	case <-time.After(limit):
		t.Fatalf("still running after %v; stderr:\n%s", limit, d.stderr.String())
		return 0, ""
	}
}

func (d *daemon) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// publicDir is a directory that every user may enter: that of t.TempDir is the test user's own.
func publicDir(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slipringd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, uid, uid)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// publicCopy puts the test binary where another user may run it.
func publicCopy(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(publicDir(t, os.Getuid()), "slipringd.test")
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: runs the daemon as another user, or mounts a file system")
	}
}

// syncBuffer may be read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
