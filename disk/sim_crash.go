package disk

import "slices"

// Crash is a power cut and what the medium holds after it, on a device with the next seed. Ops in flight may have
// landed in any part; their Done is never called. s is dead: its memory went to the new device.
func (s *Sim) Crash() *Sim {
	s.mustLive()
	s.land(true)
	chance := []int{0, 64, 128, 192, 256}[s.below(5)] // of a doubtful sector or name to have made it
	for _, f := range s.nodes {
		s.settle(f, chance)
	}
	s.settleNames(chance)
	return s.successor()
}

// Kill is the end of the process without a power cut: what was completed is there, though still not durable; each op in
// flight is done whole or not at all.
func (s *Sim) Kill() *Sim {
	s.mustLive()
	s.land(false)
	return s.successor()
}

// Fork copies an idle device, medium, open files and seed, so that two starts can be compared on the same bytes.
func (s *Sim) Fork() *Sim {
	s.mustLive()
	if s.InFlight() > 0 {
		panic("disk: fork of a simulated device with ops in flight")
	}
	twin := *s
	rng := *s.rng
	twin.rng, twin.names = &rng, newSimNames()
	twin.queue, twin.flying, twin.faults = opQueue{}, nil, slices.Clone(s.faults)
	copies := make(map[*simFile]*simFile, len(s.nodes))
	twin.nodes = make([]*simFile, len(s.nodes))
	for i, f := range s.nodes {
		twin.nodes[i] = f.copy(s.opt.Pages)
		copies[f] = twin.nodes[i]
	}
	for p, f := range s.names.seen {
		twin.names.seen[p] = copies[f]
	}
	for p, f := range s.names.durable {
		twin.names.durable[p] = copies[f]
	}
	for _, c := range s.names.pending {
		twin.names.pending = append(twin.names.pending, nameChange{copies[c.file], c.from, c.to})
	}
	twin.open = slices.Clone(s.open)
	for i := range twin.open {
		twin.open[i].file = copies[twin.open[i].file]
	}
	return &twin
}

func (s *Sim) mustLive() {
	if s.gone {
		panic("disk: this simulated device has ended; its medium is in the one that Crash or Kill returned")
	}
}

// Release ends the device and gives its memory to SimOptions.Pages.
func (s *Sim) Release() {
	for _, f := range s.nodes {
		f.release(s.opt.Pages)
	}
	s.nodes, s.flying, s.open, s.off, s.gone = nil, nil, nil, true, true
	s.names, s.queue = newSimNames(), opQueue{}
}

// land lets each op that the device may have begun take effect, wholly or, when torn, in part.
func (s *Sim) land(torn bool) {
	if s.coin(128) {
		s.start()
	}
	for len(s.flying) > 0 {
		i := s.below(len(s.flying))
		op := s.flying[i]
		s.flying = slices.Delete(s.flying, i, i+1)
		switch mode := s.below(4); {
		case mode == 0 || op.check(s.opt.Alignment) != nil:
		case mode == 1 && torn && op.Kind == OpWrite:
			s.landTorn(op)
		case op.Kind == OpWrite:
			sync := op.Sync
			op.Sync = false // nobody was told
			s.landWhole(op)
			op.Sync = sync
		case op.Kind == OpRead || op.Kind == OpList || op.Kind == OpClose:
		default:
			s.landWhole(op)
		}
	}
}

func (s *Sim) landWhole(op *Op) {
	if f := op.state.sim.fault; f == nil || f.Err == 0 {
		_ = s.apply(op) // the owner is gone; an error leaves nothing behind
	}
}

func (s *Sim) landTorn(op *Op) {
	file := s.file(op.File)
	if file == nil || s.allocate(file, op.Pos, int64(op.bytes())) != nil {
		return
	}
	file.write(s.opt.Pages, op.Pos, op.Data, false, func() bool { return s.coin(128) })
}

// settle decides each doubtful sector of f, and its size.
func (s *Sim) settle(f *simFile, chance int) {
	for i := range f.pages {
		p := &f.pages[i]
		p.dirty = false
		if len(p.old) == 0 { // what a read sees is what is there
			continue
		}
		for at := 0; at < pageBytes; at += sectorBytes {
			if s.coin(chance) {
				continue
			}
			v := p.old[0]
			if chance > 0 && len(p.old) > 1 && s.coin(128) {
				v = p.old[s.below(len(p.old))]
			}
			if v == nil {
				v = &zeroPage
			}
			p.cur = overwrite(s.opt.Pages, p.cur, at, v[at:at+sectorBytes])
		}
		p.forget(s.opt.Pages)
		p.allocated = p.allocated || p.cur != nil
	}
	f.dirty = f.dirty[:0]
	if f.size != f.durable && !s.coin(chance) {
		f.size = f.durable
	}
	f.cutAt(f.size)
}

// cutAt zeroes what lies behind the size, so that a later extension does not bring it back.
func (f *simFile) cutAt(size int64) {
	for i := int(size / pageBytes); i < len(f.pages); i++ {
		if b := f.pages[i].cur; b != nil {
			clear(b[max(size-int64(i)*pageBytes, 0):])
		}
	}
	f.durable = size
}

// settleNames decides each doubtful name. A rename is whole or not at all, and a change that builds on a lost one of
// the same name is lost too; otherwise any subset may survive.
func (s *Sim) settleNames(chance int) {
	lost := make(map[string]bool)
	n := &s.names
	for _, c := range n.pending {
		if lost[c.from] || lost[c.to] || !s.coin(chance) {
			if c.from != "" {
				lost[c.from] = true
			}
			if c.to != "" {
				lost[c.to] = true
			}
			continue
		}
		c.apply(n.durable)
	}
	n.pending = nil
	s.keepParents()
	n.seen = make(map[string]*simFile, len(n.durable))
	for p, f := range n.durable {
		n.seen[p] = f
	}
}

// keepParents restores directories whose removal survived while a file in them came back.
func (s *Sim) keepParents() {
	paths := make([]string, 0, len(s.names.durable))
	for p := range s.names.durable {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		for d := parent(p); d != ""; d = parent(d) {
			if s.names.durable[d] == nil {
				s.names.durable[d] = s.node(true)
			}
		}
	}
}

// successor is the device that the next start of the broker finds.
func (s *Sim) successor() *Sim {
	next := NewSim(s.opt)
	next.rng.Seed(s.rng.Uint64(), s.rng.Uint64())
	next.nodes, next.names = s.nodes, s.names
	next.trace, next.now = s.trace, s.now
	next.trace.mix(s.rng.Uint64())
	next.collect()
	next.used = 0
	for _, f := range next.nodes {
		next.used += f.space()
	}
	s.nodes, s.names, s.flying, s.open, s.off, s.gone = nil, newSimNames(), nil, nil, true, true
	s.queue, s.cut = opQueue{}, 0
	return next
}
