package disk

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/fault"
)

const (
	fileMode      = 0o600
	directoryMode = 0o700

	// punchBytes is the most that one step of a removal frees: a file system holds its locks for that long.
	punchBytes = 16 << 20
)

// root is the data directory as a place that no path leads out of: every name is resolved beneath its descriptor and
// through no symbolic link (openat2(2), Linux 5.6; barred by some seccomp profiles, then the last component only).
//
// Thread: any one at a time; the worker's while it runs.
type root struct {
	fd      int
	old     bool            // openat2 is missing
	flags   int             // O_DIRECT, or 0 for buffered I/O
	durable map[string]bool // directories whose name and whose parents' names are known to be on the medium
}

func openRoot(dir string, flags int) (*root, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, directoryError(dir, fmt.Errorf("open: %w", err))
	}
	return &root{fd: fd, flags: flags, durable: map[string]bool{"": true}}, nil
}

func (r *root) close() error { return unix.Close(r.fd) }

// open opens path beneath the data directory.
func (r *root) open(path string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = fileMode
	}
	for {
		var fd int
		var err error
		if r.old {
			fd, err = unix.Openat(r.fd, path, flags, fileMode)
		} else {
			fd, err = unix.Openat2(r.fd, path, &how)
		}
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && !r.old: // EAGAIN: a rename raced the walk
		case !r.old && (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)):
			r.old = true
		default:
			return -1, err
		}
	}
}

// within calls fn with the descriptor of path's directory and the last component of path.
func (r *root) within(path string, fn func(dir int, name string) error) error {
	dir := parent(path)
	if dir == "" {
		return fn(r.fd, path)
	}
	fd, err := r.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fn(fd, path[len(dir)+1:])
}

// create makes a new file and, durably, the directories above it.
func (r *root) create(path string) (int, error) {
	fd, err := r.createOnce(path)
	if errors.Is(err, unix.ENOENT) { // another shard has removed a directory that we know as made
		for dir := parent(path); dir != ""; dir = parent(dir) {
			delete(r.durable, dir)
		}
		fd, err = r.createOnce(path)
	}
	return fd, err
}

func (r *root) createOnce(path string) (int, error) {
	if err := r.makeDirectories(parent(path)); err != nil {
		return -1, err
	}
	return r.open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|r.flags)
}

// makeDirectories makes dir and what is above it. Another shard may have made one and not synced it yet, so a directory
// counts as durable only once this root has synced the one above.
func (r *root) makeDirectories(dir string) error {
	if r.durable[dir] {
		return nil
	}
	if err := r.makeDirectories(parent(dir)); err != nil {
		return err
	}
	err := r.within(dir, func(fd int, name string) error { return unix.Mkdirat(fd, name, directoryMode) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := r.syncDirectory(parent(dir)); err != nil {
		return err
	}
	r.durable[dir] = true
	return nil
}

func (r *root) syncDirectory(dir string) error {
	fd, err := r.open(orDot(dir), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

// rename replaces to, which is in the same directory (Op.check).
func (r *root) rename(from, to string) error {
	return r.within(from, func(dir int, name string) error {
		return unix.Renameat(dir, name, dir, path.Base(to))
	})
}

// list appends the sorted names in dir; none if there is no such directory.
func (r *root) list(dir string, names []string) ([]string, error) {
	fd, err := r.open(orDot(dir), unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return names, nil
	}
	if err != nil {
		return names, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	found, err := f.Readdirnames(-1)
	names = append(names, found...)
	slices.Sort(names)
	return names, err
}

// removal is a removal under way: a large file goes in steps.
type removal struct {
	fd        int // -1: nothing to punch
	at, bytes int64
	begun     bool
}

// remove does one step; true: that was the last.
func (r *root) remove(path string, m *removal) (bool, error) {
	if !m.begun {
		m.begun, m.fd = true, -1
		r.measure(path, m)
	}
	if m.at < m.bytes && !fault.On(fault.Rule27UnlinkWhole) {
		step := min(punchBytes, m.bytes-m.at)
		err := retry(func() error {
			return unix.Fallocate(m.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, m.at, step)
		})
		if m.at += step; err != nil {
			m.at = m.bytes // not every file system can; then the unlink takes as long as it takes
		}
		return false, nil
	}
	m.finish()
	return true, r.within(path, func(dir int, name string) error {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.EISDIR) {
			delete(r.durable, path)
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// measure opens a file that is too large for one step.
func (r *root) measure(path string, m *removal) {
	fd, err := r.open(path, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return // a directory, or the unlink will say what is wrong
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Blocks*512 <= punchBytes {
		_ = unix.Close(fd)
		return
	}
	m.fd, m.bytes = fd, st.Size
}

func (m *removal) finish() {
	if m.begun && m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
	m.fd = -1
}

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// retry calls fn again while a signal interrupts it.
func retry(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
