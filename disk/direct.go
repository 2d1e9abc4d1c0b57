package disk

import (
	"slices"

	"github.com/slipringmq/slipring/fault"
)

// stageDirect writes the batch described last, which begins at a block, to its segment; its reference is staged when
// all of it has landed (data first, R2). The end of its last block is padded, so nothing of it is left to the tail.
func (l *Log) stageDirect(g *segment, epoch uint64, at address) uint64 {
	l.tail.pad()
	g.length = g.position(l.tail.end)
	e := pop(&l.share.freeExtents)
	*e = extent{segment: g, from: at, to: l.tail.end, done: at, sent: at, closed: true, direct: true}
	e.last, e.bytes = l.tail.batches.last, int(l.tail.end-at)
	e.first = e.last - 1
	l.extents = append(l.extents, e)
	l.share.directBytes += e.bytes
	index := l.stageBatch(KindReference, epoch, e)
	l.startDirect(e)
	l.share.placer.offer(l) // the tail before it goes too: what is placed then has no hole
	return index
}

// startDirect submits the writes of e, all at once, unless the file must be opened first.
func (l *Log) startDirect(e *extent) {
	if l.stuck || !e.segment.openForWrite() {
		return
	}
	end := e.to
	if fault.On(fault.Rule02WholeBlocks) {
		end = max(alignDown(l.tail.batches.at(e.first).end()), e.from)
	}
	for e.sent < end {
		to := min(e.sent+pieceBytes, end)
		l.write(e, e.sent, to, ClassDirect)
		e.sent = to
	}
	e.sent = e.to
}

// fileReady goes on with what waited for g's file.
func (l *Log) fileReady(g *segment) {
	for i := 0; i < len(l.extents); i++ {
		if e := l.extents[i]; e.direct && e.segment == g && e.sent == e.from {
			l.startDirect(e)
		}
	}
	l.share.placer.offer(l)
}

func (l *Log) directLanded(e *extent) {
	e.landed, e.done = true, e.to
	l.uncount(e)
	l.releaseHeld()
}

// uncount takes e out of what is under way data first.
func (l *Log) uncount(e *extent) {
	l.share.directBytes -= e.bytes
	e.bytes = 0
}

func (l *Log) hold(h held) {
	l.held = append(l.held, h)
	l.share.heldBytes += h.bytes
}

// mustHold: an entry is staged only when the direct writes of all entries before it, and its own, have landed.
// Later entries would otherwise be acknowledged above a hole.
func (l *Log) mustHold(h *held) bool {
	if len(l.held) > 0 && !(fault.On(fault.Rule02HoldLater) && h.extent == nil) {
		return true
	}
	return h.extent != nil && !h.extent.landed && !fault.On(fault.Rule02DataFirst)
}

// releaseHeld stages what waited, in order, up to the next direct write that has not landed.
func (l *Log) releaseHeld() {
	n := 0
	for n < len(l.held) && (l.held[n].extent == nil || l.held[n].extent.landed) {
		l.share.heldBytes -= l.held[n].bytes
		l.stageHeld(&l.held[n])
		l.held[n] = held{}
		n++
	}
	l.held = l.held[:copy(l.held, l.held[n:])]
}

// never is the index of a batch whose entry no journal will have.
const never = ^uint64(0)

// dropHeld forgets what waits for direct writes of a log that is fenced: they may never land. Only its deletion goes on.
func (l *Log) dropHeld() {
	for _, e := range l.extents {
		l.uncount(e)
	}
	if len(l.held) == 0 {
		return
	}
	waiting, first := l.held, l.held[0].index
	l.held, l.nextIndex = nil, first
	l.trims = slices.DeleteFunc(l.trims, func(t staged) bool { return t.index >= first })
	for i := range waiting {
		h := &waiting[i]
		l.share.heldBytes -= h.bytes
		switch h.kind {
		case KindAppend, KindReference:
			l.tail.batches.at(h.ordinal).index = never
		case KindDrop:
			l.dropping, l.nextIndex = first, first+1
			l.s.stage(l, KindDrop, first, h.epoch, nil)
		}
	}
}

// stageHeld gives an entry to the journal.
func (l *Log) stageHeld(h *held) {
	if h.kind != KindAppend && h.kind != KindReference {
		l.s.stage(l, h.kind, h.index, h.epoch, h.payload)
		return
	}
	d := l.tail.batches.at(h.ordinal)
	d.index = h.index
	g := l.segmentAt(d.at)
	head := l.share.scratch[:]
	placement{g.base, g.epoch, g.position(d.at)}.put(head)
	if h.kind == KindReference {
		le.PutUint64(head[placementBytes:], uint64(d.bytes))
		l.tail.copyOut(head[placementBytes+8:referenceBytes], d.at)
		l.s.stage(l, h.kind, h.index, h.epoch, head[:referenceBytes])
		return
	}
	a, b := l.tail.halves(d)
	l.s.stage(l, h.kind, h.index, h.epoch, head[:placementBytes], a, b)
}

