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
	l.held = slices.DeleteFunc(l.held, func(h held) bool {
		if h.index > last {
			l.share.heldBytes -= h.bytes
		}
		return h.index > last
	})
	l.trims = slices.DeleteFunc(l.trims, func(t staged) bool { return t.index > last })
	if l.dropping > last {
		l.dropping = 0
	}
	for i := range l.waiters { // for the placing of batches that are no more
		l.waiters[i].ordinal = min(l.waiters[i].ordinal, q.last)
	}
	l.nextIndex = last + 1
	l.share.placer.offer(l) // what is left of an extent may be due now
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
			if end = e.to; !e.closed || e.to > from { // else it ended before, and its memory may be gone
				end = l.cutExtent(e, ordinal)
			}
			break
		}
		end = e.from
		if e.direct {
			l.newSegment = true
			e.void = true
			l.uncount(e)
		}
		l.dropExtent(n - 1)
	}
	for _, g := range l.segments {
		g.cut(l, from)
	}
	l.dropEmpty()
	if last := l.lastSegment(); last != nil && !l.newSegment {
		l.tail.end = max(end, alignUp(last.addressOf(last.start)))
	} else {
		l.tail.end = alignUp(l.tail.end)
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

// cut takes the batches from log end on, which begin at from, out of the segment's bounds and index.
func (g *segment) cut(l *Log, from address) {
	if g.end <= l.logEnd {
		return
	}
	g.end = max(l.logEnd, g.first)
	g.length = max(min(g.length, g.position(from)), g.start)
	g.index.cut(l.logEnd)
}

// dropEmpty takes segments out that hold nothing any more. One whose file was made is only closed: its name is used up.
func (l *Log) dropEmpty() {
	for n := len(l.segments); n > 0 && l.segments[n-1].end == l.segments[n-1].first; n-- {
		g := l.segments[n-1]
		if !g.file.fresh || g.file.state != fileClosed || g.replaces != nil {
			g.closed = true
			return
		}
		l.segments = l.segments[:n-1]
		if n > 1 {
			l.newSegment = l.newSegment || l.segments[n-2].closed
		}
	}
}
