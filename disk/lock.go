package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/fault"
)

const (
	lockName = "lock"

	lockWait = 60 * time.Second
	lockPoll = 20 * time.Millisecond
	// aliveMax is for how long a holder that runs may still be about to die of a signal.
	aliveMax = 200 * time.Millisecond
)

// ErrInUse: another process has the data directory.
var ErrInUse = errors.New("in use")

// Lock is this process's claim on a data directory, a flock(2) on the file lock in it.
//
// After kill -9 the kernel goes on with the direct writes that the dead process had in flight, seconds long on a slow
// disk. Hold gives the descriptor to every ring, so that the claim lasts until the last of those writes has landed; a
// lock of fcntl(2) would end with the process.
type Lock struct {
	file *os.File
}

// LockOptions of TakeLock. Zero values mean the default.
type LockOptions struct {
	Wait    time.Duration        // for the writes of a dead process; 60 s
	Waiting func(message string) // called once when it comes to that; may be nil
}

// TakeLock makes dir if it is missing and claims it. It blocks, at most for Wait, while nobody who runs holds the lock.
//
// Errors: ErrInUse, at once if the process that holds it runs, and with its number.
func TakeLock(dir string, opt LockOptions) (*Lock, error) {
	if opt.Wait == 0 {
		opt.Wait = lockWait
	}
	file, err := openLock(dir)
	if err != nil {
		return nil, err
	}
	if err := waitLock(file, dir, opt); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &Lock{file: file}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("disk: %s: %w", file.Name(), err), file.Close())
	}
	return l, nil
}

// Registrar is the part of a ring that keeps a descriptor open until its last request has ended.
type Registrar interface {
	RegisterFiles(fds ...int) error
}

// Hold registers the lock in a ring, before that ring's first write.
func (l *Lock) Hold(ring Registrar) error {
	if fault.On(fault.Rule04LockInRing) {
		return nil
	}
	return ring.RegisterFiles(int(l.file.Fd()))
}

// Release ends this process's own part of the claim; rings that hold the lock end theirs when they are closed.
func (l *Lock) Release() error { return l.file.Close() }

func openLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, directoryMode); err != nil {
		return nil, directoryError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, directoryError(dir, err)
	}
	return f, nil
}

// waitLock polls: a blocking flock could not tell a process that runs from the writes of one that does not.
func waitLock(file *os.File, dir string, opt LockOptions) error {
	begun := time.Now()
	said := false
	alive := time.Duration(0)
	for {
		err := retry(func() error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("disk: %s: flock: %w; put the data directory on a local file system", file.Name(), err)
		}
		pid, runs := holder(file)
		if runs {
			if alive += lockPoll; alive > aliveMax {
				return fmt.Errorf("disk: %s: %w by process %d; stop it, or give this broker another data directory", dir, ErrInUse, pid)
			}
		} else if alive = 0; !said {
			said = true
			if opt.Waiting != nil {
				opt.Waiting(fmt.Sprintf("disk: %s: the lock of process %d, which has ended, is still held: waiting up to %v for its last writes to land", dir, pid, opt.Wait))
			}
		}
		if time.Since(begun) > opt.Wait {
			return fmt.Errorf("disk: %s: %w: process %d has ended, but its lock was still held after %v; either its writes do not end, or a process in another container has the directory", dir, ErrInUse, pid, opt.Wait)
		}
		time.Sleep(lockPoll)
	}
}

// sign writes who holds the lock: process number and its start time, since numbers come again. The width is fixed and
// nothing is truncated: that would wait for the page's writeback, on a slow disk as long as the disk likes.
func (l *Lock) sign() error {
	pid := os.Getpid()
	start, _, err := processStart(pid)
	if err != nil {
		start = 0 // without /proc nobody can compare it either
	}
	_, err = l.file.WriteAt(fmt.Appendf(nil, "%10d %20d\n", pid, start), 0)
	return err
}

// holder reads who signed the lock and whether that process still runs.
func holder(file *os.File) (pid int, runs bool) {
	var buf [64]byte
	n, _ := file.ReadAt(buf[:], 0)
	words := bytes.Fields(buf[:n])
	if len(words) != 2 {
		return 0, false // being written, or of nobody we know: look again
	}
	pid, err := strconv.Atoi(string(words[0]))
	if err != nil || pid <= 0 {
		return 0, false
	}
	start, ended, err := processStart(pid)
	return pid, err == nil && !ended && strconv.FormatUint(start, 10) == string(words[1])
}

// Of the kernel's flags of a task (include/linux/sched.h): a signal has ended it; it is on its way out.
const flagSignaled, flagExiting = 0x400, 0x4

// processStart reads the start time of a process (clock ticks since boot) and whether it has ended; proc_pid_stat(5). A
// killed one that waits for its writes on a slow disk stays in state D for as long, so its flags and a pending SIGKILL count
// too. The name in parentheses may hold anything, so fields are counted from the last parenthesis: state is the 3rd, flags
// the 9th, start the 22nd, pending signals the 31st.
func processStart(pid int) (start uint64, ended bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 29 {
		return 0, false, fmt.Errorf("disk: /proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(field int) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(string(fields[field-3]), 10, 64)
		}
		return n
	}
	flags, start, pending := number(9), number(22), number(31)
	state := fields[0][0]
	ended = state == 'Z' || state == 'X' || flags&(flagSignaled|flagExiting) != 0 || pending&(1<<(unix.SIGKILL-1)) != 0
	return start, ended, err
}
