package disk

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/loop/uring"
)

const (
	kindTransfer = uring.KindDisk     // token: index of Uring.slots
	kindWorker   = uring.KindDisk + 1 // the worker has finished something

	defaultDepth = 64
	vectorMax    = 1024 // pieces of one request, IOV_MAX

	// triesMax bounds what is tried again after EAGAIN and the like, without any progress in between.
	triesMax = 16
	// triesInline of them run in the submitter's context, the others on a kernel thread that can wait.
	triesInline = 4
)

// UringOptions of a device. Zero values mean the default.
type UringOptions struct {
	Depth     int  // reads, writes and syncs at work at once, 64
	Alignment int  // as Probe found it; 4096
	Buffered  bool // without O_DIRECT: what Probe found, where an operator allowed it

	// Registered tells the ring's buffer index of memory that it has pinned, -1 of any other; may be nil. Requests of one
	// piece then skip the lookup of its pages, 64 of them for a journal write of 256 KiB.
	Registered func(p []byte) int
}

// Uring is the Device on a shard's ring: reads, writes and syncs are requests of the ring, the rest is done by a worker.
//
// At most Depth requests are with the kernel; the others wait by class, first in first out within one. A few places
// are kept free for the journal. Cost: no allocation per op once an Op has been used, no system call of its own.
type Uring struct {
	ring    *uring.Ring
	worker  *worker
	opt     UringOptions
	slots   []*Op // at work in the ring, by token
	free    []uint32
	queue   opQueue
	atWork  int // ops of the worker
	held    int // closes that wait for the last user of their file
	armed   bool
	counter [8]byte // of the worker's eventfd; the kernel's while armed
	files   []handle
	unused  []int32 // free places in files
	done    uint64  // ops completed

	tamper func(op *Op, result int32) int32 // tests replace what the kernel says
}

// handle is an open file. Closing waits for the ops that use it: the kernel looks a descriptor up when it gets a
// request, and by then the number could be another file's.
type handle struct {
	fd      int
	users   int
	gen     int32
	open    bool
	closing *Op
}

// ringOp is the device's part of an opState.
type ringOp struct {
	vector  []unix.Iovec
	from    int // bytes done: where the request at work begins
	asked   int // bytes of it
	tries   int
	fd      int
	index   int32 // of the file in Uring.files
	user    bool  // counts among the file's users
	removal removal
	err     error // of the worker, or found before the kernel was asked
}

// NewUring opens dir, which exists and is locked. The ring's thread owns the device.
func NewUring(ring *uring.Ring, dir string, opt UringOptions) (*Uring, error) {
	if opt.Depth == 0 {
		opt.Depth = defaultDepth
	}
	if opt.Alignment == 0 {
		opt.Alignment = pageBytes
	}
	flags := unix.O_DIRECT
	if opt.Buffered {
		flags = 0
	}
	root, err := openRoot(dir, flags)
	if err != nil {
		return nil, err
	}
	w, err := startWorker(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("disk: eventfd: %w", err), root.close())
	}
	d := &Uring{ring: ring, worker: w, opt: opt, slots: make([]*Op, opt.Depth), free: make([]uint32, 0, opt.Depth)}
	for i := range opt.Depth {
		d.free = append(d.free, uint32(opt.Depth-1-i))
	}
	ring.Handle(kindTransfer, d.transferred)
	ring.Handle(kindWorker, d.workerRang)
	return d, nil
}

// Alignment of memory, length and position, bytes.
func (d *Uring) Alignment() int { return d.opt.Alignment }

// InFlight is the number of ops whose Done has not run.
func (d *Uring) InFlight() int {
	return d.queue.count + d.opt.Depth - len(d.free) + d.atWork + d.held
}

// Submit starts op or queues it. The kernel gets it with the ring's next Enter.
func (d *Uring) Submit(op *Op) {
	op.begin()
	st := &op.state.ring
	st.from, st.asked, st.tries, st.removal = 0, 0, 0, removal{}
	st.user = false
	st.err = op.check(d.opt.Alignment)
	if st.err == nil && !op.namespace() {
		st.err = d.use(op)
	}
	switch {
	case st.err == nil && op.Kind == OpClose:
		d.closeFile(op)
	case st.err == nil && op.Kind != OpRead && op.Kind != OpWrite && op.Kind != OpSync:
		d.toWorker(op)
	default: // an error, too, comes back through the ring: Done never runs inside Submit
		d.queue.push(op)
		d.start()
	}
}

