package uring

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	sys "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// Config of a ring. Zero values take the defaults.
type Config struct {
	Entries     uint32 // submission queue, a power of two; default 1024
	CompletionQ uint32 // completion queue, a power of two; default 4 × Entries
	Plain       bool   // without SINGLE_ISSUER and DEFER_TASKRUN, as older kernels; for tests
}

// Ring is one io_uring and the requests of one shard on it.
type Ring struct {
	fd       int
	enterFD  uintptr // fd, or its index among the thread's registered rings
	flags    uint32  // for every enter
	mode     string
	deferred bool

	sqes     []SQE
	sqMask   uint32
	sqTail   uint32 // next entry to fill; the kernel sees it at the next enter
	sqHead   uint32 // kernel's head, as of the last enter
	kSQHead  *uint32
	kSQTail  *uint32
	kSQFlags *uint32
	spilled  []*SQE // filled entries for which the kernel had no room, in order

	cqes    []cqe
	cqMask  uint32
	cqHead  uint32 // next completion to dispatch; the kernel sees it at publish
	kCQHead *uint32
	kCQTail *uint32
	backlog []cqe // completions moved out of the way of a full queue, in order
	taken   int   // backlog entries already dispatched

	handlers [256]func(token uint64, result int32, flags uint32)
	stats    Stats

	timeout timespec
	arg     geteventsArg
	maps    [][]byte
	bell    bell
	files   bool
}

// Stats are plain counters of a ring, read on its thread.
type Stats struct {
	Enters      uint64 // io_uring_enter calls, all of them
	ExtraEnters uint64 // those because the submission queue was full
	Refused     uint64 // enters that the kernel turned away for want of memory or room, tried again later
	Submitted   uint64
	Completed   uint64
	Overflows   uint64 // times the completion queue was found overflown; nothing is lost
}

// Kinds say whose completion it is. 0 and 1 are the ring's.
const (
	kindWake   = 0
	KindIgnore = 1  // nobody wants to know: closes, cancels
	KindLoop   = 16 // the loop uses 16 to 31
	KindDisk   = 32 // the disk device uses 32 to 63
)

const tokenBits = 56

// UserData packs a kind and a token of at most 56 bits.
func UserData(kind uint8, token uint64) uint64 {
	return uint64(kind)<<tokenBits | token&(1<<tokenBits-1)
}

// New makes a ring that belongs to the calling thread; the goroutine must be locked to it.
//
// Errors: ErrUnsupported, with what to change.
func New(c Config) (*Ring, error) {
	if c.Entries == 0 {
		c.Entries = 1024
	}
	if c.CompletionQ == 0 {
		c.CompletionQ = 4 * c.Entries
	}
	r := &Ring{bell: bell{fd: -1}}
	params, err := r.setup(c)
	if err != nil {
		return nil, setupError(err)
	}
	if err := r.start(params); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// setup asks for the best mode first. SINGLE_ISSUER lets the kernel skip locks and refuse strangers, DEFER_TASKRUN
// moves completion work into our own enter, TASKRUN_FLAG shows it to a spinning owner.
func (r *Ring) setup(c Config) (*sys.IOURingParams, error) {
	const base = sys.IORING_SETUP_CQSIZE | sys.IORING_SETUP_CLAMP
	modes := []struct {
		flags uint32
		name  string
	}{
		{sys.IORING_SETUP_SUBMIT_ALL | setupSingleIssuer | setupDeferTaskrun | sys.IORING_SETUP_TASKRUN_FLAG, "single issuer, deferred task work"},
		{sys.IORING_SETUP_SUBMIT_ALL | sys.IORING_SETUP_COOP_TASKRUN | sys.IORING_SETUP_TASKRUN_FLAG, "cooperative task work (single issuer with deferred task work needs Linux 6.1)"},
		{0, "plain (cooperative task work needs Linux 5.19)"},
	}
	if c.Plain {
		modes = modes[1:]
	}
	var last error
	for i, m := range modes {
		params := &sys.IOURingParams{Flags: base | m.flags, CQEntries: c.CompletionQ}
		fd, err := sys.IOURingSetup(uint(c.Entries), params)
		if err == nil {
			r.fd, r.enterFD, r.mode = fd, uintptr(fd), m.name
			r.deferred = i == 0 && !c.Plain
			return params, nil
		}
		last = err
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return nil, last
}

func (r *Ring) start(p *sys.IOURingParams) error {
	if p.Features&featureExtArg == 0 || p.Features&sys.IORING_FEAT_NODROP == 0 {
		return fmt.Errorf("uring: %w: waiting with a timeout needs Linux 5.11", ErrUnsupported)
	}
	if err := r.mapQueues(p); err != nil {
		return fmt.Errorf("uring: map queues: %w", err)
	}
	if p.Features&featureNoIOWait != 0 {
		r.flags |= enterNoIOWait
	}
	r.registerRingFD()
	r.handlers[KindIgnore] = func(uint64, int32, uint32) {}
	return r.hangBell()
}

func (r *Ring) mapQueues(p *sys.IOURingParams) error {
	sqBytes := int(p.SQOffset.Array + p.SQEntries*4)
	cqBytes := int(p.CQOffset.Cqes + p.CQEntries*uint32(unsafe.Sizeof(cqe{})))
	rings, err := r.mmap(int64(sys.IORING_OFF_SQ_RING), max(sqBytes, cqBytes))
	if err != nil {
		return err
	}
	entries, err := r.mmap(int64(sys.IORING_OFF_SQES), int(p.SQEntries)*int(unsafe.Sizeof(SQE{})))
	if err != nil {
		return err
	}
	word := func(at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&rings[at])) }

	r.sqes = unsafe.Slice((*SQE)(unsafe.Pointer(&entries[0])), p.SQEntries)
	r.sqMask = p.SQEntries - 1
	r.kSQHead, r.kSQTail, r.kSQFlags = word(p.SQOffset.Head), word(p.SQOffset.Tail), word(p.SQOffset.Flags)
	// Entry i is always announced as i, so the indirection is written once.
	array := unsafe.Slice(word(p.SQOffset.Array), p.SQEntries)
	for i := range array {
		array[i] = uint32(i)
	}

	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&rings[p.CQOffset.Cqes])), p.CQEntries)
	r.cqMask = p.CQEntries - 1
	r.kCQHead, r.kCQTail = word(p.CQOffset.Head), word(p.CQOffset.Tail)
	return nil
}

