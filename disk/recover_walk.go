package disk

import "github.com/slipringmq/slipring/fault"

// journalWalk is the one decision of recovery: which blocks of the live generations were acknowledged or are complete,
// where the journal ends, and what is damage. It looks at block headers only.
//
// A block that does not check, in a group up to the largest flushed mark seen anywhere, was acknowledged: damage. In a
// later group it is torn, and the log ends before that group (RULES 1).
type journalWalk struct {
	// What it looks at.
	block   func(place uint64) *blockHeader // nil: none that checks and belongs at this place
	resumes resumes
	gone    func(place uint64) bool // what lay there is lost; nil: never
	flushed uint64                  // largest mark
	bound   uint64                  // no live block lies at or behind it
	perFile uint64

	// What it finds.
	runs   []blockRun // good blocks, in order
	damage []BlockDamage
	cuts   []Cut
	end    uint64 // where the journal goes on
	chain  uint32 // CRC of the block before end
	group  uint64 // last group whose blocks are all there
	groups int
	marks  marks // what that group says
	lost   bool  // acknowledged blocks are missing at the end: where it was is not known

	// Where it stands.
	place  uint64
	next   uint64       // group expected
	index  uint64       // block of it expected
	blocks uint64       // of it; 0 not known
	from   uint64       // where the good blocks of this group begin
	before *blockHeader // the block before place, nil when it is not good
}

// blockRun is places [from, to).
type blockRun struct{ from, to uint64 }

func (w *journalWalk) run(first uint64) {
	w.place, w.from = first, first
	if r, ok := w.resumes.at(first); ok {
		w.next = r.group
	} else if h := w.block(first - 1); h != nil { // dead, and still there to say what comes next
		w.before, w.next, w.index, w.blocks = h, h.Group, uint64(h.Index)+1, uint64(h.Blocks)
		if w.index == w.blocks {
			w.next, w.index, w.blocks = h.Group+1, 0, 0
		}
	} else if h := w.block(first); h != nil {
		w.next, w.index = h.Group, uint64(h.Index) // begun in a generation that is dead
	}
	for w.place < w.bound {
		w.startOver(first)
		h := w.block(w.place)
		switch {
		case h != nil && w.fits(h):
			w.take(h)
		case w.next <= w.flushed && !fault.On(fault.Rule01CutDamage):
			if !w.skipDamage() {
				w.end, w.lost = w.place, true
				return
			}
		default:
			w.stop()
			return
		}
	}
	w.stop()
}

// stop ends the journal where nothing more is acknowledged by any mark; unless there is evidence that something was there.
func (w *journalWalk) stop() {
	if w.place >= w.bound || w.gone == nil || !w.gone(w.place) {
		w.cut()
		return
	}
	w.add(w.from, w.place)
	w.note(w.place, min((w.place/w.perFile+1)*w.perFile, w.bound), w.next)
	w.end, w.lost = w.place, true
}

// startOver: a start went on here. What the one before it had begun and not finished was cut then.
func (w *journalWalk) startOver(first uint64) {
	r, ok := w.resumes.at(w.place)
	if !ok || w.place == first || r.group < w.next || r.group == w.next && w.index == 0 {
		return
	}
	w.next, w.index, w.blocks, w.from = r.group, 0, 0, w.place
}

func (w *journalWalk) fits(h *blockHeader) bool {
	return h.Group == w.next && uint64(h.Index) == w.index && (w.blocks == 0 || uint64(h.Blocks) == w.blocks) &&
		(w.before == nil || h.Chain == w.before.CRC || fault.On(fault.Rule03TrustStale))
}

func (w *journalWalk) take(h *blockHeader) {
	if w.index == 0 {
		w.from = w.place
	}
	w.blocks, w.before = uint64(h.Blocks), h
	w.index++
	w.place++
	if w.index < w.blocks {
		return
	}
	w.add(w.from, w.place)
	w.groups++
	w.end, w.chain, w.group, w.marks = w.place, h.CRC, h.Group, h.marks
	w.next, w.index, w.blocks, w.from = h.Group+1, 0, 0, w.place
}

func (w *journalWalk) add(from, to uint64) {
	if n := len(w.runs); n > 0 && w.runs[n-1].to == from {
		w.runs[n-1].to = to
	} else if from < to {
		w.runs = append(w.runs, blockRun{from, to})
	}
}

