package disk

import (
	"errors"
	"math/rand/v2"
	"syscall"
)

// ErrPowerCut is Wait's answer once a simulated device has no power: only Crash and Kill make sense after it.
var ErrPowerCut = errors.New("disk: simulated power cut")

// SimOptions shape a simulated device. The zero value of each field means its default.
type SimOptions struct {
	Seed            uint64
	Alignment       int       // 4096 when 0; 512 is the least
	Depth           int       // ops at work at once, 32 when 0; the rest wait, by class
	MaxLatencyNanos int64     // an op takes a random time up to this; 0: none
	Capacity        int64     // bytes of all allocated pages; 0: no limit
	Pages           *SimPages // memory shared by simulations that follow each other; may be nil
}

// Sim is a Device in memory that behaves as badly as a disk may, and twice the same on the same seed.
//
// What it may do: complete ops in any order; at Crash keep, lose or tear at 512 bytes every write that no completed
// sync covers; lose names that no OpSyncDir covers; and whatever Plan asks for. What it may not: lose a write with Sync
// or one before an OpSync, once its Done was called. Ops take effect only inside Step and Wait, one a call.
type Sim struct {
	opt    SimOptions
	rng    *rand.PCG
	nodes  []*simFile // all files that exist or may come back, in order of creation
	names  simNames
	open   []simHandle // File n is open[n-1]
	queue  opQueue
	flying []*Op
	faults []SimFault
	trace  simTrace
	now    int64
	events uint64 // completions so far
	cut    uint64 // completions after which the power goes; ^0: never
	off    bool
	gone   bool  // Crash, Kill or Release took the medium away
	used   int64 // bytes of allocated pages
}

// simOp is the simulator's part of an opState.
type simOp struct {
	seq   uint64
	due   int64
	fault *SimFault // what will happen to it
	short bool      // its first part is done
	file  *simFile
}

type simHandle struct {
	file *simFile
	path string // at the time of open, for faults
}

// NewSim returns an empty simulated disk.
func NewSim(opt SimOptions) *Sim {
	if opt.Alignment == 0 {
		opt.Alignment = pageBytes
	}
	if opt.Depth == 0 {
		opt.Depth = 32
	}
	if opt.Pages == nil {
		opt.Pages = new(SimPages)
	}
	return &Sim{
		opt:   opt,
		rng:   rand.NewPCG(opt.Seed, 0x5eed),
		names: newSimNames(),
		cut:   ^uint64(0),
		trace: simTrace{hash: opt.Seed ^ traceStart},
	}
}

// Alignment of memory, length and position, bytes.
func (s *Sim) Alignment() int { return s.opt.Alignment }

// InFlight is the number of ops whose Done has not run.
func (s *Sim) InFlight() int { return s.queue.count + len(s.flying) }

// Hash is a fingerprint of everything that was submitted and completed since the first NewSim, over Crash and Kill.
func (s *Sim) Hash() uint64 { return s.trace.hash }

// Events is the number of completions of this device so far; CutAfter counts in it.
func (s *Sim) Events() uint64 { return s.events }

// Now is the greatest time that Step was given or Wait jumped to.
func (s *Sim) Now() int64 { return s.now }

// CutAfter turns the power off after the given number of completions: nothing completes any more, Wait answers
// ErrPowerCut, Step false.
func (s *Sim) CutAfter(events uint64) { s.cut = events }

// Off says whether the power is off.
func (s *Sim) Off() bool { return s.off }

// Submit takes op. Without power nothing happens to it.
func (s *Sim) Submit(op *Op) {
	op.begin()
	op.state.sim = simOp{seq: s.trace.next(), file: s.file(op.File)}
	s.trace.submitted(op)
	s.queue.push(op)
}

// Step completes one op that is due at nowNanos, chosen by the seed, and says whether there was one.
func (s *Sim) Step(nowNanos int64) bool {
	s.now = max(s.now, nowNanos)
	if s.powerless() {
		return false
	}
	s.start()
	due := 0
	for _, op := range s.flying {
		if op.state.sim.due <= s.now {
			due++
		}
	}
	if due == 0 {
		return false
	}
	pick := s.below(due)
	for i, op := range s.flying {
		if op.state.sim.due > s.now {
			continue
		}
		if pick--; pick < 0 {
			s.complete(i)
			return true
		}
	}
	return false
}

