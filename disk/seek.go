package disk

import "github.com/slipringmq/slipring/frame/batch"

// Seek finds the first batch that was appended at Time or later.
type Seek struct {
	Time int64       // Unix ms
	Done func(*Seek) // after Log.Seek answered false

	Offset batch.Offset // of that batch; LogEnd when there is none
	Found  int64        // its append time, 0 when there is none
	Err    error
}

// Seek answers at once (true) when the batch is in the tail or there is none; else s.Done follows.
// Cost: one index load and one read of 256 KiB at most in the usual case.
func (l *Log) Seek(s *Seek) (ready bool) {
	s.Offset, s.Found, s.Err = l.logEnd, 0, nil
	for _, g := range l.segments {
		if g.end > l.logStart && g.end > g.first && g.maxTime >= s.Time && !l.tailFirst(g, s.Time) {
			c := l.newColdRead()
			c.seek, c.target, c.skip = s, max(g.first, l.logStart), 0
			return c.begin()
		}
	}
	l.seekTail(s)
	return true
}

// tailFirst: what g holds besides the tail was appended before time, or all of it is in the tail.
func (l *Log) tailFirst(g *segment, time int64) bool {
	q := &l.tail.batches
	if q.first == q.last || q.at(q.first).absent {
		return false
	}
	d := q.at(q.first)
	return d.time < time || offsetOf(d.base) <= max(g.first, l.logStart)
}

func (l *Log) seekTail(s *Seek) {
	q := &l.tail.batches
	for o := q.since(s.Time); o < q.last; o++ {
		if d := q.at(o); d.next > uint64(l.logStart) {
			s.Offset, s.Found = offsetOf(d.base), d.time
			return
		}
	}
}

// seekOn goes to the next segment, or to the tail.
func (c *coldRead) seekOn() {
	l, g := c.log, c.segment
	c.segment = nil
	g.reads--
	g.tidy()
	for i, s := range l.segments {
		if s == g && i+1 < len(l.segments) && l.segments[i+1].placed > 0 {
			c.target = l.segments[i+1].first
			c.enter(l.segments[i+1])
			return
		}
	}
	l.seekTail(c.seek)
	c.finish(nil)
}