// Wait turns the ring until an op is done. Other handlers of the ring may run.
func (d *Uring) Wait() error {
	for before := d.done; d.done == before && d.InFlight() > 0; {
		if err := d.ring.Enter(1, -1); err != nil {
			return fmt.Errorf("disk: %w", err)
		}
		d.ring.Dispatch()
	}
	return nil
}

// Close waits for what is in flight, stops the worker and closes all files.
func (d *Uring) Close() error {
	for d.InFlight() > 0 {
		if err := d.Wait(); err != nil {
			return err // the kernel may still write: everything stays open
		}
	}
	errs := []error{d.worker.close(), d.worker.root.close()}
	for _, h := range d.files {
		if h.open {
			errs = append(errs, unix.Close(h.fd))
		}
	}
	d.files = nil
	return errors.Join(errs...)
}

// start moves queued ops to the ring while there is room for their class.
func (d *Uring) start() {
	for len(d.free) > 0 {
		reserve := d.opt.Depth / 8
		if len(d.free) <= reserve && d.queue.lists[ClassJournal].first == nil {
			return
		}
		op := d.queue.pop()
		if op == nil {
			return
		}
		slot := d.free[len(d.free)-1]
		d.free = d.free[:len(d.free)-1]
		d.slots[slot] = op
		d.request(op, slot)
	}
}

// request asks the kernel for the rest of op.
func (d *Uring) request(op *Op, slot uint32) {
	st := &op.state.ring
	e := d.ring.SQE()
	switch {
	case st.err != nil:
		e.Nop()
	case op.Kind == OpSync:
		e.Fsync(st.fd, true)
	default:
		d.transfer(op, e)
	}
	if st.tries > triesInline {
		e.Async()
	}
	e.Tag(kindTransfer, uint64(slot))
}

func (d *Uring) transfer(op *Op, e *uring.SQE) {
	st := &op.state.ring
	st.vector = st.vector[:0]
	st.asked = 0
	skip := st.from
	for _, p := range op.Data {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		if len(st.vector) == vectorMax {
			break // the rest follows as after a short transfer
		}
		p = p[skip:]
		skip = 0
		st.vector = append(st.vector, unix.Iovec{Base: &p[0], Len: uint64(len(p))})
		st.asked += len(p)
	}
	at := int64(op.Pos) + int64(st.from)
	flags := uint32(0)
	if op.Sync {
		flags = uring.RWFDSync
	}
	index := -1
	if len(st.vector) == 1 && d.opt.Registered != nil {
		index = d.opt.Registered(unsafe.Slice(st.vector[0].Base, st.asked))
	}
	switch {
	case op.Kind == OpRead && index >= 0:
		e.ReadFixed(st.fd, unsafe.Slice(st.vector[0].Base, st.asked), at, index)
	case op.Kind == OpRead:
		e.Readv(st.fd, &st.vector[0], len(st.vector), at)
	case index >= 0:
		e.WriteFixed(st.fd, unsafe.Slice(st.vector[0].Base, st.asked), at, flags, index)
	default:
		e.Writev(st.fd, &st.vector[0], len(st.vector), at, flags)
	}
}

// transferred takes a completion of the ring.
func (d *Uring) transferred(token uint64, result int32, _ uint32) {
	slot := uint32(token)
	op := d.slots[slot]
	if d.tamper != nil {
		result = d.tamper(op, result)
	}
	more, err := d.judge(op, result)
	if more {
		d.request(op, slot)
		return
	}
	d.slots[slot] = nil
	d.free = append(d.free, slot)
	d.finish(op, err)
	d.start()
}

