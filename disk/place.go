package disk

import (
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

func offsetOf(n uint64) batch.Offset { return batch.Offset(n) }

const (
	// pieceBytes is the greatest write to a segment (R24), and how much of a tail is worth one before it must go.
	pieceBytes = 256 << 10

	// placingBytes is how much the placer has in flight, all logs together, while a journal flush is under way or wanted:
	// that flush pays for what is unflushed. idlePlacingBytes is the same when none is. latePlacingBytes is for a journal
	// that grows faster than tails are placed: a start would have all of that to read, so flushes may wait.
	placingBytes     = 256 << 10
	idlePlacingBytes = 1 << 20
	latePlacingBytes = 4 << 20
)

// extent is a part of the tail that is not placed. Extents cover the tail without holes from the first unplaced byte on;
// only the last one may be open, which is where appends go.
type extent struct {
	segment  *segment
	from, to address // to grows with an open one; both are multiples of 4096 once it is closed
	first    uint64  // ordinals of its batches
	last     uint64
	done     address // on stable media below it; a multiple of 4096
	closed   bool
	flight   int // writes under way

	direct bool    // one batch that is written data first
	landed bool    // direct: all of it is on stable media
	void   bool    // dropped while its writes were under way
	sent   address // direct: writes were submitted below it
	bytes  int     // direct: counted in logShare.directBytes
}

// tailWrite is one write of a part of an extent.
type tailWrite struct {
	op     Op
	log    *Log
	extent *extent
	to     address
	bytes  int
	held   []*block.Block
}

// extendExtent takes the batch described last, which begins at at, into the open extent, or opens one.
func (l *Log) extendExtent(g *segment, at address) {
	if n := len(l.extents); n > 0 {
		if e := l.extents[n-1]; !e.closed && e.segment == g {
			e.to, e.last = l.tail.end, l.tail.batches.last
			return
		}
	}
	e := pop(&l.share.freeExtents)
	*e = extent{segment: g, from: alignDown(at), to: l.tail.end, done: alignDown(at)}
	e.last = l.tail.batches.last
	e.first = e.last - 1
	l.extents = append(l.extents, e)
}

// padTail ends the tail at a block: what is in it can be placed whole, and the next append begins a block of its own.
func (l *Log) padTail() {
	l.tail.pad()
	if n := len(l.extents); n > 0 && !l.extents[n-1].closed {
		e := l.extents[n-1]
		e.to, e.closed = l.tail.end, true
		e.segment.length = e.segment.position(e.to)
	}
}

func (l *Log) dropExtent(i int) {
	e := l.extents[i]
	l.extents = append(l.extents[:i], l.extents[i+1:]...)
	l.freeExtent(e)
}

// freeExtent gives e back once no write under way points to it.
func (l *Log) freeExtent(e *extent) {
	e.void = true
	if e.flight == 0 {
		l.share.freeExtents = append(l.share.freeExtents, e)
	}
}

// due returns the end of what may be written of a small extent now, e.done when that is nothing: pieces of 256 KiB, and
// the rest once the extent is closed and all of it is ready.
func (l *Log) dueOf(e *extent) address {
	if e.direct || e.flight > 0 {
		return e.done
	}
	limit := e.to
	if l.readyN < e.last {
		limit = l.tail.batches.at(max(l.readyN, e.first)).at
	}
	limit = max(alignDown(limit), e.done)
	switch {
	case limit-e.done >= pieceBytes:
		return e.done + pieceBytes
	case e.closed && limit == e.to, l.share.squeeze:
		return limit
	}
	return e.done
}

// place puts everything that is staged now into the segment, padded to a block, and calls done when it and the file's
// name are on stable media. What is not durable yet is waited for: only committed bytes go to segments (R16).
func (l *Log) place(done func(error)) {
	if !fault.On(fault.Rule08KeepTails) {
		l.padTail()
	}
	l.waiters = append(l.waiters, placeWaiter{l.tail.batches.last, done})
	l.share.placer.offer(l)
	l.wakeWaiters()
}

// placed says that nothing waits in the tail.
func (l *Log) placed() bool { return len(l.extents) == 0 }

// SyncNow writes out what is staged now: the flush of a log that is not journaled. DurableEnd moves when it is done.
func (l *Log) SyncNow() {
	l.padTail()
	l.share.placer.offer(l)
}

// placeWaiter waits until the batches before ordinal are placed.
type placeWaiter struct {
	ordinal uint64
	done    func(error)
}

// wakeWaiters answers the waiters whose batches are placed, or all of them with the error of a log that gave up.
func (l *Log) wakeWaiters() {
	for len(l.waiters) > 0 {
		w := l.waiters[0]
		w.ordinal = min(w.ordinal, l.tail.batches.last) // what was dropped is not waited for
		if !l.stuck && w.ordinal > l.placedN {
			return
		}
		err := l.fenced
		if w.ordinal <= l.placedN {
			err = nil
		}
		l.waiters = l.waiters[:copy(l.waiters, l.waiters[1:])]
		w.done(err)
	}
}

// advance retires what is placed: extents from the front, then batches, then blocks, which become hot.
func (l *Log) advance() {
	end := l.tail.end
	for len(l.extents) > 0 {
		e := l.extents[0]
		if e.direct && e.last > l.readyN {
			end = e.from // landed perhaps, and void until its reference is durable (R16)
			break
		}
		g := e.segment
		g.placed = max(g.placed, g.position(e.done))
		if !e.closed || e.done < e.to {
			end = e.done
			break
		}
		l.dropExtent(0)
		g.finish()
	}
	q := &l.tail.batches
	for l.placedN < q.last && q.at(l.placedN).end() <= end {
		l.placedN++
	}
}

// cool hands the blocks whose batches are all placed and durable to the hot ones: until then descriptors are asked for.
// A log with nothing left to place gives back a tail of small blocks at once: an idle partition holds no memory.
func (l *Log) cool() {
	q := &l.tail.batches
	all := len(l.extents) == 0 && l.durableN == q.last
	if all && l.tail.level <= 1 {
		l.releaseTail()
		return
	}
	end := l.tail.end
	if n := min(l.placedN, l.durableN); n < q.last {
		end = q.at(n).at
	}
	for _, b := range l.tail.blocks {
		if !b.hot && (b.to() <= end || all) {
			l.share.hot.add(b)
		}
	}
	l.share.hot.shrink()
}

// releaseTail gives all memory of a log whose batches are all placed back.
func (l *Log) releaseTail() {
	for _, b := range l.tail.blocks {
		l.share.freeBlock(b)
	}
	clear(l.tail.blocks)
	l.tail.blocks = l.tail.blocks[:0]
	l.tail.level = 0
	l.tail.batches.drop()
}

// evictFirst gives back the first block, which is hot, and forgets the batches that lie in it, even in part.
func (l *Log) evictFirst() {
	b := l.tail.blocks[0]
	n := copy(l.tail.blocks, l.tail.blocks[1:])
	l.tail.blocks[n] = nil
	l.tail.blocks = l.tail.blocks[:n]
	q := &l.tail.batches
	for q.first < q.last && q.at(q.first).at < b.to() {
		q.first++
	}
	if len(l.tail.blocks) == 0 {
		l.tail.level = 0
		q.drop()
	}
	l.share.freeBlock(b)
}

// placer writes the small extents of all logs, in turn, a bounded number of bytes at a time. It does so at the end of the
// turn, behind the commit group: the kernel gets requests in the order in which they were submitted.
type placer struct {
	queue  []*Log
	flight int // bytes under way
}

// offer queues l if it has something due.
func (p *placer) offer(l *Log) {
	if l.queued || l.stuck {
		return
	}
	for _, e := range l.extents {
		if l.dueOf(e) > e.done {
			l.queued = true
			p.queue = append(p.queue, l)
			if l.s.recovering != nil { // no turn ends
				p.run(l.share)
			}
			return
		}
	}
}

// run submits writes while there is room for them. A log gets one write a round; its file may have to be opened first,
// and then it is offered again.
func (p *placer) run(sh *logShare) {
	limit := idlePlacingBytes
	switch j := sh.s.journal; {
	case sh.s.checkpoint.behind():
		limit = latePlacingBytes
	case j.flying != nil, j.image != nil && j.image.entries > 0:
		limit = placingBytes
	}
	for len(p.queue) > 0 && p.flight < limit {
		l := p.queue[0]
		p.queue = p.queue[:copy(p.queue, p.queue[1:])]
		l.queued = false
		if l.stuck {
			continue
		}
		for _, e := range l.extents {
			if to := l.dueOf(e); to > e.done && e.segment.openForWrite() {
				p.flight += int(to - e.done)
				l.write(e, e.done, to, ClassTail)
				p.offer(l)
				break
			}
		}
	}
}

// write submits one write of [from, to) of e, durable when done.
func (l *Log) write(e *extent, from, to address, class Class) {
	w := pop(&l.share.freeWrites)
	if w.op.Done == nil {
		w.op.Kind, w.op.Sync = OpWrite, true
		w.op.Done = func(*Op) { w.log.written(w) }
	}
	w.log, w.extent, w.to, w.bytes = l, e, to, int(to-from)
	w.op.Class, w.op.File, w.op.Pos = class, e.segment.file.handle, e.segment.position(from)
	w.op.Data, w.held = l.tail.pieces(from, to, w.op.Data[:0], w.held[:0])
	if class == ClassDirect && fault.On(fault.Rule02NoCopy) {
		w.op.Data[0] = w.op.Data[0][16:] // the phase at which it stood behind a frame header
	}
	e.flight++
	e.segment.file.users++
	l.share.dev.Submit(&w.op)
	e.segment.reserve(w.op.Pos + Position(w.bytes))
}

// written takes the result of a write.
func (l *Log) written(w *tailWrite) {
	e, g, err := w.extent, w.extent.segment, w.op.Err
	for i, b := range w.held {
		b.Release()
		w.held[i] = nil
	}
	if w.op.Class == ClassTail {
		l.share.placer.flight -= w.bytes
		l.share.stats.PlacedBytes += uint64(w.bytes)
	} else {
		l.share.stats.DirectBytes += uint64(w.bytes)
	}
	to := w.to
	clear(w.op.Data)
	w.log, w.extent, w.op.Err = nil, nil, nil
	l.share.freeWrites = append(l.share.freeWrites, w)
	e.flight--
	g.release()
	switch {
	case e.void:
		l.freeExtent(e)
	case err != nil:
		l.writeFailed(g, err)
	case g.file.failed != nil:
	case e.direct:
		if e.flight == 0 && e.sent == e.to {
			l.directLanded(e)
		}
	default:
		e.done = to
		durable := l.durableEnd
		l.settle()
		if l.durableEnd > durable {
			l.s.machine.Durable(l, l.durableIndex) // not by a commit group: these batches are not in the journal
		}
	}
	if g.file.failed != nil {
		l.replaceWhenQuiet(g)
	}
	if l.s.recovering != nil {
		l.share.placer.run(l.share)
	}
}
