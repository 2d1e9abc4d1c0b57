package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// redo applies a durable entry that the journal gave back; payload is its own. It fills Header or Trim of e. The bytes of
// a batch go to the tail at the place that the entry names, and are written there again when they fill a piece: the same
// bytes to the same place, so that a crash in the middle does no harm. Entries that a snapshot covers, but whose bytes it
// does not, are redone too: they change nothing but the tail.
func (l *Log) redo(e *Entry, payload []byte) error {
	l.replaying = true
	err := error(nil)
	switch e.Kind {
	case KindAppend, KindReference:
		err = l.redoBatch(e, payload)
	case KindTrim:
		err = l.redoTrim(e, payload)
	case KindDrop:
		l.dropping = e.Index
	}
	if err == nil && e.Index >= l.nextIndex {
		l.nextIndex, l.durableIndex = e.Index+1, e.Index
	}
	return err
}

// redoBatch checks all that the entry says before anything changes.
func (l *Log) redoBatch(e *Entry, payload []byte) error {
	at, rest, err := parsePlacement(payload)
	if err != nil {
		return err
	}
	if e.Kind == KindReference {
		if len(rest) != referenceBytes-placementBytes {
			return errEntry
		}
		rest = rest[8:]
	}
	h, err := batch.ParseHeader(rest)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errEntry, err)
	case h.PartitionTag != l.opt.Tag:
		return fmt.Errorf("%w: %w", errEntry, errTag)
	case e.Kind == KindAppend && int64(len(rest)) != h.TotalBytes():
		return errEntry
	case e.Kind == KindReference && le.Uint64(payload[placementBytes:]) != uint64(h.TotalBytes()):
		return errEntry
	case e.Kind == KindReference && at.position%blockBytes != 0, h.TotalBytes() > maxSegmentBytes:
		return errEntry
	}
	e.Header = h
	g, pos := l.placeOf(at)
	if e.Index < l.nextIndex { // the snapshot has it; its bytes may be missing
		if g == nil || pos+Position(h.TotalBytes()) <= g.placed || offsetOf(h.BaseOffset) >= g.end {
			return nil
		}
	} else if offsetOf(h.BaseOffset) < l.logEnd {
		return fmt.Errorf("%w: batch at offset %d, log end %d", errEntry, h.BaseOffset, l.logEnd)
	}
	if g == nil {
		g = l.redoSegment(at, offsetOf(h.BaseOffset))
	}
	return l.refill(e, g, pos, rest)
}

// placeOf finds the segment that an entry names, and the one that replaces it if the bytes moved there.
func (l *Log) placeOf(at placement) (*segment, Position) {
	pos := at.position
	for i := len(l.segments) - 1; i >= 0; i-- {
		g := l.segments[i]
		if g.base != at.base || g.epoch != at.epoch {
			continue
		}
		for g.moved != nil && pos >= g.length && pos >= g.moved.shift+g.moved.start {
			pos -= g.moved.shift
			g = g.moved
		}
		return g, pos
	}
	return nil, pos
}

// redoSegment adds a segment that no snapshot knows; its file may exist or not.
func (l *Log) redoSegment(at placement, first batch.Offset) *segment {
	l.padTail()
	if old := l.lastSegment(); old != nil {
		old.closed = true
	}
	g := &segment{
		log: l, base: at.base, epoch: at.epoch, first: first, end: first,
		start: at.position, length: at.position, placed: alignDown(at.position), refilled: at.position,
		address: l.tail.end - address(alignDown(at.position)),
	}
	g.index.complete = true
	l.segments = append(l.segments, g)
	return g
}

// refill puts the bytes of one batch back at pos of g. They follow the bytes before, at once or at the next block.
func (l *Log) refill(e *Entry, g *segment, pos Position, p []byte) error {
	h := &e.Header
	end := pos + Position(h.TotalBytes())
	begins := g.refilled == g.placed && pos <= g.refilled && end > g.refilled // the first one may lie over the placed end
	if !begins && pos != g.refilled && pos != alignUp(g.refilled) {
		return fmt.Errorf("%w: batch at position %d of a segment filled up to %d", errEntry, pos, g.refilled)
	}
	if n := len(l.extents); n > 0 && (l.extents[n-1].segment != g || l.tail.end != g.addressOf(pos)) {
		l.padTail()
	}
	if e.Kind == KindReference {
		l.padTail()
		l.refillReference(g, pos, end)
	} else if err := l.refillBytes(g, pos, p); err != nil {
		return err
	}
	d := described{
		base: h.BaseOffset, next: h.NextOffset(), index: e.Index, time: h.AppendTime,
		at: g.addressOf(pos), bytes: uint32(h.TotalBytes()), absent: e.Kind == KindReference,
	}
	l.tail.batches.push(d)
	if e.Kind == KindReference {
		l.extents[len(l.extents)-1].last++
		end = alignUp(end)
	} else {
		l.extendExtent(g, d.at)
	}
	if e.Index >= l.nextIndex {
		g.take(&d, l.indexEvery())
		l.logEnd, l.lastTime = offsetOf(d.next), d.time
	}
	g.refilled, g.length = end, max(g.length, end)
	l.durableEnd = l.logEnd
	l.durableIndex = max(l.durableIndex, e.Index)
	l.readyN = l.tail.batches.last
	l.settle()
	return nil
}

