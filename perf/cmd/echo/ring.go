package main

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	entries     = 1024
	completions = 8192
	buffers     = 512
	bufferBytes = 16 << 10
)

// ring is one io_uring with a group of receive buffers.
type ring struct {
	fd                 int
	sqes               []sqe
	sqMask, sqTail     uint32
	kSQHead, kSQTail   *uint32
	cqes               []cqe
	cqMask, cqHead     uint32
	kCQHead, kCQTail   *uint32
	group              []bufEntry
	groupTail          uint16
	memory             []byte
	starved, atTheSame []int32 // receives that ended for want of buffers
}

// Completions: operation in the top byte, buffer in the next two, descriptor below.
const (
	kindAccept = iota + 1
	kindReceive
	kindSend
	kindClose
)

func serveRing(listener int) error {
	r, err := newRing()
	if err != nil {
		return err
	}
	r.accept(listener)
	for {
		if err := r.enter(1); err != nil {
			return err
		}
		for tail := atomic.LoadUint32(r.kCQTail); r.cqHead != tail; r.cqHead++ {
			if err := r.complete(r.cqes[r.cqHead&r.cqMask], listener); err != nil {
				return err
			}
		}
		atomic.StoreUint32(r.kCQHead, r.cqHead)
		r.publish()
		r.starved, r.atTheSame = r.atTheSame[:0], r.starved
		for _, fd := range r.atTheSame {
			r.receive(fd)
		}
	}
}

func (r *ring) complete(c cqe, listener int) error {
	fd := int32(c.userData & 0xffffffff)
	switch kind := c.userData >> 56; kind {
	case kindAccept:
		if c.result < 0 {
			return fmt.Errorf("accept: %w", unix.Errno(-c.result))
		}
		r.receive(c.result)
		if c.flags&cqeMore == 0 {
			r.accept(listener)
		}
	case kindReceive:
		id := uint16(c.flags >> 16)
		switch {
		case c.result > 0:
			r.send(fd, id, c.result)
			if c.flags&cqeMore == 0 {
				r.receive(fd)
			}
		case c.result == -int32(unix.ENOBUFS):
			r.starved = append(r.starved, fd)
		default:
			s := r.entry(opClose, fd, kindClose)
			s.userData = kindClose << 56
		}
	case kindSend:
		r.give(uint16(c.userData >> 32))
	}
	return nil
}

func (r *ring) accept(listener int) {
	s := r.entry(opAccept, int32(listener), kindAccept)
	s.ioprio = acceptMultishot
	s.opFlags = unix.SOCK_CLOEXEC
}

func (r *ring) receive(fd int32) {
	s := r.entry(opRecv, fd, kindReceive)
	s.ioprio = recvMultishot
	s.flags = sqeBufferSelect
}

func (r *ring) send(fd int32, id uint16, n int32) {
	s := r.entry(opSend, fd, kindSend)
	s.userData |= uint64(id) << 32
	s.address = uint64(uintptr(unsafe.Pointer(&r.memory[int(id)*bufferBytes])))
	s.length = uint32(n)
	s.opFlags = unix.MSG_NOSIGNAL | unix.MSG_WAITALL
}

func (r *ring) entry(op uint8, fd int32, kind uint64) *sqe {
	for r.sqTail-atomic.LoadUint32(r.kSQHead) > r.sqMask {
		_ = r.enter(0) // full; an error comes back at the turn's own enter
	}
	s := &r.sqes[r.sqTail&r.sqMask]
	r.sqTail++
	*s = sqe{opcode: op, fd: fd, userData: kind<<56 | uint64(uint32(fd))}
	return s
}

func (r *ring) enter(wait int) error {
	atomic.StoreUint32(r.kSQTail, r.sqTail)
	pending := r.sqTail - atomic.LoadUint32(r.kSQHead)
	flags := 0
	if wait > 0 {
		flags = enterGetEvents
	}
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(pending), uintptr(wait), uintptr(flags), 0, 0)
	if errno != 0 && errno != unix.EINTR && errno != unix.EBUSY && errno != unix.EAGAIN {
		return fmt.Errorf("io_uring_enter: %w", errno)
	}
	return nil
}

func (r *ring) give(id uint16) {
	e := &r.group[r.groupTail%buffers]
	e.address, e.length, e.id = uint64(uintptr(unsafe.Pointer(&r.memory[int(id)*bufferBytes]))), bufferBytes, id
	r.groupTail++
}

// publish stores the tail together with entry 0's id, in one 32-bit word, after the entries.
func (r *ring) publish() {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.group[0].id)), uint32(r.group[0].id)|uint32(r.groupTail)<<16)
}

func newRing() (*ring, error) {
	p := params{flags: setupCQSize | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun, cqEntries: completions}
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup (needs Linux 6.1): %w", errno)
	}
	r := &ring{fd: int(fd)}
	const rw, shared = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	rings, err := unix.Mmap(r.fd, offsetRings, int(max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*16)), rw, shared)
	if err != nil {
		return nil, err
	}
	queue, err := unix.Mmap(r.fd, offsetSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})), rw, shared)
	if err != nil {
		return nil, err
	}
	word := func(at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&rings[at])) }
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&queue[0])), p.sqEntries)
	r.sqMask, r.kSQHead, r.kSQTail = p.sqEntries-1, word(p.sq.head), word(p.sq.tail)
	for i := range p.sqEntries {
		*word(p.sq.array + 4*i) = i
	}
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&rings[p.cq.cqes])), p.cqEntries)
	r.cqMask, r.kCQHead, r.kCQTail = p.cqEntries-1, word(p.cq.head), word(p.cq.tail)
	return r, r.addBuffers()
}

func (r *ring) addBuffers() error {
	const rw, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	group, err := unix.Mmap(-1, 0, buffers*int(unsafe.Sizeof(bufEntry{})), rw, private)
	if err != nil {
		return err
	}
	if r.memory, err = unix.Mmap(-1, 0, buffers*bufferBytes, rw, private); err != nil {
		return err
	}
	r.group = unsafe.Slice((*bufEntry)(unsafe.Pointer(&group[0])), buffers)
	reg := bufReg{address: uint64(uintptr(unsafe.Pointer(&group[0]))), entries: buffers}
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerPbufRing, uintptr(unsafe.Pointer(&reg)), 1, 0, 0)
	if errno != 0 {
		return fmt.Errorf("register buffers: %w", errno)
	}
	for id := range buffers {
		r.give(uint16(id))
	}
	r.publish()
	return nil
}
