package uring

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	sys "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// SQE returns the next submission entry, cleared; it is submitted by the next Enter. Never nil: a full queue costs an
// extra enter. The pointer is the caller's until the next call of SQE or Enter.
func (r *Ring) SQE() *SQE {
	if r.sqTail-r.sqHead > r.sqMask || len(r.spilled) > 0 {
		if !r.makeRoom() {
			e := new(SQE)
			r.spilled = append(r.spilled, e)
			return e
		}
	}
	e := &r.sqes[r.sqTail&r.sqMask]
	r.sqTail++
	*e = SQE{}
	return e
}

// Reserve makes the next n entries go to the kernel together, as a chain of linked entries must. n is at most the
// queue's size.
func (r *Ring) Reserve(n int) {
	if int(r.sqTail-r.sqHead)+n > len(r.sqes) {
		r.makeRoom()
	}
}

// Enter submits everything and lets the kernel finish what is ready. With wait > 0 it then waits for that many
// completions, at most timeoutNanos; a negative timeout has no end. A signal, the timeout or Wake end the wait early
// without an error. The one system call of a turn.
//
// Errors: ErrLost and ErrThread, final both. Memory pressure is no error: what was not taken goes with the next Enter.
func (r *Ring) Enter(wait int, timeoutNanos int64) error {
	r.unspill()
	if len(r.backlog) > r.taken {
		wait = 0
	}
	if wait > 0 {
		r.bell.parked.Store(1)
		if r.bell.woken.Load() != 0 {
			wait = 0
		}
	}
	if atomic.LoadUint32(r.kSQFlags)&sqOverflow != 0 {
		r.stats.Overflows++
	}
	_, err := r.enter(uint32(wait), sys.IORING_ENTER_FLAGS_GETEVENTS, timeoutNanos)
	r.bell.parked.Store(0)
	r.bell.woken.Store(0)
	return err
}

// Ready reports, without a system call, whether an Enter would find something: completions, or work that the kernel has
// put off until our next enter.
func (r *Ring) Ready() bool {
	return len(r.backlog) > r.taken || atomic.LoadUint32(r.kCQTail) != r.cqHead ||
		atomic.LoadUint32(r.kSQFlags)&(sqTaskrun|sqOverflow) != 0
}

// Completions reports whether Dispatch would find something now.
func (r *Ring) Completions() bool {
	return len(r.backlog) > r.taken || atomic.LoadUint32(r.kCQTail) != r.cqHead
}

// Queued is the number of entries that wait for the next Enter.
func (r *Ring) Queued() int { return int(r.sqTail-r.sqHead) + len(r.spilled) }

func (r *Ring) enter(wait, flags uint32, timeoutNanos int64) (refused bool, err error) {
	r.publish()
	atomic.StoreUint32(r.kSQTail, r.sqTail)
	r.arg.timespec = 0
	if wait > 0 && timeoutNanos >= 0 {
		r.timeout = timespec{timeoutNanos / 1e9, timeoutNanos % 1e9}
		r.arg.timespec = uint64(uintptr(unsafe.Pointer(&r.timeout)))
	}
	r.stats.Enters++
	// Syscall, never RawSyscall: a thread that parks must give its P back, or stop-the-world waits for it.
	_, _, errno := syscall.Syscall6(sys.SYS_IO_URING_ENTER, r.enterFD, uintptr(r.sqTail-r.sqHead), uintptr(wait),
		uintptr(flags|r.flags|enterExtArg), uintptr(unsafe.Pointer(&r.arg)), unsafe.Sizeof(r.arg))
	head := atomic.LoadUint32(r.kSQHead)
	r.stats.Submitted += uint64(head - r.sqHead)
	r.sqHead = head
	switch errno {
	case 0, unix.ETIME, unix.EINTR:
		return false, nil
	case unix.EAGAIN, unix.EBUSY, unix.ENOMEM:
		r.stats.Refused++
		return true, nil
	case unix.EBADR:
		return true, fmt.Errorf("uring: %w", ErrLost)
	case unix.EEXIST:
		return true, fmt.Errorf("uring: %w", ErrThread)
	}
	return true, fmt.Errorf("uring: io_uring_enter: %w", errno)
}

// makeRoom empties the submission queue between turns. When the kernel refuses because completions pile up, they move
// to the backlog; when it refuses for want of memory, the caller spills.
func (r *Ring) makeRoom() bool {
	for range 4 {
		r.stats.ExtraEnters++
		refused, err := r.enter(0, 0, -1)
		if err != nil {
			return false // the next Enter reports it
		}
		r.unspill()
		if len(r.spilled) == 0 && r.sqTail-r.sqHead <= r.sqMask {
			return true
		}
		if refused {
			r.stash()
			_, _ = r.enter(0, sys.IORING_ENTER_FLAGS_GETEVENTS, -1)
			runtime.Gosched()
		}
	}
	return false
}

func (r *Ring) unspill() {
	n := 0
	for n < len(r.spilled) && r.sqTail-r.sqHead <= r.sqMask {
		r.sqes[r.sqTail&r.sqMask] = *r.spilled[n]
		r.sqTail++
		n++
	}
	if n > 0 {
		r.spilled = append(r.spilled[:0], r.spilled[n:]...)
	}
}
