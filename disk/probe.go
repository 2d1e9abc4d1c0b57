package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const probeName = "probe"

// ProbeOptions of Probe.
type ProbeOptions struct {
	AllowBuffered bool // go on without direct I/O where the file system has none
}

// Probed is what a data directory can do.
type Probed struct {
	Direct    bool
	Alignment int    // of direct I/O: memory, length and position, bytes
	Reason    string // why not direct, for the log
}

// Probe finds out by a real write and read whether dir takes direct I/O. The caller holds the lock. What is left is the
// reserve, for a start on a full disk.
//
// Errors: one line each, saying what to change. Source: statx(2), STATX_DIOALIGN (Linux 6.1).
func Probe(dir string, opt ProbeOptions) (Probed, error) {
	root, err := openRoot(dir, unix.O_DIRECT)
	if err != nil {
		return Probed{}, err
	}
	defer root.close()
	_ = unix.Unlinkat(root.fd, probeName, 0) // of a start that was killed
	err = probeWrite(root, unix.O_DIRECT)
	if errors.Is(err, unix.ENOSPC) && root.freeReserve() {
		err = probeWrite(root, unix.O_DIRECT)
	} else if err == nil {
		root.keepReserve()
	}
	if err == nil {
		return Probed{Direct: true, Alignment: directAlignment(root)}, nil
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return Probed{}, directoryError(dir, err)
	}
	if !opt.AllowBuffered {
		return Probed{}, fmt.Errorf("disk: %s: %w; move the data directory to ext4 or xfs, or allow buffered I/O", dir, err)
	}
	if buffered := probeWrite(root, 0); buffered != nil {
		return Probed{}, directoryError(dir, buffered)
	}
	return Probed{Alignment: pageBytes, Reason: err.Error()}, nil
}

// probeWrite writes a block durably into a new file, reads it back and removes the file.
func probeWrite(r *root, flags int) (err error) {
	fd, err := r.open(probeName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|flags)
	if err != nil {
		_ = unix.Unlinkat(r.fd, probeName, 0) // some file systems make the file before they refuse the flag
		return fmt.Errorf("open%s: %w", withDirect(flags), err)
	}
	defer func() {
		err = errors.Join(err, unix.Close(fd), unix.Unlinkat(r.fd, probeName, 0))
	}()
	block, back := alignedBlock(), alignedBlock()
	for i := range block {
		block[i] = byte(i * 7)
	}
	n, err := unix.Pwritev2(fd, [][]byte{block}, 0, unix.RWF_DSYNC)
	if err != nil || n != len(block) {
		return fmt.Errorf("write%s of %d bytes: %w", withDirect(flags), len(block), orShort(err))
	}
	if n, err := unix.Pread(fd, back, 0); err != nil || n != len(back) {
		return fmt.Errorf("read%s of %d bytes: %w", withDirect(flags), len(back), orShort(err))
	}
	if !bytes.Equal(block, back) {
		return fmt.Errorf("read other bytes than were written: %w", unix.EIO)
	}
	return nil
}

// directAlignment asks the file system; 4096 suits those that do not say.
func directAlignment(r *root) int {
	fd, err := r.open(".", unix.O_TMPFILE|unix.O_RDWR)
	if err != nil {
		return pageBytes
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 || st.Dio_mem_align == 0 || st.Dio_offset_align == 0 {
		return pageBytes
	}
	a := max(st.Dio_mem_align, st.Dio_offset_align, sectorBytes)
	if a > pageBytes || a&(a-1) != 0 {
		return pageBytes
	}
	return int(a)
}

// directoryError is the one line an operator needs to make dir usable.
func directoryError(dir string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, unix.ENOTDIR):
		hint = "not a directory; choose another data directory"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = fmt.Sprintf("user %d may not write there; change owner or mode, or choose another data directory", os.Geteuid())
	case errors.Is(err, unix.EROFS):
		hint = "the file system is mounted read-only"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = "free some space or raise the quota"
	case errors.Is(err, unix.EIO):
		hint = "the disk fails; look at the kernel's log"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		hint = "raise the limit of open files"
	default:
		return fmt.Errorf("disk: %s: %w", dir, rootCause(err))
	}
	return fmt.Errorf("disk: %s: %w; %s", dir, rootCause(err), hint)
}

// rootCause drops the path that os and openRoot put before an errno: it is in the line already.
func rootCause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	return err
}

// ExplainRing says why a ring could not be made, with what the operator can look at.
func ExplainRing(err error) error {
	var name unix.Utsname
	kernel := "unknown"
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	return fmt.Errorf("disk: io_uring: %w (kernel %s; sysctl kernel.io_uring_disabled is %s; seccomp filter of this process: %s)",
		err, kernel, readWord("/proc/sys/kernel/io_uring_disabled"), seccompMode())
}

func readWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "not set"
	}
	return strings.TrimSpace(string(b))
}

// seccompMode reads the line Seccomp of proc_pid_status(5).
func seccompMode() string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			switch strings.TrimSpace(v) {
			case "0":
				return "none"
			case "2":
				return "active, it may bar io_uring"
			}
		}
	}
	return "unknown"
}

func withDirect(flags int) string {
	if flags&unix.O_DIRECT != 0 {
		return " with O_DIRECT"
	}
	return ""
}

func orShort(err error) error {
	if err == nil {
		return errors.New("short")
	}
	return err
}

// alignedBlock is 4 KiB at a multiple of 4 KiB.
func alignedBlock() []byte {
	b := make([]byte, 2*pageBytes)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (pageBytes - 1))
	return b[at : at+pageBytes]
}
