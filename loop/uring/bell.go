package uring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Wake makes the owner's Enter return soon, or its next one not wait. From any thread, also after Close.
// Cost: two atomics; a system call only when the owner is parked.
func (r *Ring) Wake() {
	b := &r.bell
	// Order matters on both sides: we set woken and then look at parked, the owner sets parked and then looks at woken.
	// So at least one of us sees the other.
	if b.woken.Swap(1) == 0 && b.parked.Load() == 1 {
		b.ring()
	}
}

// Woken reports whether Wake was called since the last enter, for an owner that spins.
func (r *Ring) Woken() bool { return r.bell.woken.Load() != 0 }

// TakeWake is Woken, and forgets it; the owner must look at its work after that.
func (r *Ring) TakeWake() bool { return r.bell.woken.Swap(0) != 0 }

func (r *Ring) hangBell() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("uring: eventfd: %w", err)
	}
	r.bell.fd = fd
	r.handlers[kindWake] = func(_ uint64, result int32, _ uint32) {
		if result != -int32(unix.ECANCELED) {
			r.armBell()
		}
	}
	r.armBell()
	return nil
}

// armBell keeps one read of the event counter pending; it also resets the counter.
func (r *Ring) armBell() {
	e := r.SQE()
	e.Read(r.bell.fd, r.bell.buffer[:], 0)
	e.Tag(kindWake, 0)
}

var one = [8]byte{1}

func (b *bell) ring() {
	b.mu.Lock()
	if b.fd >= 0 {
		_, _ = unix.Write(b.fd, one[:])
	}
	b.mu.Unlock()
}

func (b *bell) close() {
	b.mu.Lock()
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
		b.fd = -1
	}
	b.mu.Unlock()
}
