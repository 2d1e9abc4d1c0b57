package disk

import "slices"

// DropStaged forgets what is staged and was not given to the journal yet: the overlay of R15. Log end goes back. The
// bytes of a direct write that is under way are void; its segment takes nothing more, so they are never written over.
func (l *Log) DropStaged() {
	last := max(l.s.unstage(l), l.durableIndex)
	q := &l.tail.batches
	if kept := l.keptOrdinal(last); kept < q.last {
		l.cutTail(kept)
	}
	l.held = slices.DeleteFunc(l.held, func(h held) bool { return h.index > last })
	l.trims = slices.DeleteFunc(l.trims, func(t staged) bool { return t.index > last })
	if l.dropping > last {
		l.dropping = 0
	}
	l.nextIndex = last + 1
	l.wakeWaiters()
}

// keptOrdinal is one past the last batch whose entry has an index up to last.
func (l *Log) keptOrdinal(last uint64) uint64 {
	q := &l.tail.batches
	kept := q.last
	for kept > max(q.first, l.readyN) && q.at(kept-1).index > last {
		kept--
	}
	return kept
}

// cutTail forgets the batches from ordinal on. None of them is ready, so nothing of them is on its way to the medium
// but direct writes.
func (l *Log) cutTail(ordinal uint64) {
	q := &l.tail.batches
	from := q.at(ordinal).at
	q.last = ordinal
	l.logEnd = l.durableEnd
	if q.last > q.first {
		l.logEnd = max(l.logEnd, offsetOf(q.at(q.last-1).next))
	}
	end := from // of what is kept
	for n := len(l.extents); n > 0; n = len(l.extents) {
		e := l.extents[n-1]
		if e.from < from {
			end = l.cutExtent(e, ordinal)
			break
		}
		end = e.from
		if e.direct {
			l.newSegment = true
			e.void = true
			l.share.directBytes -= e.bytes
		}
		l.dropExtent(n - 1)
	}
	for _, g := range l.segments {
		g.cut(l)
	}
	if !l.newSegment {
		l.tail.end = max(end, l.lastSegment().addressOf(l.lastSegment().start))
	}
}

// cutExtent ends e behind the last batch before ordinal, padded: what follows begins at a block of its own.
func (l *Log) cutExtent(e *extent, ordinal uint64) address {
	e.last, e.closed = ordinal, true
	end := l.tail.batches.at(ordinal - 1).end()
	e.to = alignUp(end)
	if b := l.tail.blocks[l.tail.block(end)]; end < e.to {
		clear(b.mem.Data[end-b.from : e.to-b.from])
	}
	return e.to
}

// cut takes the batches from log end on out of the segment's bounds and index.
func (g *segment) cut(l *Log) {
	if g.end <= l.logEnd {
		return
	}
	g.end, g.length = max(l.logEnd, g.first), g.start
	q := &l.tail.batches
	if q.last > q.first {
		if d := q.at(q.last - 1); d.end() > g.addressOf(g.start) {
			g.length = g.position(d.end())
		}
	}
	g.index.cut(l.logEnd)
}
