package uring

import (
	"errors"
	"fmt"
	"unsafe"

	sys "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// RegisterFiles gives descriptors to the ring. A registered descriptor lives until the last request of the ring has
// ended, also after kill -9: a lock on it then outlives the writes of a dead process.
func (r *Ring) RegisterFiles(fds ...int) error {
	list := make([]int32, len(fds))
	for i, fd := range fds {
		list[i] = int32(fd)
	}
	if err := r.register(sys.IORING_REGISTER_FILES, unsafe.Pointer(&list[0]), len(list)); err != nil {
		return fmt.Errorf("uring: register files: %w", err)
	}
	r.files = true
	return nil
}

// UnregisterFiles takes them back; without effect when there are none.
func (r *Ring) UnregisterFiles() {
	if r.files {
		r.files = false
		_ = r.register(sys.IORING_UNREGISTER_FILES, nil, 0)
	}
}

// RegisterIOWQAff sends the kernel's worker threads of this ring to the CPUs of mask (Linux 5.14); before first use.
// They inherit the shard's pinned CPU otherwise, and an unlink of a large file would hold it for long.
func (r *Ring) RegisterIOWQAff(mask *unix.CPUSet) error {
	if err := r.register(registerIOWQAff, unsafe.Pointer(mask), int(unsafe.Sizeof(*mask))); err != nil {
		return fmt.Errorf("uring: worker affinity (needs Linux 5.14): %w", err)
	}
	return nil
}

// RegisterSparse makes room for n registered buffers (Linux 5.19).
func (r *Ring) RegisterSparse(n int) error {
	reg := rsrcRegister{count: uint32(n), flags: rsrcSparse}
	return memlockError(r.register(registerBuffers2, unsafe.Pointer(&reg), int(unsafe.Sizeof(reg))))
}

// UpdateBuffer pins p as registered buffer i.
//
// Errors: ErrMemlock; the caller goes on with unregistered memory and says so once.
func (r *Ring) UpdateBuffer(i int, p []byte) error {
	iov := unix.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))}
	update := rsrcUpdate2{offset: uint32(i), data: address(&iov), count: 1}
	return memlockError(r.register(registerBuffersUpdate, unsafe.Pointer(&update), int(unsafe.Sizeof(update))))
}

func memlockError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("uring: register buffers: %w", ErrMemlock)
	}
	return fmt.Errorf("uring: register buffers: %w", err)
}

// registerRingFD saves the kernel a descriptor lookup per enter, where it can (Linux 5.18). The index is the thread's.
func (r *Ring) registerRingFD() {
	update := rsrcUpdate{offset: ^uint32(0), data: uint64(r.fd)}
	if r.register(registerRingFDs, unsafe.Pointer(&update), 1) == nil {
		r.enterFD = uintptr(update.offset)
		r.flags |= enterRegisteredRing
	}
}

// unregisterRingFD matters: the thread would keep the ring alive as long as it lives.
func (r *Ring) unregisterRingFD() {
	if r.flags&enterRegisteredRing != 0 {
		update := rsrcUpdate{offset: uint32(r.enterFD)}
		_ = r.register(unregisterRingFDs, unsafe.Pointer(&update), 1)
		r.flags &^= enterRegisteredRing
	}
}

func (r *Ring) register(opcode uint8, arg unsafe.Pointer, n int) error {
	return sys.IOURingRegister(r.fd, opcode, arg, uint32(n))
}