// judge reads a result: whether to ask for the rest, and the error of an op that is over.
func (d *Uring) judge(op *Op, result int32) (more bool, err error) {
	st := &op.state.ring
	switch {
	case st.err != nil:
		return false, st.err
	case result < 0:
		errno := syscall.Errno(-result)
		if st.tries++; st.tries <= triesMax && mayRetry(op.Kind, errno) {
			return true, nil
		}
		return false, errno
	case op.Kind == OpSync:
		return false, nil
	}
	reached := st.from + int(result)
	progress := reached > op.N
	op.N = max(op.N, reached)
	if op.N >= st.from+st.asked && op.N == op.bytes() {
		return false, nil
	}
	// Short. Direct I/O goes on at a multiple of the alignment, so bytes behind the last one are done again. A read
	// that gets no further is at the end of the file.
	st.from = op.N &^ (d.opt.Alignment - 1)
	if progress {
		st.tries = 0
		return true, nil
	}
	if op.Kind == OpRead {
		return false, nil
	}
	if st.tries++; st.tries > triesMax {
		return false, syscall.EIO
	}
	return true, nil
}

// mayRetry says which refusals mean that nothing happened. A failed sync is final but for those that cannot have begun:
// an error of the medium is told once, and the next sync would succeed over lost pages.
func mayRetry(kind OpKind, errno syscall.Errno) bool {
	switch errno {
	case syscall.EAGAIN, syscall.EINTR, syscall.ECANCELED:
		return true
	case syscall.ENOMEM:
		return kind != OpSync
	}
	return false
}

// finish gives op back and lets a close go on that waited for it.
func (d *Uring) finish(op *Op, err error) {
	if op.state.ring.user {
		h := &d.files[op.state.ring.index]
		h.users--
		if h.users == 0 && h.closing != nil {
			d.held--
			d.toWorker(h.closing)
			h.closing = nil
		}
	}
	d.done++
	op.finish(err)
}

func (d *Uring) toWorker(op *Op) {
	d.atWork++
	d.worker.push(op)
	d.arm()
}

// arm keeps one read of the worker's eventfd in the ring while the worker has something to do.
func (d *Uring) arm() {
	if !d.armed && d.atWork > 0 {
		d.armed = true
		e := d.ring.SQE()
		e.Read(d.worker.bell, d.counter[:], 0)
		e.Tag(kindWorker, 0)
	}
}

func (d *Uring) workerRang(uint64, int32, uint32) {
	d.armed = false
	for op := d.worker.pop(); op != nil; op = d.worker.pop() {
		d.atWork--
		st := &op.state.ring
		switch op.Kind {
		case OpCreate, OpOpen:
			op.File = 0
			if st.err == nil {
				op.File, st.err = d.adopt(st.fd)
			}
		case OpClose:
			d.forget(st.index)
		}
		d.finish(op, st.err)
	}
	d.arm()
}

// A File is the place in files plus one, below, and the generation of that place above: a stale one is refused.
const (
	fileBits = 20
	filesMax = 1<<fileBits - 1
)

// adopt gives a descriptor a File.
func (d *Uring) adopt(fd int) (File, error) {
	i := int32(len(d.files))
	if n := len(d.unused); n > 0 {
		i, d.unused = d.unused[n-1], d.unused[:n-1]
	} else if i == filesMax {
		return 0, errors.Join(syscall.EMFILE, unix.Close(fd))
	} else {
		d.files = append(d.files, handle{})
	}
	h := &d.files[i]
	h.fd, h.open, h.users, h.closing = fd, true, 0, nil
	return File(h.gen<<fileBits | (i + 1)), nil
}

// use finds the file of op and counts op among its users.
func (d *Uring) use(op *Op) error {
	i := int32(op.File)&filesMax - 1
	if i < 0 || int(i) >= len(d.files) {
		return syscall.EBADF
	}
	h := &d.files[i]
	if !h.open || h.closing != nil || h.gen != int32(op.File)>>fileBits {
		return syscall.EBADF
	}
	op.state.ring.fd, op.state.ring.index = h.fd, i
	if op.Kind != OpClose {
		op.state.ring.user = true
		h.users++
	}
	return nil
}

// closeFile closes when nobody uses the file any more; from now on nobody new can.
func (d *Uring) closeFile(op *Op) {
	h := &d.files[op.state.ring.index]
	h.open = false
	if h.users > 0 {
		d.held++
		h.closing = op
		return
	}
	d.toWorker(op)
}

func (d *Uring) forget(i int32) {
	h := &d.files[i]
	h.gen = (h.gen + 1) & (1<<(31-fileBits) - 1)
	d.unused = append(d.unused, i)
}