func (r *Ring) mmap(offset int64, n int) ([]byte, error) {
	m, err := unix.Mmap(r.fd, offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err == nil {
		r.maps = append(r.maps, m)
	}
	return m, err
}

// Handle sets the function for the completions of a kind; once, before its first request. It runs on the ring's thread
// inside Dispatch, with the token, the result (negative: an errno) and the flags.
func (r *Ring) Handle(kind uint8, fn func(token uint64, result int32, flags uint32)) {
	if r.handlers[kind] != nil || kind == kindWake {
		panic(fmt.Sprintf("uring: kind %d has a handler", kind))
	}
	r.handlers[kind] = fn
}

// FD is the ring's descriptor, the target of other rings' MsgRing.
func (r *Ring) FD() int { return r.fd }

// Mode says in words how the kernel runs this ring.
func (r *Ring) Mode() string { return r.mode }

// Deferred reports SINGLE_ISSUER with DEFER_TASKRUN: Linux 6.1, hence multishot receive and provided buffers, too.
func (r *Ring) Deferred() bool { return r.deferred }

// Stats returns the counters so far.
func (r *Ring) Stats() Stats { return r.stats }

// Close cancels what can be cancelled, waits for that, and frees the ring. Requests on regular files that are under way
// go on in the kernel: a caller that owns such memory waits for them first. Their completions are not dispatched.
func (r *Ring) Close() error {
	r.bell.close()
	if r.fd < 0 {
		return nil
	}
	r.cancelEverything()
	r.UnregisterFiles()
	r.unregisterRingFD()
	var errs []error
	for _, m := range r.maps {
		errs = append(errs, unix.Munmap(m))
	}
	errs = append(errs, unix.Close(r.fd))
	r.fd, r.maps = -1, nil
	return errors.Join(errs...)
}

// cancelEverything keeps the kernel from writing into buffers of receives and wake-ups after Close.
func (r *Ring) cancelEverything() {
	reg := syncCancelReg{fd: -1, flags: CancelAny | CancelAll, timeout: timespec{seconds: 1}}
	_ = sys.IOURingRegister(r.fd, registerSyncCancel, unsafe.Pointer(&reg), 1)
}

// bell is how other threads end a wait.
type bell struct {
	woken  atomic.Uint32 // somebody called Wake since the last enter
	parked atomic.Uint32 // the owner is in a waiting enter, or about to
	mu     sync.Mutex    // for fd alone: a late Wake must not write to a descriptor that was closed and reused
	fd     int
	buffer [8]byte // the kernel's, for the armed read
}
