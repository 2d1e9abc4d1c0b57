package uring

import sys "github.com/iceber/iouring-go/syscall"

// What the ABI gained after the syscall package we build on was written, with the kernel that brought it. The layouts
// are those of io_uring_enter(2), io_uring_register(2) and linux/io_uring.h.
const (
	setupSingleIssuer = 1 << 12 // 6.0
	setupDeferTaskrun = 1 << 13 // 6.1

	enterExtArg         = 1 << 3 // 5.11
	enterRegisteredRing = 1 << 4 // 5.18
	enterNoIOWait       = 1 << 7 // 6.15

	featureExtArg   = 1 << 8  // 5.11
	featureNoIOWait = 1 << 17 // 6.15

	sqOverflow = sys.IORING_SQ_CQ_OVERFLOW // 5.8
	sqTaskrun  = 1 << 2                    // 5.19

	registerBuffers2      = 15 // 5.13
	registerBuffersUpdate = 16 // 5.13
	registerIOWQAff       = 17 // 5.14
	registerRingFDs       = 20 // 5.18
	unregisterRingFDs     = 21 // 5.18
	registerPbufRing      = 22 // 5.19
	unregisterPbufRing    = 23 // 5.19
	registerSyncCancel    = 24 // 6.0

	rsrcSparse = 1 << 0 // 5.19

	acceptMultishot = 1 << 0 // 5.19, in ioprio
	recvMultishot   = 1 << 1 // 6.0, in ioprio
	pollMultishot   = 1 << 0 // 5.13, in len
)

// Flags of a completion.
const (
	FlagBuffer = 1 << 0 // a provided buffer was taken; see BufferID
	FlagMore   = 1 << 1 // the request lives on and will complete again

	bufferShift = 16
)

// Flags of a cancel request.
const (
	CancelAll = 1 << 0 // 5.19: every match, not the first
	CancelFD  = 1 << 1 // 5.19: match the descriptor instead of the user data
	CancelAny = 1 << 2 // 5.19: everything
)

// RWFDSync makes a write durable before it completes; pwritev2(2).
const RWFDSync = 0x2

type geteventsArg struct {
	sigmask     uint64
	sigmaskSize uint32
	pad         uint32
	timespec    uint64
}

type timespec struct {
	seconds, nanos int64
}

type rsrcUpdate struct {
	offset uint32
	resv   uint32
	data   uint64
}

type rsrcRegister struct {
	count uint32
	flags uint32
	resv  uint64
	data  uint64
	tags  uint64
}

type rsrcUpdate2 struct {
	offset uint32
	resv   uint32
	data   uint64
	tags   uint64
	count  uint32
	resv2  uint32
}

type bufReg struct {
	address uint64
	entries uint32
	group   uint16
	flags   uint16
	resv    [3]uint64
}

type bufEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16 // of the ring in entry 0, reserved in the others
}

type syncCancelReg struct {
	address uint64
	fd      int32
	flags   uint32
	timeout timespec
	opcode  uint8
	pad     [7]uint8
	pad2    [3]uint64
}

// cqe is one completion as the kernel writes it.
type cqe struct {
	userData uint64
	result   int32
	flags    uint32
}
