package shard

import (
	"math"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// fetch is one FETCH from its arrival to its last part. It waits at its partitions until enough is readable, then streams
// its reply; used again afterwards.
type fetch struct {
	stream
	id       uint64
	minBytes int64
	have     int64 // readable bytes, counted while it waits
	left     int   // bytes of reply still allowed
	started  bool  // data was sent: one batch is always allowed
	parts    []fetchPart
	at       int // the part being read
	read     disk.Read
	reading  bool // read is the store's
	counting bool // and was only to count
	begun    bool // the reply is being made
	over     bool // ended; free once it is not reading
	timer    timer

	nextOf, prevOf *fetch // of its connection
}

// fetchPart is one partition of a fetch.
type fetchPart struct {
	p      *partition // nil when there is none
	topic  uint32
	number uint32
	cursor disk.Cursor
	limit  uint64 // high watermark when the reply began
	rest   int64  // with cursor.Skip: bytes of the batch still to come
	left   int
	code   frame.ErrorCode
	has    bool // data is to be sent
	sent   bool // data was sent

	fetch      *fetch
	waiting    bool // in p.fetchers
	next, prev *fetchPart
}

// pieceBytes is what one read of a stream takes at most: other streams and replies get their turn in between.
const pieceBytes = 256 << 10

func (s *Shard) onFetch(k *conn, req uint64, m *frame.Fetch) {
	if s.state != serving {
		s.refuse(k, req, refuseStopping)
		return
	}
	if k.waits >= s.limits.Waits {
		s.refuse(k, req, refuseWaits)
		return
	}
	if s.taken(k, req) {
		return
	}
	s.stats.Fetches++
	if s.asksTwice(m) {
		s.goAway(k, req, frame.ErrMalformed, "FETCH names a partition twice")
		return
	}
	f := s.newFetch(k, req)
	f.minBytes = int64(m.MinBytes)
	f.left = int(min(int64(m.MaxBytes), int64(s.limits.FetchBytes)))
	for i := range m.Partitions {
		f.parts = append(f.parts, s.fetchPart(f, &m.Partitions[i]))
	}
	if s.enough(f) || m.MaxWaitMillis == 0 {
		s.beginReply(f)
		return
	}
	for i := range f.parts {
		f.parts[i].enlist()
	}
	wait := min(int64(m.MaxWaitMillis), int64(s.limits.FetchMillis))
	s.timers.set(&f.timer, s.mono+wait*1e6)
}

// asksTwice says whether m names a partition twice: chunks of both could not be told apart. Each partition is marked with
// the number of the FETCH that named it last.
func (s *Shard) asksTwice(m *frame.Fetch) bool {
	for i := range m.Partitions {
		p, why := s.find(m.Partitions[i].Topic, m.Partitions[i].Partition)
		if why != nil {
			continue
		}
		if p.asked == s.stats.Fetches {
			return true
		}
		p.asked = s.stats.Fetches
	}
	return false
}

func (s *Shard) newFetch(k *conn, req uint64) *fetch {
	var f *fetch
	if n := len(s.fetches); n > 0 {
		f = s.fetches[n-1]
		s.fetches = s.fetches[:n-1]
	} else {
		f = &fetch{}
		f.stream.fetch = f
		f.timer.fire = func() { s.beginReply(f) }
		f.read.Done = func(*disk.Read) { s.fetchRead(f) }
	}
	f.conn, f.id = k, req
	f.have, f.at, f.started, f.begun, f.over = 0, 0, false, false, false
	k.waits++
	f.prevOf, f.nextOf = nil, k.fetches
	if k.fetches != nil {
		k.fetches.prevOf = f
	}
	k.fetches = f
	return f
}

// endFetch forgets f; a read that is under way finishes first.
func (s *Shard) endFetch(f *fetch) {
	s.timers.clear(&f.timer)
	f.dequeue()
	for i := range f.parts {
		f.parts[i].delist()
	}
	if f.prevOf != nil {
		f.prevOf.nextOf = f.nextOf
	} else {
		f.conn.fetches = f.nextOf
	}
	if f.nextOf != nil {
		f.nextOf.prevOf = f.prevOf
	}
	f.conn.waits--
	f.conn, f.nextOf, f.prevOf = nil, nil, nil
	f.over = true
	if !f.reading {
		s.freeFetch(f)
	}
}

func (s *Shard) freeFetch(f *fetch) {
	clear(f.parts)
	f.parts = f.parts[:0]
	s.fetches = append(s.fetches, f)
}

// fetchPart judges one partition of a request.
func (s *Shard) fetchPart(f *fetch, m *frame.FetchPartition) fetchPart {
	part := fetchPart{topic: m.Topic, number: m.Partition, fetch: f, left: int(min(m.MaxBytes, 1<<30))}
	part.cursor.Offset = batch.Offset(m.Offset)
	p, why := s.find(m.Topic, m.Partition)
	switch {
	case why != nil:
		part.code = why.code
	case p.log == nil:
		part.code = frame.ErrInvalidSetting
	case m.Offset < p.start || m.Offset > p.high:
		part.p, part.code = p, frame.ErrOffsetOutOfRange
	default:
		part.p = p
	}
	return part
}

// enough says whether the reply may go now: an error is known, or the bytes asked for are readable.
func (s *Shard) enough(f *fetch) bool {
	for i := range f.parts {
		part := &f.parts[i]
		if part.code != 0 {
			return true
		}
		if part.readable() && s.count(f, part) {
			return true
		}
	}
	return f.have >= f.minBytes
}

// readable says whether there is a record at or after the cursor that may be read.
func (part *fetchPart) readable() bool {
	return part.p.holds(uint64(part.cursor.Offset), part.p.high)
}

// count adds what is readable at part to f.have, and says whether that is enough. What is not in memory always is: a
// reader that is so far behind need not wait.
func (s *Shard) count(f *fetch, part *fetchPart) bool {
	want := f.minBytes - f.have
	if want <= 1 {
		return true
	}
	r := &f.read
	r.From, r.Limit, r.MaxBytes = part.cursor, batch.Offset(part.p.high), int(min(want, pieceBytes))
	if !part.p.log.Read(r) {
		f.reading, f.counting = true, true
		return true
	}
	n := int64(bytesIn(r.Data))
	enough := r.Err != nil || n >= min(want, pieceBytes)
	r.Release()
	f.have += n
	return enough
}

func bytesIn(data [][]byte) (n int) {
	for _, piece := range data {
		n += len(piece)
	}
	return n
}

// enlist lets part wait for records.
func (part *fetchPart) enlist() {
	p := part.p
	part.waiting, part.prev, part.next = true, nil, p.fetchers
	if p.fetchers != nil {
		p.fetchers.prev = part
	}
	p.fetchers = part
}

func (part *fetchPart) delist() {
	if !part.waiting {
		return
	}
	if part.prev != nil {
		part.prev.next = part.next
	} else {
		part.p.fetchers = part.next
	}
	if part.next != nil {
		part.next.prev = part.prev
	}
	part.waiting, part.next, part.prev = false, nil, nil
}

// readable tells those who wait at p that bytes more may be read.
func (s *Shard) readable(p *partition, bytes int64) {
	for part := p.fetchers; part != nil; {
		f, next := part.fetch, part.next
		f.have += bytes
		if f.have >= f.minBytes {
			for next != nil && next.fetch == f { // beginReply takes all of f's parts out
				next = next.next
			}
			s.beginReply(f)
		}
		part = next
	}
	for part := p.subs; part != nil; part = part.next {
		s.wake(part)
	}
}

// beginReply begins the reply with what is readable now.
func (s *Shard) beginReply(f *fetch) {
	s.timers.clear(&f.timer)
	f.begun = true
	for i := range f.parts {
		part := &f.parts[i]
		part.delist()
		if part.code == 0 {
			part.limit = part.p.high
			part.has = part.readable()
		}
	}
	if !f.reading {
		s.enqueue(&f.stream)
	}
}

// stepFetch sends one part of the reply.
func (s *Shard) stepFetch(f *fetch) turn {
	for {
		part := f.current()
		if part == nil {
			s.sendFetch(f, nil, nil, 0, true)
			s.endFetch(f)
			return rests
		}
		r := &f.read
		r.From, r.Limit, r.MaxBytes = part.cursor, batch.Offset(part.limit), f.pieceOf(part)
		if part.cursor.Skip > 0 { // a batch that was begun is finished
			r.Limit = batch.Offset(part.p.high)
		}
		if !part.p.log.Read(r) {
			f.reading = true
			return rests
		}
		sent := s.take(f, part)
		if f.over {
			return rests
		}
		if sent {
			return again
		}
	}
}

// current is the part whose data comes next, nil when no more is to be sent. The middle of a batch always goes on; one batch
// is always allowed, and one of each partition while the reply has room.
func (f *fetch) current() *fetchPart {
	for ; f.at < len(f.parts); f.at++ {
		part := &f.parts[f.at]
		if part.has && (part.cursor.Skip > 0 || !f.started || f.left > 0 && (part.left > 0 || !part.sent)) {
			return part
		}
		part.has = false
	}
	return nil
}

// pieceOf is how much to read for part: within its bounds, but never so little that nothing moves.
func (f *fetch) pieceOf(part *fetchPart) int {
	if part.cursor.Skip > 0 {
		return int(min(pieceBytes, part.rest))
	}
	return max(min(pieceBytes, f.left, part.left), batch.HeaderBytes)
}

// fetchRead is the completion of a read from the disk.
func (s *Shard) fetchRead(f *fetch) {
	f.reading = false
	if f.over {
		f.read.Release()
		s.freeFetch(f)
		return
	}
	if f.counting {
		f.counting = false
		f.read.Release()
	} else {
		s.take(f, f.current())
	}
	if !f.over {
		s.enqueue(&f.stream)
	}
}

// take sends what f.read holds for part. False: nothing was sent, so the reply goes on with another part, or it is over.
func (s *Shard) take(f *fetch, part *fetchPart) bool {
	r := &f.read
	n, inside := bytesIn(r.Data), part.cursor.Skip > 0
	code := s.failedRead(part.p, r)
	switch {
	case code != 0 && inside: // what was sent of the batch cannot be completed
		r.Release()
		s.failWith(f.conn, f.id, &frame.Error{Code: code, First: part.p.start, Last: part.p.high, Text: "the rest of a batch cannot be read"})
		s.endFetch(f)
		return false
	case code != 0:
		part.code, part.has = code, false
		r.Release()
		return false
	case n == 0 && inside:
		broken("partition %d/%d: nothing behind %+v, high watermark %d", part.topic, part.number, part.cursor, part.p.high)
	case n == 0:
		part.p.isEmpty(r)
		part.has = false
		r.Release()
		return false
	}
	next := r.Next
	if next.Skip > 0 && !inside {
		x := s.scratch.walk.whole(r.Data, n, math.MaxInt64)
		switch {
		case x.bytes > 0: // the batch behind them has its own turn
			n, next = int(x.bytes), disk.Cursor{Offset: x.next}
		case f.started && x.open > int64(f.left), part.sent && x.open > int64(part.left):
			part.has = false
			r.Release()
			return false
		}
		part.rest = x.open
	}
	part.rest -= int64(n)
	part.cursor = next
	part.left -= n
	f.left -= n
	f.started, part.sent = true, true
	part.has = part.cursor.Skip > 0 || part.p.holds(uint64(part.cursor.Offset), part.limit)
	last := f.current() == nil
	s.sendFetch(f, part, r.Data, n, last)
	r.Release()
	if last {
		s.endFetch(f)
	}
	return !last
}

// sendFetch sends one frame of the reply: the chunk of part, n bytes in data, and in the last one a chunk for every
// partition that has no data. Cost: one Send for each piece and two more.
func (s *Shard) sendFetch(f *fetch, part *fetchPart, data [][]byte, n int, last bool) {
	payload, flags := 0, frame.FlagReply|frame.FlagMore
	if part != nil {
		payload = frame.FetchChunkFixedBytes + n
	}
	if last {
		flags = frame.FlagReply
		for i := range f.parts {
			if !f.parts[i].sent || f.parts[i].code != 0 {
				payload += frame.FetchChunkFixedBytes
			}
		}
	}
	out := frame.AppendHeader(s.scratch.out[:0], frame.CmdFetch, flags, f.id, payload)
	if part != nil {
		out = part.appendHead(out, n)
		s.send(f.conn, out)
		s.sendPieces(f.conn, data, n)
		out = out[:0]
	}
	for i := range f.parts {
		if last && (!f.parts[i].sent || f.parts[i].code != 0) {
			out = f.parts[i].appendHead(out, 0)
		}
	}
	if len(out) > 0 {
		s.send(f.conn, out)
	}
	s.scratch.out = out[:0]
}

func (part *fetchPart) appendHead(out []byte, n int) []byte {
	c := frame.FetchChunk{Topic: part.topic, Partition: part.number, Error: part.code}
	if part.p != nil {
		c.HighWatermark, c.LogStart = part.p.high, part.p.start
	}
	return c.AppendHead(out, n)
}

// onCancel ends a waiting request. One whose reply is on its way is left alone.
func (s *Shard) onCancel(k *conn, m *frame.Cancel) {
	for f := k.fetches; f != nil; f = f.nextOf {
		if f.id == m.RequestID && !f.begun {
			s.fail(k, f.id, frame.ErrCancelled, "cancelled by CANCEL")
			s.endFetch(f)
			return
		}
	}
}
