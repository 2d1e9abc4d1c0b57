package shard

import (
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// sweep applies the retention settings: about once a second it visits every partition, a few a turn, and moves log starts
// to batch boundaries, of segments where bytes are counted. A new log start is an entry; nothing is removed before it is durable (RULES 12).
type sweep struct {
	at      int // place in Shard.partitions
	due     int64
	p       *partition // whose look-up is under way
	looking bool
	seek    disk.Seek
	read    disk.Read
}

const (
	sweepNanos   = 1e9
	sweepPerTurn = 64
)

// step goes on with a sweep that is due.
func (w *sweep) step(s *Shard) {
	if w.seek.Done == nil {
		w.seek.Done = func(*disk.Seek) { w.sought(s) }
		w.read.Done = func(*disk.Read) { w.found(s) }
		w.due = s.mono + sweepNanos
	}
	if s.mono < w.due || s.failed != nil {
		return
	}
	for n := 0; n < sweepPerTurn && !w.looking; n++ {
		if w.at >= len(s.partitions) {
			w.at, w.due = 0, s.mono+sweepNanos
			return
		}
		p := s.partitions[w.at]
		w.at++
		if p != nil && p.writable() && p.startStaged < p.high {
			w.visit(s, p)
		}
	}
}

// wakeAt is when the next step is due, 0 when it waits for the disk or no partition exists.
func (w *sweep) wakeAt(s *Shard) int64 {
	switch {
	case w.looking || len(s.partitions) == 0 || s.topics.retaining == 0:
		return 0
	case w.at > 0:
		return s.mono
	}
	return w.due
}

// visit applies what can be said at once, and looks up what must be sought in the log.
func (w *sweep) visit(s *Shard, p *partition) {
	set := &p.topic.settings
	w.p = p
	if set.RetentionBytes >= 0 {
		w.trim(s, p, uint64(p.log.StartFor(set.RetentionBytes)))
	}
	if n := uint64(max(set.RetentionRecords, 0)); set.RetentionRecords >= 0 && p.high-p.startStaged > n {
		w.read.From, w.read.Limit, w.read.MaxBytes = disk.Cursor{Offset: batch.Offset(p.high - n)}, batch.Offset(p.high), batch.HeaderBytes
		if p.high-n >= uint64(p.log.LogEnd()) {
			w.trim(s, p, p.high-n)
		} else if w.looking = true; p.log.Read(&w.read) {
			w.found(s)
		}
		if w.looking {
			return
		}
	}
	w.visitTime(s, p)
}

// visitTime looks for the first batch that is young enough.
func (w *sweep) visitTime(s *Shard, p *partition) {
	set := &p.topic.settings
	if set.RetentionMillis < 0 || set.RetentionMillis > s.wall {
		return
	}
	w.seek.Time = s.wall - set.RetentionMillis
	if w.looking = true; p.log.Seek(&w.seek) {
		w.sought(s)
	}
}

// found ends the look-up of the batch that holds the oldest record to keep.
func (w *sweep) found(s *Shard) {
	w.looking = false
	x := &s.scratch.walk
	x.reset(w.read.Data)
	if w.read.Err == nil && x.next() {
		w.trim(s, w.p, x.header.BaseOffset)
	}
	x.data = nil
	w.read.Release()
}

func (w *sweep) sought(s *Shard) {
	w.looking = false
	if w.seek.Err == nil {
		w.trim(s, w.p, uint64(w.seek.Offset))
	}
}

// trim stages a new log start, unless the partition is gone or it would go back or past what is durable.
func (w *sweep) trim(s *Shard, p *partition, start uint64) {
	start = min(start, p.durable, p.high)
	if start <= p.startStaged || !p.writable() || s.state != serving {
		return
	}
	if !p.journaled() && !s.noteStands(p, start) {
		return
	}
	index, err := p.log.Trim(s.cfg.Start, batch.Offset(start))
	if err != nil {
		return // busy: the next sweep tries again
	}
	s.stats.Trims++
	p.startStaged = start
	p.notes.push(note{index: index, kind: disk.KindTrim, value: start})
}

// noteStands journals where the producers stand that a log outside the journal would forget with its batches below start.
func (s *Shard) noteStands(p *partition, start uint64) bool {
	for {
		s.scratch.note = p.producers.forgotten(s.scratch.note[:0], start, standsPerEntry)
		if len(s.scratch.note) == 4 {
			return true
		}
		if _, err := p.log.Note(kindStands, s.cfg.Start, s.scratch.note); err != nil {
			p.producers.unnote()
			return false
		}
	}
}

// standsPerEntry keeps an entry below disk's bound of 64 KiB.
const standsPerEntry = 400

// retains says whether the settings ever let records go.
func retains(set *frame.Settings) bool {
	return set.Storage == frame.StorageLog && (set.RetentionMillis >= 0 || set.RetentionBytes >= 0 || set.RetentionRecords >= 0)
}
