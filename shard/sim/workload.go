package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

var le = binary.LittleEndian

// topicsMost and partitionsMost keep a directory small enough to be read whole after each cut.
const (
	topicsMost     = 4
	partitionsMost = 3
)

// act does one thing that a client, or the world, might do.
func (r *run) act() error {
	switch n := r.below(100); {
	case n < 40:
		r.w.Turn(r.below(4))
	case n < 46:
		r.w.Turn(1 << 20)
	case n < 62:
		r.produceSome()
	case n < 74:
		if len(r.streams) > 0 {
			r.pumpStream(r.streams[r.below(len(r.streams))])
		}
	case n < 77:
		if p := r.anyPart(); p != nil && len(r.streams) < 4 {
			a := r.actors[0]
			a.wait(&pending{id: a.Send(frame.CmdProducerID, &frame.Empty{}), cmd: frame.CmdProducerID, part: p})
		}
	case n < 83:
		r.fetchSome()
	case n < 86:
		r.subscribe()
	case n < 88:
		r.credit()
	case n < 91:
		r.createTopic()
	case n < 92:
		r.deleteTopic()
	case n < 94:
		if p := r.anyPart(); p != nil {
			r.say("drop what %d/%d has staged", p.topic.id, p.n)
			r.w.Shard.DropStaged(p.topic.id, p.n)
		}
	case n < 95:
		r.reconnect()
	case n < 97:
		r.w.Advance(int64(r.below(2000)) * 1e6)
	default:
		r.w.Turn(1)
	}
	for _, a := range r.actors {
		if err := a.hear(); err != nil {
			return err
		}
	}
	return nil
}

