package main

// The part of io_uring's ABI that the echo needs, from io_uring_setup(2), io_uring_enter(2), io_uring_register(2) and
// linux/io_uring.h. The broker's own ring is not used here: a floor must not share what it is a floor for.
const (
	setupCQSize       = 1 << 3
	setupSubmitAll    = 1 << 7
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	offsetRings = 0
	offsetSQEs  = 0x10000000

	enterGetEvents = 1 << 0

	registerPbufRing = 22

	opAccept = 13
	opClose  = 19
	opSend   = 26
	opRecv   = 27

	sqeBufferSelect = 1 << 5
	acceptMultishot = 1 << 0
	recvMultishot   = 1 << 1

	cqeBuffer = 1 << 0
	cqeMore   = 1 << 1
)

type params struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wqFD uint32
	resv                                                   [3]uint32
	sq                                                     struct {
		head, tail, mask, entries, flags, dropped, array, resv uint32
		resv2                                                  uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, resv uint32
		resv2                                                  uint64
	}
}

type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	offset        uint64
	address       uint64
	length        uint32
	opFlags       uint32
	userData      uint64
	group         uint16
	rest          [22]byte
}

type cqe struct {
	userData uint64
	result   int32
	flags    uint32
}

type bufEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16 // of the ring in entry 0
}

type bufReg struct {
	address uint64
	entries uint32
	group   uint16
	flags   uint16
	resv    [3]uint64
}