// skipDamage notes damage at place and goes to the next block that is acknowledged for sure. False: there is none.
func (w *journalWalk) skipDamage() bool {
	if w.index > 0 {
		w.add(w.from, w.place) // the good part of a damaged group: its whole entries are good
	}
	at, group := w.place, w.next
	w.before = nil
	over := w.resumes.after(at)
	for q := at + 1; q < w.bound; q++ {
		if r, ok := w.resumes.at(q); ok && q == over {
			w.note(at, q, group)
			w.place, w.next, w.index, w.blocks, w.from = q, max(r.group, group), 0, 0, q
			return true
		}
		if h := w.block(q); h != nil && h.Group >= group && h.Group <= w.flushed {
			w.note(at, q, group)
			w.place, w.next, w.index, w.blocks, w.from = q, h.Group, uint64(h.Index), uint64(h.Blocks), q
			return true
		}
	}
	n := uint64(1)
	if w.blocks > w.index {
		n = w.blocks - w.index
	}
	w.place = min(at+n, w.bound)
	w.note(at, w.place, group)
	return false
}

func (w *journalWalk) note(from, to, group uint64) {
	for from < to { // one line for each file
		n := min(to, (from/w.perFile+1)*w.perFile)
		w.damage = append(w.damage, BlockDamage{
			Generation: from / w.perFile, Group: group, Block: int(from % w.perFile), Blocks: int(n - from),
		})
		from = n
	}
}

// cut ends the journal before the group that is not complete, and says what of it lies there.
func (w *journalWalk) cut() {
	from, blocks := w.place-w.index, w.blocks
	w.end = w.from
	if w.index == 0 {
		for q := w.place; q < min(w.place+maxGroupBlocks, w.bound); q++ {
			h := w.block(q)
			if h != nil && h.Group == w.next && q-uint64(h.Index) == w.place {
				blocks = uint64(h.Blocks)
				break
			}
		}
		if blocks == 0 {
			return // nothing was there
		}
	}
	w.cuts = append(w.cuts, Cut{Group: w.next, Generation: from / w.perFile, Block: int(from % w.perFile), Blocks: int(blocks)})
}

// walkJournal decides, reports, and keeps the decision for replay.
func (r *recovery) walkJournal() {
	s, j, sc := r.s, r.s.journal, &r.scan
	if fault.On(fault.Rule03KeepDead) {
		sc.most.Dead = 0
	}
	if r.state.lost > 0 || s.state.file == 0 {
		r.findStarts()
	}
	first := (sc.most.Dead + 1) * j.perFile
	w := &r.walk
	*w = journalWalk{
		gone: r.gone, resumes: s.resumes, flushed: sc.most.Flushed, perFile: j.perFile, bound: first + j.ringBlocks(),
		block: func(place uint64) *blockHeader { return sc.at(j, s.resumes, place) },
		end:   first,
	}
	w.run(first)
	w.group = max(w.group, w.groupBefore(s.resumes))
	for i := range w.damage {
		w.damage[i].File = journalPath(s.cfg.Shard, j.fileOf(w.damage[i].Generation))
	}
	rep := r.report
	rep.Cut, rep.Groups = w.cuts, w.groups
	rep.Blocks = append(rep.Blocks, w.damage...)
	c := r.state.clean
	rep.Clean = c != nil && c.Placed == w.end && c.Group == w.group && len(w.cuts) == 0 && !rep.Damaged()
}

// groupBefore is the last group before the walk's first, when that found none.
func (w *journalWalk) groupBefore(r resumes) uint64 {
	if w.groups == 0 && len(r) > 0 {
		return max(r[len(r)-1].group, 1) - 1
	}
	return 0
}

// at returns the block at place if it was written there, in this round of the ring, by the start that owns the place.
func (sc *journalScan) at(j *journal, r resumes, place uint64) *blockHeader {
	f := sc.files[j.fileOf(place/j.perFile)]
	if f == nil {
		return nil
	}
	h := &f[place%j.perFile]
	if h.Start == 0 || h.Generation != place/j.perFile {
		return nil
	}
	if owner := r.startAt(place); owner != 0 && h.Start != owner && !fault.On(fault.Rule03TrustStale) {
		return nil
	}
	return h
}
