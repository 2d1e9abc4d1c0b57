package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/loop/uring"
)

const (
	childEnv = "SLIPRING_LOCK_CHILD" // what to do
	childDir = "SLIPRING_LOCK_DIR"

	ghosts     = 8
	ghostBytes = 1 << 20
)

// TestMain lets this binary be the process that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "hold":
		childHolds(os.Getenv(childDir))
	case "write":
		childWrites(os.Getenv(childDir))
	}
	os.Exit(0)
}

// childHolds takes the lock, says so and keeps it until its input ends.
func childHolds(dir string) {
	l, err := TakeLock(dir, LockOptions{})
	exitOn(err)
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	exitOn(l.Release())
}

// childWrites takes the lock, waits for a line, sends eight direct writes of 1 MiB to the kernel, says so and waits.
func childWrites(dir string) {
	runtime.LockOSThread()
	l, err := TakeLock(dir, LockOptions{})
	exitOn(err)
	ring, err := uring.New(uring.Config{})
	exitOn(err)
	exitOn(l.Hold(ring))
	d, err := NewUring(ring, dir, UringOptions{})
	exitOn(err)
	file, err := do(d, Op{Kind: OpOpen, Path: "ghosts"})
	exitOn(err)
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	_, err = in.ReadString('\n')
	exitOn(err)
	for i := range ghosts {
		data := aligned(ghostBytes, byte(i+1))
		d.Submit(&Op{Kind: OpWrite, File: file.File, Pos: Position(i) * ghostBytes, Data: [][]byte{data}})
	}
	exitOn(ring.Enter(0, 0))
	fmt.Println("submitted")
	_, _ = in.ReadString('\n')
}

func exitOn(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child is this binary in another role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, in, bufio.NewReader(out)}
	t.Cleanup(c.kill)
	return c
}

func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	if got, err := c.out.ReadString('\n'); strings.TrimSpace(got) != want {
		t.Fatalf("child said %q (%v), want %q", got, err, want)
	}
}

