package disk

import (
	"errors"
	"syscall"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// Trim stages a new log start. When its entry is durable LogStart moves and segments wholly below it are removed: what a
// durable entry of the journal refers to is never missing without a reason (R12). start is at most LogEnd.
// Errors, with nothing staged: ErrOutOfRange, ErrFenced.
func (l *Log) Trim(epoch uint64, start batch.Offset) (index uint64, err error) {
	if start < l.logStart || start > l.logEnd {
		return 0, ErrOutOfRange
	}
	if err := l.s.roomForNote(trimBytes); err != nil {
		return 0, err
	}
	var p [trimBytes]byte
	le.PutUint64(p[:], uint64(start))
	if index, err = l.stageNote(KindTrim, epoch, p[:]); err != nil {
		return 0, err
	}
	l.trims = append(l.trims, staged{index, start})
	if fault.On(fault.Rule12UnlinkEarly) {
		l.logStart = start
		l.removeBelow()
	}
	return index, nil
}

// noteSegment stages the entry that names a segment whose batches are not in the journal, in the form of a trim that
// trims nothing: replay finds the file by it, and the next checkpoint takes a snapshot of the log.
func (l *Log) noteSegment(g *segment, epoch uint64) uint64 {
	var p [trimBytes + placementBytes]byte
	le.PutUint64(p[:], uint64(l.logStart))
	placement{g.base, g.epoch, 0}.put(p[trimBytes:])
	index, err := l.stageNote(KindTrim, epoch, p[:])
	if err != nil {
		return 0 // admitted a moment ago: neither fenced nor dropped
	}
	return index
}

// removeBelow removes the segments whose batches are all below the log start. The last one stays while anything of it is
// not placed or it may take appends that would need it.
func (l *Log) removeBelow() {
	l.voidBelow()
	for len(l.segments) > 0 {
		g := l.segments[0]
		if g.end > l.logStart || l.unplacedIn(g) || len(l.segments) == 1 && g.length == g.start {
			return
		}
		if len(l.segments) > 1 && l.segments[1].replaces == g {
			if l.unplacedIn(l.segments[1]) {
				return // journal entries name g for bytes of the next
			}
			l.segments[1].replaces, l.segments[1].shift = nil, 0
		}
		l.forgetTailBelow(g)
		l.segments = l.segments[:copy(l.segments, l.segments[1:])]
		g.closed, g.doomed = true, true
		l.share.indexes.remove(g)
		g.tidy()
	}
}

// voidBelow takes what is not placed of such segments for placed: nobody will read it. After a crash the file may be
// gone already while the journal still gives its last bytes back.
func (l *Log) voidBelow() {
	changed := false
	for _, e := range l.extents {
		g := e.segment
		if g.end > l.logStart || e.flight > 0 || e.direct && !e.landed || e.last > l.readyN {
			break
		}
		if !e.closed {
			l.padTail()
		}
		g.index.written = true // not worth a file
		e.done, changed = e.to, true
	}
	if changed {
		l.settle()
	}
}

func (l *Log) unplacedIn(g *segment) bool {
	for _, e := range l.extents {
		if e.segment == g {
			return true
		}
	}
	return false
}

// forgetTailBelow drops the descriptors of a segment that goes; its blocks go with the hot ones.
func (l *Log) forgetTailBelow(g *segment) {
	q := &l.tail.batches
	for q.first < q.last && q.at(q.first).next <= uint64(g.end) && q.first < l.placedN {
		q.first++
	}
}

// remove deletes the files of a segment that nobody uses. An error is no reason to stop: the next start finds the files
// below the log start and tries again.
func (g *segment) remove() {
	left := 2
	done := func(*Op) {
		if left--; left == 0 {
			g.log.removedOne()
		}
	}
	for _, ext := range [...]string{"log", "index"} {
		g.log.share.dev.Submit(&Op{Kind: OpRemove, Class: ClassCold, Path: g.path(ext), Done: done})
	}
}

// Drop stages the end of the partition. When it is durable all its files are removed; nothing can be read from then on.
func (l *Log) Drop(epoch uint64) (index uint64, err error) {
	if l.dropping != 0 {
		return 0, ErrFenced
	}
	if err := l.s.roomForNote(0); err != nil {
		return 0, err
	}
	fenced := l.fenced
	l.fenced = nil // a fenced partition can be deleted
	index, err = l.stageNote(KindDrop, epoch, nil)
	l.fenced = fenced
	if err == nil {
		l.dropping = index
	}
	return index, err
}

// removeAll removes the files of a dropped log, known or not, and its directory.
func (l *Log) removeAll() {
	if l.removing {
		return
	}
	l.removing = true
	l.giveUp(ErrFenced)
	for len(l.extents) > 0 {
		l.dropExtent(0)
	}
	l.placedN = l.tail.batches.last
	l.releaseTail()
	l.logStart = l.logEnd
	segments := l.segments
	l.segments, l.toRemove = nil, len(segments)
	for _, g := range segments {
		g.closed, g.doomed = true, true
		l.share.indexes.remove(g)
		g.tidy()
	}
	if len(segments) == 0 {
		l.removeLeft()
	}
}

// removedOne counts the segments of a dropped log that are gone.
func (l *Log) removedOne() {
	if l.toRemove > 0 {
		if l.toRemove--; l.toRemove == 0 {
			l.removeLeft()
		}
	}
}

// removeLeft lists the directory of a dropped log, removes what is in it, and then itself.
func (l *Log) removeLeft() {
	dev, dir := l.share.dev, directory(l.key)
	dev.Submit(&Op{Kind: OpList, Class: ClassCold, Path: dir, Done: func(op *Op) {
		left := len(op.Names) + 1
		done := func(*Op) {
			if left--; left == 0 {
				l.removeDirectory(dir)
			}
		}
		for _, name := range op.Names {
			dev.Submit(&Op{Kind: OpRemove, Class: ClassCold, Path: dir + "/" + name, Done: done})
		}
		done(nil)
	}})
}

// removeDirectory removes the partition's directory and then the topic's, which other partitions may still need.
func (l *Log) removeDirectory(dir string) {
	dev := l.share.dev
	dev.Submit(&Op{Kind: OpRemove, Class: ClassCold, Path: dir, Done: func(op *Op) {
		if op.Err != nil && !errors.Is(op.Err, syscall.ENOENT) {
			l.wasRemoved()
			return
		}
		topic := parent(dir)
		dev.Submit(&Op{Kind: OpSyncDir, Class: ClassCold, Path: topic, Done: func(*Op) {
			dev.Submit(&Op{Kind: OpRemove, Class: ClassCold, Path: topic, Done: func(*Op) { l.wasRemoved() }})
		}})
	}})
}

func (l *Log) wasRemoved() {
	l.removed = true
	l.s.mayBeGone = true
	if l.gone != nil {
		gone := l.gone
		l.gone = nil
		gone()
	}
}