// Wait completes one op; when none is due yet it lets the time of the next one come.
func (s *Sim) Wait() error {
	if s.powerless() {
		return ErrPowerCut
	}
	if due, ok := s.NextDue(); ok {
		s.Step(max(s.now, due))
	}
	return nil
}

// NextDue is the earliest time at which Step finds something to do.
func (s *Sim) NextDue() (nanos int64, ok bool) {
	s.start()
	for _, op := range s.flying {
		if d := op.state.sim.due; !ok || d < nanos {
			nanos, ok = d, true
		}
	}
	return nanos, ok
}

func (s *Sim) powerless() bool {
	if s.events >= s.cut {
		s.off = true
	}
	return s.off
}

// start puts queued ops to work, by class, as far as Depth goes.
func (s *Sim) start() {
	for len(s.flying) < s.opt.Depth {
		op := s.queue.pop()
		if op == nil {
			return
		}
		st := &op.state.sim
		st.fault = s.hit(op)
		st.due = s.now
		if s.opt.MaxLatencyNanos > 0 {
			st.due += int64(s.rng.Uint64() % uint64(s.opt.MaxLatencyNanos+1))
		}
		if st.fault != nil {
			st.due += st.fault.StallNanos
		}
		s.flying = append(s.flying, op)
	}
}

// complete lets flying[i] take effect and gives it back.
func (s *Sim) complete(i int) {
	op := s.flying[i]
	s.events++
	if s.shorten(op) {
		return // the device resumes it by itself; the rest completes later
	}
	last := len(s.flying) - 1
	s.flying[i] = s.flying[last]
	s.flying[last] = nil
	s.flying = s.flying[:last]

	err := s.apply(op)
	s.trace.completed(op, err)
	op.finish(err)
}

// apply is the effect of op, faults included.
func (s *Sim) apply(op *Op) error {
	if err := op.check(s.opt.Alignment); err != nil {
		return err
	}
	f := op.state.sim.fault
	if f != nil && f.Err != 0 {
		s.applyFailed(op)
		return f.Err
	}
	if op.namespace() {
		return s.applyNames(op)
	}
	file := s.file(op.File)
	if file == nil {
		return syscall.EBADF
	}
	switch op.Kind {
	case OpRead:
		op.N = file.read(op)
	case OpWrite:
		return s.applyWrite(op, file)
	case OpSync:
		file.syncAll(s.opt.Pages)
	case OpAllocate:
		return s.allocate(file, op.Pos, op.Size)
	case OpTruncate:
		if op.Size > simFileBytes {
			return syscall.EFBIG
		}
		s.used -= file.truncate(s.opt.Pages, op.Size)
	case OpStat:
		op.Size = file.size
	case OpClose:
		s.open[op.File-1] = simHandle{}
	}
	return nil
}

func (s *Sim) applyWrite(op *Op, file *simFile) error {
	pos := op.Pos
	if f := op.state.sim.fault; f != nil {
		if f.Lost {
			op.N = op.bytes()
			return nil
		}
		pos += Position(f.Misdirect)
	}
	if err := s.allocate(file, pos, int64(op.bytes())); err != nil {
		return err
	}
	op.N = file.write(s.opt.Pages, pos, op.Data, op.Sync, nil)
	return nil
}

// allocate gives pages to file, within Capacity.
func (s *Sim) allocate(file *simFile, pos Position, size int64) error {
	if pos < 0 || int64(pos)+size > simFileBytes {
		return syscall.EFBIG
	}
	need := file.missing(pos, size) * pageBytes
	if s.opt.Capacity > 0 && s.used+need > s.opt.Capacity {
		return syscall.ENOSPC
	}
	s.used += need
	file.allocate(pos, size)
	return nil
}

func (s *Sim) file(f File) *simFile {
	if f < 1 || int(f) > len(s.open) {
		return nil
	}
	return s.open[f-1].file
}

// below draws a number in [0, n).
func (s *Sim) below(n int) int { return int(s.rng.Uint64() % uint64(n)) }

// coin is true with probability chance/256.
func (s *Sim) coin(chance int) bool { return int(s.rng.Uint64()>>56) < chance }
