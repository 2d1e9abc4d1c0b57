package shard

import (
	"math"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// subscription is one SUBSCRIBE on one connection. On a stored topic it is a cursor for each partition, and delivers from
// the log while there is credit: nothing is dropped. On a topic with storage none it takes what is handed out in the
// moment. Credit is spent when records or bytes are at or below 0; one delivery may take it below (RULES 21).
type subscription struct {
	stream
	id      uint64
	topic   *topic
	records int64
	bytes   int64
	parts   []subPart
	ready   *subPart // with something to deliver, in turn
	last    *subPart
	read    disk.Read
	reading bool
	over    bool
	lost    uint32 // records dropped since the last DELIVER; storage none

	nextOf, prevOf *subscription // of its connection
}

// subPart is one partition of a subscription.
type subPart struct {
	p      *partition
	cursor disk.Cursor
	rest   int64 // with cursor.Skip: bytes of the batch still to come
	sub    *subscription

	isReady    bool
	nextReady  *subPart
	next, prev *subPart // of p.subs
}

func (s *Shard) onSubscribe(k *conn, req uint64, m *frame.Subscribe) {
	if s.taken(k, req) {
		return
	}
	t, why := s.checkSubscribe(k, m)
	if why != nil {
		s.refuse(k, req, why)
		return
	}
	from, to := 0, len(t.partitions)
	if m.Partition != frame.AllPartitions {
		from, to = int(m.Partition), int(m.Partition)+1
		if p := &t.partitions[from]; m.Start == frame.SubscribeOffset && (m.Offset < p.start || m.Offset > p.high) {
			s.failWith(k, req, &frame.Error{Code: frame.ErrOffsetOutOfRange, First: p.start, Last: p.high, Text: "the start offset is not in the log"})
			return
		}
	}
	x := s.newSubscription(k, req)
	x.topic, x.records, x.bytes = t, m.Records, m.Bytes
	if cap(x.parts) < to-from {
		x.parts = make([]subPart, 0, to-from)
	}
	s.replyEmpty(k, frame.CmdSubscribe, req)
	for i := from; i < to; i++ {
		p := &t.partitions[i]
		x.parts = append(x.parts, subPart{p: p, sub: x, cursor: startOf(p, m)})
	}
	for i := range x.parts {
		x.parts[i].enlist()
		s.wake(&x.parts[i])
	}
}

func (s *Shard) checkSubscribe(k *conn, m *frame.Subscribe) (*topic, *refusal) {
	t := s.topics.byName[m.Name]
	switch {
	case s.state != serving:
		return nil, refuseStopping
	case t == nil:
		return nil, noName(m.Name)
	case m.Partition != frame.AllPartitions && m.Partition >= uint32(len(t.partitions)):
		return nil, refusePartition
	case t.settings.Storage == frame.StorageNone && m.Start != frame.SubscribeTail:
		return nil, refuseNotStored
	case len(k.subs) >= s.limits.Subscriptions:
		return nil, refuseSubs
	}
	return t, nil
}

var refuseSubs = &refusal{frame.ErrLimit, "too many subscriptions on this connection"}

func startOf(p *partition, m *frame.Subscribe) disk.Cursor {
	switch m.Start {
	case frame.SubscribeLog:
		return disk.Cursor{Offset: batch.Offset(p.start)}
	case frame.SubscribeOffset:
		return disk.Cursor{Offset: batch.Offset(m.Offset)}
	}
	return disk.Cursor{Offset: batch.Offset(p.high)}
}

func (s *Shard) newSubscription(k *conn, req uint64) *subscription {
	var x *subscription
	if n := len(s.subscribers); n > 0 {
		x = s.subscribers[n-1]
		s.subscribers = s.subscribers[:n-1]
	} else {
		x = &subscription{}
		x.stream.sub = x
		x.read.Done = func(*disk.Read) { s.subscriptionRead(x) }
	}
	x.conn, x.id, x.over, x.lost = k, req, false, 0
	if k.subs == nil {
		k.subs = make(map[uint64]*subscription)
	}
	k.subs[req] = x
	x.prevOf, x.nextOf = nil, k.sub
	if k.sub != nil {
		k.sub.prevOf = x
	}
	k.sub = x
	s.stats.Subscriptions++
	return x
}

// endSubscription forgets x; a read that is under way finishes first.
func (s *Shard) endSubscription(x *subscription) {
	x.dequeue()
	for i := range x.parts {
		x.parts[i].delist()
	}
	x.ready, x.last = nil, nil
	delete(x.conn.subs, x.id)
	if x.prevOf != nil {
		x.prevOf.nextOf = x.nextOf
	} else {
		x.conn.sub = x.nextOf
	}
	if x.nextOf != nil {
		x.nextOf.prevOf = x.prevOf
	}
	x.conn, x.nextOf, x.prevOf, x.topic = nil, nil, nil, nil
	x.over = true
	s.stats.Subscriptions--
	if !x.reading {
		s.freeSubscription(x)
	}
}

func (s *Shard) freeSubscription(x *subscription) {
	clear(x.parts)
	x.parts = x.parts[:0]
	s.subscribers = append(s.subscribers, x)
}

func (part *subPart) enlist() {
	p := part.p
	part.prev, part.next = nil, p.subs
	if p.subs != nil {
		p.subs.prev = part
	}
	p.subs = part
}

func (part *subPart) delist() {
	if part.prev != nil {
		part.prev.next = part.next
	} else {
		part.p.subs = part.next
	}
	if part.next != nil {
		part.next.prev = part.prev
	}
	part.next, part.prev, part.nextReady, part.isReady = nil, nil, nil, false
}

// behind says whether there is something to deliver.
func (part *subPart) behind() bool {
	p := part.p
	return part.cursor.Skip > 0 || p.log != nil && p.holds(uint64(part.cursor.Offset), p.high)
}

// wake puts part into its subscription's turn when there is something to deliver.
func (s *Shard) wake(part *subPart) {
	x := part.sub
	if part.isReady || !part.behind() {
		return
	}
	x.push(part)
	if x.granted() && !x.reading {
		s.enqueue(&x.stream)
	}
}

func (x *subscription) push(part *subPart) {
	part.isReady, part.nextReady = true, nil
	if x.last == nil {
		x.ready = part
	} else {
		x.last.nextReady = part
	}
	x.last = part
}

func (x *subscription) pop() {
	part := x.ready
	x.ready = part.nextReady
	if x.ready == nil {
		x.last = nil
	}
	part.isReady, part.nextReady = false, nil
}

// granted says whether a delivery may begin.
func (x *subscription) granted() bool { return x.records > 0 && x.bytes > 0 }

func (s *Shard) onCredit(k *conn, req uint64, m *frame.Credit) {
	x := k.subs[req]
	if x == nil {
		return // CREDIT has no reply, and crosses with the end of a subscription
	}
	x.records = addCredit(x.records, m.Records)
	x.bytes = addCredit(x.bytes, m.Bytes)
	if x.ready != nil && x.granted() && !x.reading {
		s.enqueue(&x.stream)
	}
}

func addCredit(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (s *Shard) onUnsubscribe(k *conn, req uint64) {
	x := k.subs[req]
	if x == nil {
		s.fail(k, req, frame.ErrUnknownSubscription, "no subscription has this request id")
		return
	}
	s.endSubscription(x)
	s.replyEmpty(k, frame.CmdUnsubscribe, req)
}