// anyPart picks a partition of a topic that is certainly there.
func (r *run) anyPart() *partModel {
	n := 0
	for _, t := range r.model.topics {
		if t.live() {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	pick := r.below(n)
	for _, t := range r.model.topics {
		if t.live() {
			if pick == 0 {
				return t.parts[r.below(len(t.parts))]
			}
			pick--
		}
	}
	return nil
}

func (r *run) anyActor() *actor { return r.actors[r.below(len(r.actors))] }

// partBytes is how long the parts of a PRODUCE are.
func (r *run) partBytes() int {
	if r.below(4) == 0 {
		return 256 + r.below(4096)
	}
	return frame.MaxPayload
}

// newBatch makes a batch with a number of its own in its first record.
func (r *run) newBatch(p *partModel, acks frame.Acks, s *streamModel) *sentBatch {
	b := &sentBatch{no: uint64(len(r.model.batches) + 1), part: p, acks: acks, count: uint32(1 + r.below(3))}
	size := 8 + r.below(200)
	switch r.below(16) {
	case 0:
		size = 8 + r.below(6000)
	case 1:
		size = 8<<10 + r.below(16<<10) // goes to its segment directly
	}
	r.value = append(le.AppendUint64(r.value[:0], b.no), filler[:size-8]...)
	r.builder.Reset(r.w.Wall())
	r.builder.Add(nil, false, r.value, nil, r.w.Wall())
	for range b.count - 1 {
		r.builder.Add(r.value[:8], true, r.value[:8], nil, r.w.Wall())
	}
	o := batch.Options{}
	if s != nil {
		o.ProducerID, o.BaseSequence = s.id, s.seq
		b.seq = s.seq
		s.seq += b.count
	}
	b.bytes = r.builder.Finish(nil, o)
	b.crc = le.Uint32(b.bytes[batch.BodyCRCAt:])
	if acks == frame.AcksLeader || !p.topic.sync() {
		p.gaps = true
	}
	r.model.batches = append(r.model.batches, b)
	return b
}

// produceSome sends a few batches or single records to one partition.
func (r *run) produceSome() {
	p, a := r.anyPart(), r.anyActor()
	if p == nil || !a.Open() {
		return
	}
	acks := frame.AcksDurable
	switch r.below(8) {
	case 0:
		acks = frame.AcksNone
	case 1:
		acks = frame.AcksLeader
	}
	for range 1 + r.below(4) {
		b := r.newBatch(p, acks, nil)
		id := a.Produce(p.topic.id, p.n, acks, b.bytes, r.partBytes())
		b.bytes = nil
		if acks != frame.AcksNone {
			a.wait(&pending{id: id, cmd: frame.CmdProduce, batch: b})
		}
	}
}

// produced takes the answer to PRODUCE.
func (r *run) produced(p *pending, f Reply) error {
	b := p.batch
	if f.Command == frame.CmdError {
		e := f.Error()
		if e.Outcome == frame.NotDone && p.stream == nil {
			b.state = refused
		}
		if p.stream != nil {
			return r.heardStream(p.stream, b, f)
		}
		switch e.Code {
		case frame.ErrBusy, frame.ErrStopping, frame.ErrUnknownTopic:
			return nil
		}
		return fmt.Errorf("topic %d/%d: batch %d: %v %s", b.part.topic.id, b.part.n, b.no, e.Code.Name(), e.Text)
	}
	m := f.Produced()
	if b.state == done && b.base != m.BaseOffset {
		return fmt.Errorf("topic %d/%d: batch %d was acknowledged at %d and now at %d", b.part.topic.id, b.part.n, b.no, b.base, m.BaseOffset)
	}
	r.say("batch %d is at %d of %d/%d, acks %v", b.no, m.BaseOffset, b.part.topic.id, b.part.n, b.acks)
	b.state, b.base = done, m.BaseOffset
	if b.acks == frame.AcksDurable {
		if !b.durable {
			b.part.acked = append(b.part.acked, b)
		}
		b.durable = true
		r.stats.acked++
	}
	if err := b.part.tell(m.BaseOffset, b); err != nil {
		return err
	}
	if p.stream != nil {
		return r.heardStream(p.stream, b, f)
	}
	return nil
}

// read judges what a consumer was given. On a sync topic it must be there for good.
func (r *run) read(p *partModel, data []byte) error {
	return r.model.data(p, data, func(h *batch.Header, b *sentBatch) error {
		r.stats.read++
		if p.topic.sync() && !b.durable {
			b.durable, b.base = true, h.BaseOffset
			if b.state == asked {
				b.state = done
			}
			p.acked = append(p.acked, b)
		}
		return nil
	})
}

func (r *run) fetchSome() {
	p, a := r.anyPart(), r.anyActor()
	if p == nil || !a.Open() || len(a.pending) > 50 {
		return
	}
	m := frame.Fetch{MaxWaitMillis: uint32(r.below(50)), MinBytes: uint32(r.below(3000)), MaxBytes: uint32(r.below(100_000))}
	for range 1 + r.below(2) {
		from := p.start
		if p.high > p.start {
			from += uint64(r.below(int(p.high-p.start) + 1))
		}
		m.Partitions = append(m.Partitions, frame.FetchPartition{Topic: p.topic.id, Partition: p.n, Offset: from, MaxBytes: uint32(r.below(100_000))})
		if q := r.anyPart(); q != p {
			p = q
		} else {
			break
		}
	}
	a.wait(&pending{id: a.Send(frame.CmdFetch, &m), cmd: frame.CmdFetch})
}

func (r *run) subscribe() {
	p, a := r.anyPart(), r.anyActor()
	if p == nil || !a.Open() || len(a.subs) > 3 {
		return
	}
	m := frame.Subscribe{Name: p.topic.name, Partition: p.n, Start: frame.SubscribeStart(r.below(2)), Records: int64(r.below(20)), Bytes: int64(r.below(40_000))}
	a.wait(&pending{id: a.Send(frame.CmdSubscribe, &m), cmd: frame.CmdSubscribe, part: p})
}

func (r *run) credit() {
	a := r.anyActor()
	if len(a.subs) == 0 || !a.Open() {
		return
	}
	s := a.subs[r.below(len(a.subs))]
	if r.below(8) > 0 {
		a.SendAs(frame.CmdCredit, s.id, &frame.Credit{Records: int64(r.below(20)), Bytes: int64(r.below(40_000))})
		return
	}
	for i := range a.subs {
		if a.subs[i] == s {
			a.subs = append(a.subs[:i], a.subs[i+1:]...)
			break
		}
	}
	a.SendAs(frame.CmdUnsubscribe, s.id, &frame.Unsubscribe{})
	a.wait(&pending{id: s.id, cmd: frame.CmdUnsubscribe})
}

func (r *run) reconnect() {
	i := r.below(len(r.actors))
	r.actors[i].Hangup()
	r.forget(r.actors[i])
	r.actors[i] = r.newActor()
}

// forget makes what an actor waited for uncertain: no answer will come.
func (r *run) forget(a *actor) {
	for _, p := range a.pending {
		if p.stream != nil {
			p.stream.inFlight--
			p.stream.rewind, p.stream.again = true, false
		}
	}
	a.pending, a.subs = nil, nil
}

func (r *run) createTopic() {
	n := 0
	for _, t := range r.model.topics {
		if !t.gone && t.created != refused {
			n++
		}
	}
	a := r.anyActor()
	if n >= topicsMost || !a.Open() {
		return
	}
	set := frame.Settings{Mask: frame.SetDurability | frame.SetSegmentBytes | frame.SetIntervalMillis, SegmentBytes: 64 << 10, IntervalMillis: 5}
	if r.below(4) == 0 {
		set.Durability = frame.DurabilityInterval
	}
	if r.below(5) == 0 {
		set.Mask |= frame.SetRetentionRecords
		set.RetentionRecords = int64(1 + r.below(40))
	}
	m := frame.CreateTopic{Name: names[r.below(len(names))], Partitions: uint32(1 + r.below(partitionsMost)), Settings: set}
	for _, t := range r.model.topics {
		if t.name == m.Name && !t.gone && t.created != refused {
			return // another one may be there
		}
	}
	t := r.model.newTopic(m.Name, m.Partitions, set)
	a.wait(&pending{id: a.Send(frame.CmdCreateTopic, &m), cmd: frame.CmdCreateTopic, topic: t})
}

var names = [...]string{"orders", "orders.eu", "payments.eu-1", "a", "audit_log", "z9"}

// created takes the answer to CREATE TOPIC.
func (r *run) created(t *topicModel, f Reply) error {
	if f.Command == frame.CmdError {
		t.created = refused
		if e := f.Error(); e.Code != frame.ErrBusy && e.Code != frame.ErrStopping {
			return fmt.Errorf("create %s: %v %s", t.name, e.Code.Name(), e.Text)
		}
		return nil
	}
	var m frame.CreateTopicReply
	if err := m.Decode(f.Payload); err != nil {
		return err
	}
	return r.exists(t, m.ID)
}

// exists notes that t is there under id, which no other topic ever had.
func (r *run) exists(t *topicModel, id uint32) error {
	if old := r.model.ids[id]; old != nil && old != t {
		return fmt.Errorf("topic %s has id %d, which was %s", t.name, id, old.name)
	}
	if t.id != 0 && t.id != id {
		return fmt.Errorf("topic %s has id %d and had %d", t.name, id, t.id)
	}
	r.say("topic %s is %d, %v", t.name, id, t.set.Durability)
	r.model.ids[id] = t
	t.id, t.created = id, done
	return nil
}

func (r *run) deleteTopic() {
	p, a := r.anyPart(), r.anyActor()
	if p == nil || !a.Open() {
		return
	}
	p.topic.deleting = true
	id := a.Send(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: p.topic.name})
	a.wait(&pending{id: id, cmd: frame.CmdDeleteTopic, topic: p.topic})
}

func (r *run) deleted(t *topicModel, f Reply) error {
	if f.Command == frame.CmdError {
		t.deleting = false
		if e := f.Error(); e.Code != frame.ErrBusy && e.Code != frame.ErrStopping {
			return fmt.Errorf("delete %s: %v %s", t.name, e.Code.Name(), e.Text)
		}
		return nil
	}
	r.say("topic %d is deleted", t.id)
	t.gone = true
	return nil
}
