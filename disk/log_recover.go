package disk

import (
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// scanNext looks for the end of the first segment outside the journal whose end no snapshot names; false: there is none.
// Only such segments are ever scanned for their end, from their last durable length on, every body checked (R13, R16).
func (l *Log) scanNext(done func(error)) bool {
	for _, g := range l.segments {
		if g.scan || fault.On(fault.Rule16ScanForEnd) && !g.swept {
			g.swept = true
			l.scanEnd(g, done)
			return true
		}
	}
	return false
}

func (l *Log) scanEnd(g *segment, done func(error)) {
	g.scan = false
	mem := l.share.memory(pieceBytes)
	if mem == nil {
		done(ErrBusy)
		return
	}
	g.reads++
	from := g.length // the next batch begins here, also in the middle of a block, or at the next block behind zeros
	if fault.On(fault.Rule13ScanWholeBlocks) {
		from = alignUp(from)
	}
	s := &scan{
		segment: g, limit: maxSegmentBytes, mem: mem, every: l.indexEvery(), bodies: true,
		begin: true, exact: g.end > g.first, from: from, end: g.length, next: g.end, epoch: g.epoch >> epochShift, maxTime: g.maxTime,
	}
	end := func(err error) {
		mem.Release()
		g.reads--
		l.scanned(s, err, done)
	}
	s.done = func(err error) {
		if err == nil && s.damaged != nil && s.damaged != errEnd {
			l.lookBehind(s, end)
			return
		}
		end(err)
	}
	s.start()
}

// lookBehind tells damage from a torn end: pieces are written one after the other, each durable before the next begins.
// So when a batch stands a piece or more behind what does not check, that was durable once.
func (l *Log) lookBehind(s *scan, end func(error)) {
	b := &scan{
		segment: s.segment, limit: maxSegmentBytes, mem: s.mem, every: 1, lookOn: true,
		begin: true, from: s.badAt, next: s.next, epoch: s.epoch,
	}
	b.done = func(err error) {
		for _, e := range b.entries {
			if e.position >= s.badAt+pieceBytes {
				l.damaged(s.next, e.offset, &DamageError{
					Key: l.key, From: s.next, To: e.offset, File: s.segment.path("log"), Position: s.badAt, Err: s.damaged,
				})
				break
			}
		}
		end(err)
	}
	b.start()
}

// scanned takes the end found, once what was found is on stable media: the file may hold more than was ever flushed.
func (l *Log) scanned(s *scan, err error, done func(error)) {
	g := s.segment
	finish := func(err error) {
		g.closed, g.index.complete = true, false
		if g.end > g.first {
			l.logEnd = max(l.logEnd, g.end)
			l.durableEnd = l.logEnd
		}
		if !l.scanNext(done) {
			l.settled(done)
		}
	}
	if err != nil || s.next <= g.end {
		if err != nil && g.placed > 0 && g.end > l.logStart { // else it was trimmed, and removed before the crash
			l.damaged(g.first, g.end, err)
		}
		finish(err)
		return
	}
	if g.end == g.first && len(s.entries) > 0 {
		g.first = s.entries[0].offset
	}
	sync := &Op{Kind: OpSync, Class: ClassTail, File: g.file.handle, Done: func(op *Op) {
		g.release()
		if op.Err != nil {
			l.damaged(g.end, s.next, op.Err)
			finish(op.Err)
			return
		}
		g.end, g.length, g.maxTime = s.next, s.end, s.maxTime
		g.placed = alignUp(g.length)
		g.refilled = g.placed
		finish(nil)
	}}
	g.file.users++
	l.share.dev.Submit(sync)
}

// damaged tells the store of records that are lost; the log is fenced, and what lies below is served.
func (l *Log) damaged(from, to batch.Offset, err error) {
	if r := l.s.recovering; r != nil && l.member.replay != nil {
		r.damageAt(l.member.replay, Damage{Key: l.key, Cause: CauseSegment, Index: l.durableIndex, From: from, To: to, Err: err})
	}
}
