package uring

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var (
	// ErrUnsupported: the kernel, a sysctl or a seccomp profile bars io_uring or a feature we need.
	ErrUnsupported = errors.New("io_uring is not usable here")
	// ErrMemlock: RLIMIT_MEMLOCK does not allow to pin the memory; go on without registered buffers.
	ErrMemlock = errors.New("memlock limit too small to register buffers")
	// ErrLost: the kernel had no memory for a completion and dropped it. Nothing in flight can be believed any more.
	ErrLost = errors.New("the kernel dropped a completion")
	// ErrThread: the ring was used from another thread than the one that made it.
	ErrThread = errors.New("ring used from a second thread")
)

func setupError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("uring: %w: the kernel has no io_uring (needs Linux 5.11)", ErrUnsupported)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("uring: %w: not permitted; see sysctl kernel.io_uring_disabled and the container's seccomp profile", ErrUnsupported)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("uring: setup: %w; raise RLIMIT_MEMLOCK", err)
	}
	return fmt.Errorf("uring: setup: %w", err)
}
