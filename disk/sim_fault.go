package disk

import (
	"slices"
	"strings"
	"syscall"
)

// SimFault is a plan for some ops: which, and what happens to them. Empty conditions match everything.
type SimFault struct {
	Kind   OpKind         // 0: any
	Prefix string         // of Path, or of the path under which File was opened
	Match  func(*Op) bool // further condition; must depend on the op alone
	After  uint64         // this many matching ops pass first
	Times  uint64         // then this many are hit; 0: all, from then on

	Err        syscall.Errno // fails with it; a write may have landed in part, a sync is given up for good
	Short      int           // a read or write does this many bytes first and the rest in a second go (with Err: fails there)
	StallNanos int64         // completes later by this
	Lost       bool          // a write reports success and writes nothing
	Misdirect  int64         // a write lands this many bytes away

	seen uint64
}

// Plan adds a fault. The first plan that hits an op decides.
func (s *Sim) Plan(f SimFault) { s.faults = append(s.faults, f) }

// ClearPlans forgets all faults; ops already at work keep theirs.
func (s *Sim) ClearPlans() { s.faults = nil }

// hit returns what the plans have for op. Every plan counts every op that matches it.
func (s *Sim) hit(op *Op) *SimFault {
	var found *SimFault
	for i := range s.faults {
		f := &s.faults[i]
		if !f.matches(op, s.pathOf(op)) {
			continue
		}
		f.seen++
		if found == nil && f.seen > f.After && (f.Times == 0 || f.seen <= f.After+f.Times) {
			found = new(SimFault)
			*found = *f
		}
	}
	return found
}

func (f *SimFault) matches(op *Op, path string) bool {
	return (f.Kind == 0 || f.Kind == op.Kind) && strings.HasPrefix(path, f.Prefix) && (f.Match == nil || f.Match(op))
}

func (s *Sim) pathOf(op *Op) string {
	if op.namespace() {
		return op.Path
	}
	if s.file(op.File) != nil {
		return s.open[op.File-1].path
	}
	return ""
}

// shorten does the first part of a write that is planned to be short; true: it goes on flying.
func (s *Sim) shorten(op *Op) bool {
	st := &op.state.sim
	if st.fault == nil || st.fault.Short <= 0 || st.short || op.check(s.opt.Alignment) != nil {
		return false
	}
	st.short = true
	file := s.file(op.File)
	if op.Kind != OpWrite || file == nil || st.fault.Lost {
		return op.Kind == OpRead || op.Kind == OpWrite
	}
	part := min(st.fault.Short, op.bytes()) &^ (sectorBytes - 1)
	pos := op.Pos + Position(st.fault.Misdirect)
	if s.allocate(file, pos, int64(part)) == nil {
		file.write(s.opt.Pages, pos, firstBytes(op.Data, part), false, nil)
	}
	return true
}

// applyFailed is what an op that fails leaves behind.
func (s *Sim) applyFailed(op *Op) {
	file := s.file(op.File)
	if file == nil || op.namespace() {
		return
	}
	switch op.Kind {
	case OpWrite:
		if !op.state.sim.short && s.allocate(file, op.Pos, int64(op.bytes())) == nil {
			file.write(s.opt.Pages, op.Pos, op.Data, false, func() bool { return s.coin(128) })
		}
		if op.Sync {
			file.giveUp()
		}
	case OpSync:
		file.giveUp()
	case OpClose: // close(2) frees the descriptor whatever it answers
		s.open[op.File-1] = simHandle{}
	}
}

func firstBytes(data [][]byte, n int) [][]byte {
	var out [][]byte
	for _, p := range data {
		if n == 0 {
			break
		}
		p = p[:min(n, len(p))]
		out = append(out, p)
		n -= len(p)
	}
	return out
}

// Peek copies a file as a read would see it; nil if there is none.
func (s *Sim) Peek(path string) []byte {
	f := s.names.seen[path]
	if f == nil || f.dir {
		return nil
	}
	out := make([]byte, f.size)
	f.read(&Op{Data: [][]byte{out}})
	return out
}

// Poke changes bytes on the medium behind the broker's back: rot, durable at once. False: no such bytes.
func (s *Sim) Poke(path string, pos int64, p []byte) bool {
	f := s.names.seen[path]
	if f == nil || f.dir || pos < 0 || pos+int64(len(p)) > f.size {
		return false
	}
	size, durable := f.size, f.durable
	f.write(s.opt.Pages, Position(pos), [][]byte{p}, true, nil)
	f.size, f.durable = size, durable
	return true
}

// Flip turns one bit of a file over.
func (s *Sim) Flip(path string, pos int64, bit uint) bool {
	b := s.Peek(path)
	if pos < 0 || pos >= int64(len(b)) {
		return false
	}
	return s.Poke(path, pos, []byte{b[pos] ^ 1<<(bit&7)})
}

// Unlink removes a file on the medium, durably, as an operator's rm would.
func (s *Sim) Unlink(path string) bool {
	if s.names.seen[path] == nil {
		return false
	}
	s.names.sync(parent(path))
	delete(s.names.seen, path)
	delete(s.names.durable, path)
	s.collect()
	return true
}

// Paths returns all files, sorted.
func (s *Sim) Paths() []string {
	var out []string
	for p, f := range s.names.seen {
		if !f.dir {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