// kill ends the child as kill -9 does and reaps it; a second call does nothing.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// A directory in use is refused at once, and the message names the process.
func TestLockRefusesAndNamesALiveHolder(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, "hold", dir)
	c.expect(t, "locked")
	begun := time.Now()
	waited := false
	_, err := TakeLock(dir, LockOptions{Wait: 30 * time.Second, Waiting: func(string) { waited = true }})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d;", c.cmd.Process.Pid)) {
		t.Errorf("%v, want in use by process %d", err, c.cmd.Process.Pid)
	}
	if d := time.Since(begun); waited || d > 10*time.Second {
		t.Errorf("waited %v for a process that runs", d)
	}
	c.kill()
	l, err := TakeLock(dir, LockOptions{})
	if err != nil {
		t.Fatalf("after its end: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// A lock that outlives its process is waited for, the operator is told why, and not for ever. A descriptor of our own
// stands for the requests of the dead process: the file names a process that has ended.
func TestLockWaitsForADeadHolder(t *testing.T) {
	dir := t.TempDir()
	ghost, err := openLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ghost.Close()
	dead := exec.Command(os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(ghost, "%d 12345\n", dead.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(ghost.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir, LockOptions{Wait: time.Millisecond}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("writes that never end: %v", err)
	}
	said := 0
	l, err := TakeLock(dir, LockOptions{Waiting: func(message string) {
		said++
		if !strings.Contains(message, "last writes to land") {
			t.Errorf("said %q", message)
		}
		ghost.Close() // the last write has landed
	}})
	if err != nil || said != 1 {
		t.Fatalf("%v, said it %d times", err, said)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// A process number that was given to somebody else is not the holder.
func TestLockComparesStartTimes(t *testing.T) {
	f, err := openLock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start, _, err := processStart(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		fmt.Sprintf("%d %d\n", os.Getpid(), start):   true,
		fmt.Sprintf("%d %d\n", os.Getpid(), start+1): false,
		"": false, "12": false, "-1 5": false, "x y": false, "99999999 1": false,
	} {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if _, runs := holder(f); runs != want {
			t.Errorf("%q: runs %v", text, runs)
		}
	}
}

// RULES 4. A process is killed with eight direct writes in flight on a slow disk. Whoever gets the lock after that must
// find all of them on the medium, or it would write, acknowledge, and be overwritten by the dead.
func TestRule04GhostWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ghosts")
	if err := os.WriteFile(path, make([]byte, ghosts*ghostBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	unix.Sync() // nothing of ours may wait in the slow disk's queue
	c := startChild(t, "write", dir)
	c.expect(t, "ready")
	slowDown(t, c.cmd.Process.Pid, dir, 4<<20)
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "submitted")
	c.kill()
	if n := landed(t, path); n == ghosts {
		t.Fatal("all writes had landed when the process was dead: the disk was not slow, and the test shows nothing")
	}
	begun := time.Now()
	var said string
	l, err := TakeLock(dir, LockOptions{Waiting: func(m string) { said = m }})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	defer l.Release()
	n := landed(t, path)
	t.Logf("lock taken %v after the kill with %d of %d writes landed; said %q", took, n, ghosts, said)
	if n != ghosts {
		for begun := time.Now(); landed(t, path) < ghosts && time.Since(begun) < 30*time.Second; {
			time.Sleep(50 * time.Millisecond) // leave no write behind that would land in the next test's file
		}
		t.Errorf("the lock was free while %d of %d writes of the dead process had yet to land", ghosts-n, ghosts)
	}
	if said == "" {
		t.Error("the wait was not explained")
	}
}

// landed counts the writes that are wholly on the medium, past the page cache.
func landed(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	buf := aligned(ghostBytes, 0)
	n := 0
	for i := range ghosts {
		if _, err := unix.Pread(fd, buf, int64(i)*ghostBytes); err != nil {
			t.Fatal(err)
		}
		if buf[0] == byte(i+1) && strings.Count(string(buf), string(buf[:1])) == len(buf) {
			n++
		}
	}
	return n
}

// slowDown limits what a process writes to the disk of dir, by a control group of its own; bytes a second.
func slowDown(t *testing.T, pid int, dir string, rate int) {
	t.Helper()
	disk, err := diskOf(dir)
	if err != nil {
		t.Skipf("no throttle: %v", err)
	}
	var failed []error
	for _, way := range []struct{ base, file, line string }{
		{"/sys/fs/cgroup/blkio", "blkio.throttle.write_bps_device", fmt.Sprintf("%s %d", disk, rate)},
		{"/sys/fs/cgroup", "io.max", fmt.Sprintf("%s wbps=%d", disk, rate)},
	} {
		group := filepath.Join(way.base, fmt.Sprintf("slipring-test-%d", pid))
		if err := os.Mkdir(group, 0o755); err != nil {
			failed = append(failed, err)
			continue
		}
		t.Cleanup(func() { removeGroup(t, group) })
		if way.file == "io.max" {
			_ = os.WriteFile(filepath.Join(way.base, "cgroup.subtree_control"), []byte("+io"), 0o644)
		}
		err := errors.Join(writeExisting(filepath.Join(group, way.file), way.line),
			writeExisting(filepath.Join(group, "cgroup.procs"), fmt.Sprint(pid)))
		if err == nil {
			return
		}
		failed = append(failed, err)
	}
	t.Skipf("no throttle: needs root and a cgroup with blkio (v1) or io (v2): %v", errors.Join(failed...))
}

func writeExisting(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// removeGroup waits until the dead process has left its group.
func removeGroup(t *testing.T, group string) {
	var err error
	for range 200 {
		if err = os.Remove(group); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error(err)
}

// diskOf names the whole disk under dir as major:minor; limits are not taken for partitions.
func diskOf(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys := "/sys/dev/block/" + dev
	if _, err := os.Stat(sys + "/partition"); err == nil {
		b, err := os.ReadFile(sys + "/../dev")
		return strings.TrimSpace(string(b)), err
	}
	if _, err := os.Stat(sys); err != nil {
		return "", fmt.Errorf("%s is not on a disk", dir)
	}
	return dev, nil
}
