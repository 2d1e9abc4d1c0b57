package uring

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BufRing is a group of buffers that the kernel picks from when bytes arrive (Linux 5.19). A buffer is the kernel's
// from Publish until a completion names it, then the caller's until Add and the next Publish.
type BufRing struct {
	ring    *Ring
	group   uint16
	memory  []byte
	entries []bufEntry
	tail    uint16
}

// RegisterBufRing makes a group with room for n buffers, a power of two up to 32768; it is empty.
func (r *Ring) RegisterBufRing(group uint16, n int) (*BufRing, error) {
	size := n * int(unsafe.Sizeof(bufEntry{}))
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("uring: map buffer ring: %w", err)
	}
	b := &BufRing{ring: r, group: group, memory: memory, entries: unsafe.Slice((*bufEntry)(unsafe.Pointer(&memory[0])), n)}
	reg := bufReg{address: address(&memory[0]), entries: uint32(n), group: group}
	if err := r.register(registerPbufRing, unsafe.Pointer(&reg), 1); err != nil {
		_ = unix.Munmap(memory)
		return nil, fmt.Errorf("uring: %w: provided buffers need Linux 5.19: %w", ErrUnsupported, err)
	}
	return b, nil
}

// Add gives a buffer; the kernel sees it after Publish. No more than the group has room for.
func (b *BufRing) Add(id uint16, p []byte) {
	e := &b.entries[int(b.tail)&(len(b.entries)-1)]
	e.address, e.length, e.id = addressOf(p), uint32(len(p)), id
	b.tail++
}

// Publish shows the kernel what was added. The ring's tail shares a word with the first entry's id, which lets one
// 32-bit atomic store order it after the entries.
func (b *BufRing) Publish() {
	word := (*uint32)(unsafe.Pointer(&b.entries[0].id))
	atomic.StoreUint32(word, uint32(b.entries[0].id)|uint32(b.tail)<<16)
}

// Close takes the group from the kernel; no receive may use it any more.
func (b *BufRing) Close() error {
	reg := bufReg{group: b.group}
	if b.ring.fd >= 0 {
		_ = b.ring.register(unregisterPbufRing, unsafe.Pointer(&reg), 1)
	}
	return unix.Munmap(b.memory)
}

// BufferID tells which buffer a completion took; false: none.
func BufferID(flags uint32) (uint16, bool) {
	return uint16(flags >> bufferShift), flags&FlagBuffer != 0
}
