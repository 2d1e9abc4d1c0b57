package shard

import (
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// listing is one LIST OFFSETS whose times are being looked up, one after the other.
type listing struct {
	conn  uint64
	id    uint64
	asked []frame.OffsetQuery
	reply frame.ListOffsetsReply
	seek  disk.Seek
	at    int // the query being looked up
}

func (s *Shard) onListOffsets(k *conn, req uint64, m *frame.ListOffsets) {
	if k.waits >= s.limits.Waits {
		s.refuse(k, req, refuseWaits)
		return
	}
	k.waits++
	l := s.newListing()
	l.conn, l.id, l.at = k.id, req, 0
	l.asked = append(l.asked[:0], m.Partitions...)
	l.reply.Partitions = l.reply.Partitions[:0]
	s.stepListing(l)
}

func (s *Shard) newListing() *listing {
	if n := len(s.lists); n > 0 {
		l := s.lists[n-1]
		s.lists = s.lists[:n-1]
		return l
	}
	l := &listing{}
	l.seek.Done = func(*disk.Seek) {
		s.takeSeek(l)
		s.stepListing(l)
	}
	return l
}

// stepListing answers queries until one must wait for the disk.
func (s *Shard) stepListing(l *listing) {
	for ; l.at < len(l.asked); l.at++ {
		q := &l.asked[l.at]
		a := frame.OffsetAnswer{Topic: q.Topic, Partition: q.Partition}
		p, why := s.find(q.Topic, q.Partition)
		switch {
		case why != nil:
			a.Error = why.code
		case q.Kind == frame.OffsetStart:
			a.Offset = p.start
		case q.Kind == frame.OffsetEnd || p.log == nil:
			a.Offset = p.high
		default:
			l.seek.Time = q.Time
			if !p.log.Seek(&l.seek) {
				return
			}
			s.takeSeek(l)
			l.at--
			continue
		}
		l.reply.Partitions = append(l.reply.Partitions, a)
	}
	if k := s.conns[l.conn]; k != nil && !k.ending {
		k.waits--
		s.reply(k, frame.CmdListOffsets, l.id, &l.reply)
	}
	s.lists = append(s.lists, l)
}

// takeSeek notes what the store found for the query at hand and goes past it. What may not be read yet is the end.
func (s *Shard) takeSeek(l *listing) {
	q := &l.asked[l.at]
	l.at++
	a := frame.OffsetAnswer{Topic: q.Topic, Partition: q.Partition}
	p, why := s.find(q.Topic, q.Partition)
	switch {
	case why != nil: // deleted meanwhile
		a.Error = why.code
	case l.seek.Err != nil:
		if a.Error = codeOfRead(l.seek.Err); a.Error == frame.ErrDamaged {
			s.reportUnreadable(p, p.start, l.seek.Err)
		}
	case uint64(l.seek.Offset) >= p.high:
		a.Offset = p.high
	default:
		a.Offset, a.Time = max(uint64(l.seek.Offset), p.start), l.seek.Found
	}
	l.reply.Partitions = append(l.reply.Partitions, a)
}
