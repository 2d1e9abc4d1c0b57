package uring

import (
	"unsafe"

	sys "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// SQE is one submission entry. A method prepares it whole; Tag and the With methods come after.
type SQE struct {
	sys.SubmissionQueueEntry64
}

const _ = -(unsafe.Sizeof(SQE{}) - 64) // the kernel's layout: 64 bytes

// Tag names the handler and what it is told.
func (e *SQE) Tag(kind uint8, token uint64) { e.SetUserData(UserData(kind, token)) }

// Link makes the next entry start only when this one succeeded.
func (e *SQE) Link() { e.SetFlags(sys.IOSQE_FLAGS_IO_LINK) }

// Async makes the kernel use a worker thread at once, for operations that would block the submitter.
func (e *SQE) Async() { e.SetFlags(sys.IOSQE_FLAGS_ASYNC) }

// Nop completes with 0.
func (e *SQE) Nop() { e.PrepOperation(sys.IORING_OP_NOP, -1, 0, 0, 0) }

// Read fills p from offset, bytes; result: bytes read.
func (e *SQE) Read(fd int, p []byte, offset int64) {
	e.PrepOperation(sys.IORING_OP_READ, int32(fd), addressOf(p), uint32(len(p)), uint64(offset))
}

// Write puts p at offset; rwFlags 0 or RWFDSync.
func (e *SQE) Write(fd int, p []byte, offset int64, rwFlags uint32) {
	e.PrepOperation(sys.IORING_OP_WRITE, int32(fd), addressOf(p), uint32(len(p)), uint64(offset))
	e.SetOpFlags(rwFlags)
}

// ReadFixed is Read into memory inside registered buffer index.
func (e *SQE) ReadFixed(fd int, p []byte, offset int64, index int) {
	e.PrepOperation(sys.IORING_OP_READ_FIXED, int32(fd), addressOf(p), uint32(len(p)), uint64(offset))
	e.SetBufIndex(uint16(index))
}

// WriteFixed is Write from memory inside registered buffer index.
func (e *SQE) WriteFixed(fd int, p []byte, offset int64, rwFlags uint32, index int) {
	e.PrepOperation(sys.IORING_OP_WRITE_FIXED, int32(fd), addressOf(p), uint32(len(p)), uint64(offset))
	e.SetOpFlags(rwFlags)
	e.SetBufIndex(uint16(index))
}

// Readv fills n buffers from offset. The vector itself must stay until the completion.
func (e *SQE) Readv(fd int, iov *unix.Iovec, n int, offset int64) {
	e.PrepOperation(sys.IORING_OP_READV, int32(fd), address(iov), uint32(n), uint64(offset))
}

// Writev writes n buffers at offset; rwFlags 0 or RWFDSync. The vector itself must stay until the completion.
func (e *SQE) Writev(fd int, iov *unix.Iovec, n int, offset int64, rwFlags uint32) {
	e.PrepOperation(sys.IORING_OP_WRITEV, int32(fd), address(iov), uint32(n), uint64(offset))
	e.SetOpFlags(rwFlags)
}

// Fsync flushes a file; dataOnly is fdatasync(2). It runs on a worker thread.
func (e *SQE) Fsync(fd int, dataOnly bool) {
	e.PrepOperation(sys.IORING_OP_FSYNC, int32(fd), 0, 0, 0)
	if dataOnly {
		e.SetOpFlags(sys.IORING_FSYNC_DATASYNC)
	}
}

// AcceptMultishot completes once per connection with its descriptor (Linux 5.19); flags as accept4(2).
func (e *SQE) AcceptMultishot(fd int, flags uint32) {
	e.PrepOperation(sys.IORING_OP_ACCEPT, int32(fd), 0, 0, 0)
	e.SetIoprio(acceptMultishot)
	e.SetOpFlags(flags)
}

// RecvMultishot completes once per piece received into a buffer of the group (Linux 6.0).
func (e *SQE) RecvMultishot(fd int, group uint16) {
	e.PrepOperation(sys.IORING_OP_RECV, int32(fd), 0, 0, 0)
	e.SetIoprio(recvMultishot)
	e.SetFlags(sys.IOSQE_FLAGS_BUFFER_SELECT)
	e.SetBufGroup(group)
}

// Send sends p; flags as send(2). With MSG_WAITALL the kernel goes on after a short write (Linux 5.19).
func (e *SQE) Send(fd int, p []byte, flags uint32) {
	e.PrepOperation(sys.IORING_OP_SEND, int32(fd), addressOf(p), uint32(len(p)), 0)
	e.SetOpFlags(flags)
}

// Sendmsg sends what the header points to; flags as sendmsg(2). Header and vector must stay until the completion.
func (e *SQE) Sendmsg(fd int, m *unix.Msghdr, flags uint32) {
	e.PrepOperation(sys.IORING_OP_SENDMSG, int32(fd), address(m), 1, 0)
	e.SetOpFlags(flags)
}

// Close closes a descriptor.
func (e *SQE) Close(fd int) { e.PrepOperation(sys.IORING_OP_CLOSE, int32(fd), 0, 0, 0) }

// Cancel ends the request with this user data; its own completion then says ECANCELED, unless it was faster.
func (e *SQE) Cancel(userData uint64) {
	e.PrepOperation(sys.IORING_OP_ASYNC_CANCEL, -1, userData, 0, 0)
}

// CancelFD ends all requests on a descriptor (Linux 5.19).
func (e *SQE) CancelFD(fd int) {
	e.PrepOperation(sys.IORING_OP_ASYNC_CANCEL, int32(fd), 0, 0, 0)
	e.SetOpFlags(CancelAll | CancelFD)
}

// Poll completes when one of the events (poll(2)) is there; multishot: again and again (Linux 5.13).
func (e *SQE) Poll(fd int, events uint32, multishot bool) {
	n := uint32(0)
	if multishot {
		n = pollMultishot
	}
	e.PrepOperation(sys.IORING_OP_POLL_ADD, int32(fd), 0, n, 0)
	e.SetOpFlags(events)
}

// MsgRing posts a completion with the given user data and result to another ring (Linux 5.18).
func (e *SQE) MsgRing(ringFD int, userData uint64, result int32) {
	e.PrepOperation(sys.IORING_OP_MSG_RING, int32(ringFD), 0, uint32(result), userData)
}

func addressOf(p []byte) uint64 { return address(unsafe.SliceData(p)) }

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