// halves returns the bytes of a batch that lies in two blocks at most; the second may be empty.
func (t *tail) halves(d *described) (a, b []byte) {
	i := t.block(d.at)
	blk := t.blocks[i]
	a = blk.mem.Data[d.at-blk.from:]
	if rest := int(d.bytes) - len(a); rest > 0 {
		return a, t.blocks[i+1].mem.Data[:rest]
	}
	return a[:d.bytes], nil
}

// copyOut copies the bytes at a to dst.
func (t *tail) copyOut(dst []byte, a address) {
	for i := t.block(a); len(dst) > 0; i++ {
		b := t.blocks[i]
		n := copy(dst, b.mem.Data[a-b.from:])
		dst, a = dst[n:], a+address(n)
	}
}

// writeFailed marks a segment that gets no more writes.
func (l *Log) writeFailed(g *segment, err error) {
	if g.file.failed == nil {
		g.file.failed = err
	}
}

// replaceWhenQuiet gives a failed segment up, once its last write has ended, at its last durable position: what is not
// placed goes to a fresh file, shifted down by whole blocks so that the tail's blocks stay as they are. The new name has
// the same epoch with the replacement bit. When that file fails too, the log is fenced alone; and at once when the segment
// is outside the journal: no entry would name the file before the next snapshot, and what is acknowledged in it were lost.
//
// Journal entries keep naming the old place: state and replay follow segment.replaces. Nothing tells a replay before the
// next snapshot of the new file; it redoes the same bytes to the old one, and gives it up again if it must.
func (l *Log) replaceWhenQuiet(g *segment) {
	if g.file.users > 0 || g.file.state == fileOpening || g.moved != nil || l.stuck {
		return
	}
	first := -1
	for i, e := range l.extents {
		if e.segment == g {
			first = i
			break
		}
	}
	if first < 0 {
		return
	}
	cut := l.tail.batches.at(max(l.placedN, l.extents[first].first)).at
	if g.epoch&replacement != 0 || g.plain || !l.inMemory(cut) {
		l.fenceSegment(g, g.file.failed)
		return
	}
	l.replace(g, first, cut)
}

// inMemory says whether the tail still has all bytes from a on.
func (l *Log) inMemory(a address) bool {
	if len(l.tail.blocks) == 0 || l.tail.blocks[0].from > a {
		return false
	}
	q := &l.tail.batches
	for o := l.placedN; o < q.last; o++ {
		if q.at(o).absent {
			return false
		}
	}
	return true
}

func (l *Log) fenceSegment(g *segment, err error) {
	l.giveUp(err)
	l.s.machine.Fenced(l, err)
}

// replace moves the extents from index first on that belong to g, and the batches from cut on, to a new segment.
func (l *Log) replace(g *segment, first int, cut address) {
	shift := alignDown(g.position(cut))
	d := l.tail.batches.at(max(l.placedN, l.extents[first].first))
	n := &segment{
		log: l, base: offsetOf(d.base), epoch: g.epoch | replacement, first: offsetOf(d.base), end: g.end,
		start: g.position(cut) - shift, length: g.length - shift, maxTime: g.maxTime,
		address: g.address + address(shift), closed: g.closed, plain: g.plain, note: g.note,
		replaces: g, shift: shift,
	}
	n.file.fresh = true
	n.index.complete = true
	n.index.takeFrom(&g.index, n.first, shift)
	g.end, g.length, g.closed = n.first, g.position(cut), true
	g.moved = n
	l.insertAfter(g, n)
	l.share.stats.Replaced++
	for _, e := range l.extents[first:] {
		if e.segment == g {
			l.moveExtent(e, n)
		}
	}
	for i := 0; i < len(l.extents); i++ {
		if e := l.extents[i]; e.direct && e.segment == n {
			l.startDirect(e)
		}
	}
	l.share.placer.offer(l)
}

// moveExtent makes e start anew in n. A direct batch whose reference is staged already is durable only together with its
// bytes in the old file, which stay; the new file gets it like any part of the tail.
func (l *Log) moveExtent(e *extent, n *segment) {
	e.segment = n
	e.from = max(e.from, n.address)
	e.done = e.from
	if e.direct {
		e.sent, e.direct = e.from, !e.landed
	}
}

func (l *Log) insertAfter(g, n *segment) {
	for i, s := range l.segments {
		if s == g {
			l.segments = append(l.segments, nil)
			copy(l.segments[i+2:], l.segments[i+1:])
			l.segments[i+1] = n
			return
		}
	}
}
