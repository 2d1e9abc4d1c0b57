package shard

import (
	"errors"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// request is one PRODUCE or PUBLISH on its way to an answer.
type request struct {
	conn      *conn
	id        uint64
	command   frame.Command // of the reply
	topic     uint32
	partition uint32
	acks      frame.Acks
	charged   int // bytes of the connection's window that the answer gives back
}

// onProduce handles a PRODUCE frame that lies whole in the received bytes.
func (s *Shard) onProduce(k *conn, h frame.Header, payload []byte) {
	if h.More() || s.continues(k, h.RequestID) {
		u := s.uploadFor(k, h)
		if u != nil && s.uploadBytesOf(k, u, payload) {
			s.uploadPart(k, u, h.More())
		}
		return
	}
	var m frame.Produce
	if err := decodeProduce(&m, payload); err != nil {
		s.goAway(k, h.RequestID, frame.CodeOf(err), err.Error())
		return
	}
	r := request{conn: k, id: h.RequestID, command: frame.CmdProduce, topic: m.Topic, partition: m.Partition, acks: m.Acks}
	if why := s.charge(&r, len(m.Batch)); why != nil {
		s.refuseRequest(&r, why)
		return
	}
	s.scratch.single[0] = m.Batch[batch.HeaderBytes:]
	s.produce(&r, m.Batch, s.scratch.single[:])
}

func (s *Shard) continues(k *conn, id uint64) bool {
	for _, u := range k.uploads {
		if u.id == id {
			return true
		}
	}
	return false
}

// charge takes n bytes from the connection's produce window. A batch larger than the window passes alone.
func (s *Shard) charge(r *request, n int) *refusal {
	if r.conn.window > 0 && r.conn.window+n > s.limits.ProduceWindow {
		return refuseWindow
	}
	r.conn.window += n
	r.charged = n
	return nil
}

// refuseRequest answers r with why, unless it wants no answer.
func (s *Shard) refuseRequest(r *request, why *refusal) {
	r.conn.window -= r.charged
	r.charged = 0
	s.stats.Refused++
	if r.acks != frame.AcksNone {
		s.refuse(r.conn, r.id, why)
	}
}

// admit says whether a batch of n bytes, header included, may be appended, by all that can be said without its bytes.
func (s *Shard) admit(r *request, n int) (*partition, *refusal) {
	if s.state != serving {
		return nil, refuseStopping
	}
	p, why := s.find(r.topic, r.partition)
	if why != nil {
		return nil, why
	}
	t := p.topic
	if r.acks == frame.AcksDurable && !t.givesDurable() {
		return nil, refuseDurable
	}
	if uint64(n) > frame.MaxBatchBytes(t.settings.MaxRecordBytes) {
		return nil, refuseTooLarge
	}
	if t.settings.Storage == frame.StorageNone {
		return p, nil
	}
	switch {
	case s.failed != nil:
		return nil, s.refuseFailure()
	case p.fenced != nil:
		return nil, refuseFenced
	case s.stall && !fault.On(fault.Rule30NoStall):
		return nil, refuseStalled
	}
	if err := p.log.Room(n); err != nil {
		return nil, refuseDisk(err)
	}
	return p, nil
}

// find returns the partition of an id.
func (s *Shard) find(topic, partition uint32) (*partition, *refusal) {
	t := s.topics.byID[topic]
	if t == nil {
		return nil, refuseNoTopic
	}
	if partition >= uint32(len(t.partitions)) {
		return nil, refusePartition
	}
	return &t.partitions[partition], nil
}

// refuseDisk turns an answer of the store into one for the peer.
func refuseDisk(err error) *refusal {
	switch {
	case errors.Is(err, disk.ErrBusy):
		return refuseBusy
	case errors.Is(err, disk.ErrFenced):
		return refuseFenced
	case errors.Is(err, disk.ErrFailed):
		return refuseFailed
	case errors.Is(err, disk.ErrTooLarge):
		return refuseTooLarge
	case errors.Is(err, disk.ErrClosing):
		return refuseStopping
	}
	return refuseInternal
}

var refuseCorrupt = [...]struct {
	err error
	*refusal
}{
	{batch.ErrHeaderCRC, &refusal{frame.ErrCorrupt, batch.ErrHeaderCRC.Error()}},
	{batch.ErrBodyCRC, &refusal{frame.ErrCorrupt, batch.ErrBodyCRC.Error()}},
	{batch.ErrBodyBytes, &refusal{frame.ErrCorrupt, batch.ErrBodyBytes.Error()}},
	{batch.ErrVersion, &refusal{frame.ErrCorrupt, batch.ErrVersion.Error()}},
	{batch.ErrAttributes, &refusal{frame.ErrCorrupt, batch.ErrAttributes.Error()}},
	{batch.ErrReserved, &refusal{frame.ErrCorrupt, batch.ErrReserved.Error()}},
	{batch.ErrCount, &refusal{frame.ErrCorrupt, batch.ErrCount.Error()}},
	{batch.ErrProducer, &refusal{frame.ErrCorrupt, batch.ErrProducer.Error()}},
	{batch.ErrTime, &refusal{frame.ErrCorrupt, batch.ErrTime.Error()}},
	{batch.ErrRecord, &refusal{frame.ErrCorrupt, batch.ErrRecord.Error()}},
	{batch.ErrDelta, &refusal{frame.ErrCorrupt, batch.ErrDelta.Error()}},
	{batch.ErrTrailing, &refusal{frame.ErrCorrupt, batch.ErrTrailing.Error()}},
	{batch.ErrRecordSize, &refusal{frame.ErrTooLarge, batch.ErrRecordSize.Error()}},
}

// refuseBatch names what is wrong with the bytes of a batch.
func refuseBatch(err error) *refusal {
	for i := range refuseCorrupt {
		if refuseCorrupt[i].err == err {
			return refuseCorrupt[i].refusal
		}
	}
	return refuseBodyBytes
}

// produce checks a batch, gives it its offsets and stages it; the answer comes when r.acks is fulfilled. header is the 96
// bytes as they came, body the rest in pieces; both are the caller's.
//
// Cost: two CRCs and a copy of the body; no allocation.
func (s *Shard) produce(r *request, header []byte, body [][]byte) {
	n := batch.HeaderBytes
	for _, b := range body {
		n += len(b)
	}
	p, why := s.admit(r, n)
	if why == nil {
		why = s.checkBatch(&s.scratch.batch, header, body, p.topic.settings.MaxRecordBytes)
	}
	if why != nil {
		s.refuseRequest(r, why)
		return
	}
	s.accept(r, p, header, body)
}

// checkBatch parses header into h and checks all that the broker does not take on trust.
func (s *Shard) checkBatch(h *batch.Header, header []byte, body [][]byte, maxRecordBytes uint32) *refusal {
	if err := parseBatch(h, header, body, maxRecordBytes); err != nil {
		return refuseBatch(err)
	}
	if h.Expiry != batch.NoExpiry { // taken in silence it would promise what nothing here keeps
		return refuseExpiry
	}
	return nil
}

// accept judges the sequence of the batch in s.scratch.batch, stages it for p and settles its answer.
func (s *Shard) accept(r *request, p *partition, header []byte, body [][]byte) {
	h := &s.scratch.batch
	if h.ProducerID != batch.NoProducer && p.log != nil {
		if !s.meta.gave(h.ProducerID) {
			s.refuseSequence(r, &frame.Error{Code: frame.ErrUnknownProducer, Text: "this producer id was never given; ask PRODUCER ID"})
			return
		}
		known, e := p.checkSequence(h)
		if e != nil {
			s.refuseSequence(r, e)
			return
		}
		if known != nil {
			s.acknowledgeRepeat(r, p, known)
			return
		}
	}
	base, time, why := s.append(p, header, body, r.acks == frame.AcksLeader)
	if why != nil {
		s.refuseRequest(r, why)
		return
	}
	s.acknowledge(r, p, base, base+uint64(h.Count), time)
}

// append gives the batch in s.scratch.batch its offsets and stages it, or hands it out. promised: its offsets are told to
// somebody before they are durable.
func (s *Shard) append(p *partition, header []byte, body [][]byte, promised bool) (base uint64, time int64, why *refusal) {
	h := &s.scratch.batch
	s.stats.Batches++
	s.stats.Records += uint64(h.Count)
	if p.log == nil {
		base, time = s.handOut(p, header, body)
		return base, time, nil
	}
	if promised || !p.journaled() {
		if why := s.keepCeiling(p, p.next+uint64(h.Count)); why != nil {
			return 0, 0, why
		}
	}
	if why := s.stage(p, h, header, body, promised); why != nil {
		return 0, 0, why
	}
	if !p.journaled() {
		s.raise(p)
	}
	return h.BaseOffset, h.AppendTime, nil
}

// stage stamps the batch and hands it to the log; h then says what was stamped.
func (s *Shard) stage(p *partition, h *batch.Header, header []byte, body [][]byte, promised bool) *refusal {
	stamped := s.scratch.header[:]
	copy(stamped, header)
	h.BaseOffset, h.Epoch, h.AppendTime, h.PartitionTag = p.next, s.cfg.Start, max(p.time, s.wall), p.tag
	batch.Stamp(stamped, h.BaseOffset, h.Epoch, h.AppendTime, h.PartitionTag)
	h.HeaderCRC = le.Uint32(stamped)
	s.scratch.chunks = append(append(s.scratch.chunks[:0], stamped), body...)
	index, err := p.log.Append(s.cfg.Start, h, s.scratch.chunks)
	clear(s.scratch.chunks)
	if err != nil {
		return refuseDisk(err)
	}
	p.staged(index, h, promised, s.limits.Producers)
	return nil
}

// acknowledge answers r for the records from base up to next: at once, or when the flush that r.acks asks for is done.
func (s *Shard) acknowledge(r *request, p *partition, base, next uint64, time int64) {
	w := waiter{
		conn: r.conn.id, request: r.id, command: r.command, charged: int32(r.charged),
		base: base, next: next, time: time,
	}
	switch {
	case r.acks == frame.AcksNone:
		r.conn.window -= r.charged
	case r.acks == frame.AcksLeader && next <= p.ceiling, fault.On(fault.AckBeforeFlush):
		s.settle(p, &w)
	case r.acks == frame.AcksLeader:
		p.wait(w, p.ceilingIndex)
	case p.journaled():
		p.wait(w, p.lastIndex)
	case next <= p.durable:
		s.settle(p, &w)
	default:
		p.atEnd.push(w)
	}
}

// acknowledgeRepeat answers a batch that is there already. Its answer depends on what the first copy's depends on: while
// that is not durable, neither is this one (RULES 7a).
func (s *Shard) acknowledgeRepeat(r *request, p *partition, known *sent) {
	s.stats.Repeats++
	next := known.base + uint64(known.count)
	if r.acks == frame.AcksDurable && (next <= p.durable || fault.On(fault.Rule07RepeatAtOnce)) {
		w := waiter{conn: r.conn.id, request: r.id, command: r.command, charged: int32(r.charged), base: known.base, next: next, time: known.time}
		s.settle(p, &w)
		return
	}
	s.acknowledge(r, p, known.base, next, known.time)
}

// settle sends the answer w stands for.
func (s *Shard) settle(p *partition, w *waiter) {
	k := s.conns[w.conn]
	if k == nil || k.ending {
		return
	}
	k.window -= int(w.charged)
	m := frame.ProduceReply{
		Topic: p.topic.id, Partition: p.number,
		BaseOffset: w.base, AppendTime: w.time, LogStart: p.start,
	}
	out := frame.AppendHeader(s.scratch.out[:0], w.command, frame.FlagReply, w.request, frame.ProduceReplyBytes)
	out = m.Append(out)
	s.scratch.out = out[:0]
	s.send(k, out)
	s.stats.Acks++
}

// giveUp answers w with e: nothing more will be heard of its records.
func (s *Shard) giveUp(w *waiter, e frame.Error) {
	k := s.conns[w.conn]
	if k == nil || k.ending {
		return
	}
	k.window -= int(w.charged)
	s.failWith(k, w.request, &e)
}

func (s *Shard) refuseSequence(r *request, e *frame.Error) {
	r.conn.window -= r.charged
	s.stats.Refused++
	if r.acks != frame.AcksNone {
		s.failWith(r.conn, r.id, e)
	}
}

// checkSequence judges a batch of an idempotent producer by applied and staged state together. known is the batch that h
// repeats; nil, nil lets h pass.
func (p *partition) checkSequence(h *batch.Header) (known *sent, refused *frame.Error) {
	q := p.producers.lookup(h.ProducerID)
	switch {
	case q == nil && h.BaseSequence != 0:
		return nil, &frame.Error{Code: frame.ErrUnknownProducer, Text: "the partition knows nothing of this producer and its sequence does not start at 0"}
	case q == nil:
		return nil, nil
	case h.ProducerEpoch < q.staged.epoch:
		return nil, &frame.Error{Code: frame.ErrProducerFenced, Text: "a newer epoch of this producer has written here"}
	}
	if known := q.staged.find(h); known != nil {
		return known, nil
	}
	want, text := q.staged.expected(), "the sequence does not follow the producer's last batch"
	if h.ProducerEpoch > q.staged.epoch {
		want, text = 0, "a new epoch of a producer begins at sequence 0"
	}
	if h.BaseSequence != want {
		return nil, &frame.Error{Code: frame.ErrSequence, First: uint64(want), Last: uint64(want), Text: text}
	}
	return nil, nil
}
