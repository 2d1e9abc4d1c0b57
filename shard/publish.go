package shard

import (
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// publishing gathers consecutive PUBLISH frames of one read that go to one partition: they become one batch, each record
// with an answer of its own.
type publishing struct {
	conn      *conn
	topic     uint32
	partition uint32
	builder   batch.Builder
	waiting   []published
	out       []byte
}

// published is one record of the batch being gathered.
type published struct {
	id   uint64
	acks frame.Acks
	n    int // charged to the window
}

// publishedMost bounds a gathered batch, bytes: below what is written to a segment on its own.
const publishedMost = 64 << 10

func (s *Shard) onPublish(k *conn, req uint64, payload []byte) {
	var m frame.Publish
	if err := decodePublish(&m, payload); err != nil {
		s.stats.Refused++
		if err != frame.BadPublish || m.Acks != frame.AcksNone {
			s.undecodable(k, req, err)
		}
		return
	}
	g := &s.publishing
	if g.conn != nil && (g.conn != k || g.topic != m.Topic || g.partition != m.Partition || g.builder.Bytes()+len(payload) > publishedMost) {
		s.endPublish()
	}
	r := request{conn: k, id: req, command: frame.CmdPublish, topic: m.Topic, partition: m.Partition, acks: m.Acks}
	p, why := s.admit(&r, batch.HeaderBytes+len(payload))
	if why == nil && uint64(len(m.Key)+len(m.Value)) > uint64(p.topic.settings.MaxRecordBytes) {
		why = refuseTooLarge
	}
	if why == nil {
		why = s.charge(&r, len(payload))
	}
	if why != nil {
		s.refuseRequest(&r, why)
		return
	}
	if g.conn == nil {
		g.conn, g.topic, g.partition = k, m.Topic, m.Partition
		g.builder.Reset(s.wall)
	}
	g.builder.Add(m.Key, m.HasKey, m.Value, nil, s.wall)
	g.waiting = append(g.waiting, published{id: req, acks: m.Acks, n: r.charged})
}

// endPublish makes the gathered records a batch and stages it.
func (s *Shard) endPublish() {
	g := &s.publishing
	if g.conn == nil {
		return
	}
	k := g.conn
	g.conn = nil
	g.out = g.builder.Finish(g.out[:0], batch.Options{})
	header, body := g.out[:batch.HeaderBytes], g.out[batch.HeaderBytes:]
	s.scratch.single[0] = body
	r := request{conn: k, command: frame.CmdPublish, topic: g.topic, partition: g.partition}
	leader := false
	for i := range g.waiting {
		leader = leader || g.waiting[i].acks == frame.AcksLeader
	}
	p, why := s.admit(&r, len(g.out))
	var base uint64
	var time int64
	if why == nil {
		s.scratch.batch, _ = batch.ParseHeader(header) // our own
		base, time, why = s.append(p, header, s.scratch.single[:], leader)
	}
	for i := range g.waiting {
		w := &g.waiting[i]
		r.id, r.acks, r.charged = w.id, w.acks, w.n
		if why != nil {
			s.refuseRequest(&r, why)
			continue
		}
		s.acknowledge(&r, p, base+uint64(i), base+uint64(i)+1, time)
	}
	g.waiting = g.waiting[:0]
}
