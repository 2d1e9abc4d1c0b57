package shard

import (
	"math"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// stepSubscription delivers one piece of the partition whose turn it is. A batch that was begun is finished whatever the
// credit says; it is the one delivery that may take it below zero.
func (s *Shard) stepSubscription(x *subscription) turn {
	for x.ready != nil {
		part := x.ready
		if part.cursor.Skip == 0 && !x.granted() {
			return rests
		}
		if !part.behind() {
			x.pop()
			continue
		}
		r := &x.read
		r.From, r.Limit = part.cursor, batch.Offset(part.p.high)
		if part.cursor.Skip > 0 {
			r.MaxBytes = int(min(pieceBytes, part.rest))
		} else {
			r.MaxBytes = int(max(min(pieceBytes, x.bytes), batch.HeaderBytes))
		}
		if !part.p.log.Read(r) {
			x.reading = true
			return rests
		}
		if s.takeDelivery(x, part) {
			return again
		}
		if x.over {
			return rests
		}
	}
	return rests
}

// subscriptionRead is the completion of a read from the disk.
func (s *Shard) subscriptionRead(x *subscription) {
	x.reading = false
	if x.over {
		x.read.Release()
		s.freeSubscription(x)
		return
	}
	s.takeDelivery(x, x.ready)
	if !x.over && x.ready != nil {
		s.enqueue(&x.stream)
	}
}

// takeDelivery sends what x.read holds for part, which is at the front. False: nothing was sent.
func (s *Shard) takeDelivery(x *subscription, part *subPart) bool {
	r := &x.read
	if code := s.failedRead(part.p, r); code != 0 {
		r.Release()
		s.failWith(x.conn, x.id, &frame.Error{
			Code: code, First: part.p.start, Last: part.p.high,
			Text: "the subscription ends: its next offset cannot be read",
		})
		s.endSubscription(x)
		return false
	}
	n, records, next, inside := bytesIn(r.Data), int64(r.Records), r.Next, part.cursor.Skip > 0
	if n == 0 {
		part.p.isEmpty(r)
		x.pop()
		r.Release()
		return false
	}
	if !inside && (next.Skip > 0 || records > x.records) {
		y := s.scratch.walk.whole(r.Data, n, creditOf(x))
		if y.bytes > 0 {
			n, records, next = int(y.bytes), y.records, disk.Cursor{Offset: y.next}
		}
		part.rest = y.open
	}
	part.rest -= int64(n)
	part.cursor = next
	x.bytes -= int64(n)
	x.records -= records
	x.pop()
	switch {
	case next.Skip > 0: // its rest comes before anything else
		x.unpop(part)
	case part.behind():
		x.push(part)
	}
	flags := frame.FlagReply
	if next.Skip > 0 {
		flags |= frame.FlagMore
	}
	s.sendDeliver(x, part.p, flags, r.Data, n)
	r.Release()
	return true
}

// unpop puts part back to the front.
func (x *subscription) unpop(part *subPart) {
	part.isReady, part.nextReady = true, x.ready
	x.ready = part
	if x.last == nil {
		x.last = part
	}
}

// creditOf is how many records a delivery may begin with: the batch that reaches it is its last.
func creditOf(x *subscription) int64 {
	if fault.On(fault.Rule21IgnoreRecordCredit) {
		return math.MaxInt64
	}
	return x.records
}

// sendDeliver sends the first n bytes of data.
func (s *Shard) sendDeliver(x *subscription, p *partition, flags uint16, data [][]byte, n int) {
	m := frame.Deliver{Topic: p.topic.id, Partition: p.number, Lost: x.lost}
	x.lost = 0
	out := frame.AppendHeader(s.scratch.out[:0], frame.CmdDeliver, flags, x.id, frame.DeliverFixedBytes+n)
	out = m.AppendHead(out)
	s.scratch.out = out[:0]
	s.send(x.conn, out)
	s.sendPieces(x.conn, data, n)
	s.stats.Deliveries++
}

// handOut gives a batch of a topic with storage none to the subscribers of the moment and forgets it. One without credit,
// or whose socket has too much to take, loses it and is told how many with its next delivery.
func (s *Shard) handOut(p *partition, header []byte, body [][]byte) (base uint64, time int64) {
	h := &s.scratch.batch
	stamped := s.scratch.header[:]
	copy(stamped, header)
	base, time = p.next, max(p.time, s.wall)
	batch.Stamp(stamped, base, s.cfg.Start, time, p.tag)
	p.next += uint64(h.Count)
	p.time, p.start, p.high, p.durable = time, p.next, p.next, p.next
	s.scratch.chunks = append(append(s.scratch.chunks[:0], stamped), body...)
	n, bound := int(h.TotalBytes()), s.handOutBound()
	for part := p.subs; part != nil; part = part.next {
		x := part.sub
		if !x.granted() || s.net.Queued(x.conn.id) >= bound {
			x.lost += h.Count
			s.stats.Lost += uint64(h.Count)
			continue
		}
		x.records -= int64(h.Count)
		x.bytes -= int64(n)
		s.deliverAll(x, p, n)
	}
	clear(s.scratch.chunks)
	return base, time
}

// handOutBound is how much output a subscriber of a topic with storage none may have waiting. There is no log to read on
// from, so it is more than a stream's, unless many slow ones have used up most of the memory.
func (s *Shard) handOutBound() int {
	if s.pool.Room() < s.pool.Stats().Limit/4 {
		return s.limits.OutputHigh
	}
	return s.limits.HandOut
}

// deliverAll sends the batch in s.scratch.chunks, n bytes, in as many frames as it needs.
func (s *Shard) deliverAll(x *subscription, p *partition, n int) {
	const most = frame.MaxPayload - frame.DeliverFixedBytes
	if n <= most {
		s.sendDeliver(x, p, frame.FlagReply, s.scratch.chunks, n)
		return
	}
	for i, piece := range s.scratch.chunks {
		for len(piece) > 0 {
			part := piece[:min(len(piece), most)]
			piece = piece[len(part):]
			flags := frame.FlagReply
			if len(piece) > 0 || i < len(s.scratch.chunks)-1 {
				flags |= frame.FlagMore
			}
			s.scratch.one[0] = part
			s.sendDeliver(x, p, flags, s.scratch.one[:], len(part))
		}
	}
}