// refillReference makes the extent of a batch that its segment has already.
func (l *Log) refillReference(g *segment, pos, end Position) {
	x := pop(&l.share.freeExtents)
	*x = extent{
		segment: g, from: g.addressOf(pos), to: g.addressOf(alignUp(end)), done: g.addressOf(alignUp(end)),
		first: l.tail.batches.last, last: l.tail.batches.last, closed: true, direct: true, landed: true,
	}
	x.sent = x.to
	l.extents = append(l.extents, x)
	l.tail.end = x.to
	g.file.named = true // before the reference was
}

// refillBytes writes p into the tail. It waits for memory: replay of a journal as large as memory must go through.
func (l *Log) refillBytes(g *segment, pos Position, p []byte) error {
	at := g.addressOf(pos)
	l.tail.end = alignDown(at)
	if l.tail.current() != nil {
		l.tail.end = at
	}
	if !l.replayed {
		l.replayed = true
		l.share.replayed = append(l.share.replayed, l)
	}
	for !l.tail.room(l, int(at-l.tail.end)+len(p)) {
		if err := l.share.makeRoom(); err != nil {
			return err
		}
	}
	l.tail.end = at
	l.tail.write(p)
	return nil
}

// makeRoom waits for writes of replayed tails, and has whole blocks written when none is under way.
func (sh *logShare) makeRoom() error {
	if sh.dev.InFlight() == 0 {
		sh.squeeze = true
		for _, l := range sh.replayed {
			sh.placer.offer(l)
		}
		sh.squeeze = false
		if sh.dev.InFlight() == 0 {
			return fmt.Errorf("disk: %d bytes of memory do not hold the tails of %d partitions; raise memory.limit: %w",
				sh.pool.Stats().Limit, len(sh.replayed), ErrBusy)
		}
	}
	return sh.dev.Wait()
}

func (l *Log) redoTrim(e *Entry, payload []byte) error {
	if len(payload) != trimBytes && len(payload) != trimBytes+placementBytes {
		return errEntry
	}
	e.Trim = batch.Offset(le.Uint64(payload))
	if e.Trim > l.logEnd && len(payload) == trimBytes && !l.hasPlain() {
		return fmt.Errorf("%w: log start %d, log end %d", errEntry, e.Trim, l.logEnd)
	}
	if e.Index < l.nextIndex {
		return nil
	}
	if !fault.On(fault.Rule12IgnoreTrims) {
		l.logStart = max(l.logStart, e.Trim)
	}
	if len(payload) == trimBytes {
		return nil
	}
	at, _, err := parsePlacement(payload[trimBytes:])
	if err != nil || at.position != 0 || at.base < l.logEnd {
		return errEntry
	}
	g := l.redoSegment(at, at.base)
	g.plain, g.scan, g.note, g.file.named = true, true, e.Index, true
	return nil
}

// hasPlain: the log's end is known only after a scan.
func (l *Log) hasPlain() bool {
	for _, g := range l.segments {
		if g.scan {
			return true
		}
	}
	return false
}

// recovered ends the replay. After an unclean start the log goes on in a new segment, whose epoch no file has yet: what
// landed behind the last durable batch is never written over and never read (R16). Segments outside the journal get
// their end from a scan first; done follows.
func (l *Log) recovered(clean bool, done func(error)) {
	l.replaying = false
	l.share.replayed = nil
	if l.dropping != 0 {
		l.removeAll()
		done(nil)
		return
	}
	l.logEnd = max(l.logEnd, l.logStart)
	l.durableEnd = l.logEnd
	l.checkRefilled()
	if !clean {
		l.newSegment = len(l.segments) > 0 && !fault.On(fault.Rule16SameSegment)
		if l.scanNext(done) {
			return
		}
	}
	l.settled(done)
}

func (l *Log) settled(done func(error)) {
	l.removeBelow()
	l.settle()
	done(nil)
}

// checkRefilled reports what neither segments nor journal hold.
func (l *Log) checkRefilled() {
	for _, g := range l.segments {
		switch {
		case g.end <= l.logStart || g.scan:
		case g.missing:
			l.damaged(g.first, g.end, fmt.Errorf("disk: %s: %w", g.path("log"), errNoFile))
		case alignUp(g.refilled) < g.length && g.placed < alignUp(g.length):
			l.damaged(g.first, g.end, fmt.Errorf("disk: %s: bytes %d to %d are neither in the file nor in the journal",
				g.path("log"), g.refilled, g.length))
		}
	}
}
