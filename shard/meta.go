package shard

import (
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
)

// Entries of meta. Payloads are little-endian and begin with a version byte, 1.
//
//	create    u32 id, then CREATE TOPIC's payload with all settings present
//	delete    u32 id, u32 partitions
//	alter     u32 id, then the settings, all present
//	forget    u32 id: the tombstone goes
//	producers u64: producer ids below it have been given away
const (
	kindCreate    = disk.KindShard + 1
	kindDelete    = disk.KindShard + 2
	kindAlter     = disk.KindShard + 3
	kindForget    = disk.KindShard + 4
	kindProducers = disk.KindShard + 5

	metaVersion = 1
)

// metaState is meta's log and what is staged over the applied topicTable. Nothing of it is visible to anybody before its
// entry is durable (RULES 7c), but a later request is judged by both.
type metaState struct {
	log       *disk.Log
	index     uint64 // of the last entry that is durable
	last      uint64 // of the last one staged
	pending   ring[metaOp]
	nextID    uint32
	topics    int // staged change of the counts
	parts     int
	producers uint64   // next producer id, staged
	given     uint64   // ids below it are durably given away
	askers    []asker  // of PRODUCER ID in this turn
	forget    []uint32 // tombstones that may go
}

// metaOp is one staged change, or an answer that depends on one.
type metaOp struct {
	index    uint64
	kind     disk.Kind // 0: an answer only
	conn     uint64
	request  uint64
	command  frame.Command
	id       uint32
	name     string
	count    uint32 // partitions
	settings frame.Settings
	value    uint64 // a producer id to answer with, or the end of those given away
	refused  *refusal
}

type asker struct{ conn, request uint64 }

// begin takes up after recovery.
func (m *metaState) begin() {
	m.index = m.log.NextIndex() - 1
	m.last = m.index
}

// note stages one entry of meta and queues what follows from it.
func (s *Shard) note(op metaOp, payload []byte) *refusal {
	s.scratch.note = payload[:0]
	index, err := s.meta.log.Note(op.kind, s.cfg.Start, payload)
	if err != nil {
		return refuseDisk(err)
	}
	op.index, s.meta.last = index, index
	s.meta.pending.push(op)
	if fault.On(fault.Rule07MetaAtOnce) {
		s.metaDurable(index)
	}
	return nil
}

// payload begins an entry's payload in scratch memory.
func (s *Shard) payload() []byte { return append(s.scratch.note[:0], metaVersion) }

// admitMeta says whether a change of metadata may be staged.
func (s *Shard) admitMeta() *refusal {
	switch {
	case s.state != serving:
		return refuseStopping
	case s.failed != nil:
		return s.refuseFailure()
	case s.meta.pending.len() >= s.limits.MetaPending:
		return refuseBusy
	}
	return nil
}

// view is a topic as the next change of it must see it: applied and staged changes together.
type view struct {
	id       uint32
	count    uint32
	settings frame.Settings
	index    uint64 // of the staged change it depends on, 0: applied only
}

// see looks a name up in the overlay and then in applied state; ok is false when there is no such topic.
func (s *Shard) see(name string) (v view, ok bool) {
	if t := s.topics.byName[name]; t != nil {
		v, ok = view{id: t.id, count: uint32(len(t.partitions)), settings: t.settings}, true
	}
	for i := range s.meta.pending.len() {
		op := s.meta.pending.at(i)
		if op.name != name {
			continue
		}
		switch op.kind {
		case kindCreate:
			v, ok = view{op.id, op.count, op.settings, op.index}, true
		case kindAlter:
			v.settings, v.index = op.settings, op.index
		case kindDelete:
			v, ok = view{index: op.index}, false
		}
	}
	return v, ok
}

// refuseAfter refuses once the staged change that the refusal depends on is durable; at once when it depends on none.
func (s *Shard) refuseAfter(index uint64, k *conn, req uint64, why *refusal) {
	if index == 0 || fault.On(fault.Rule07MetaAtOnce) {
		s.refuse(k, req, why)
		return
	}
	s.meta.pending.push(metaOp{index: s.meta.last, conn: k.id, request: req, refused: why})
}

// metaDurable applies what is durable and answers.
func (s *Shard) metaDurable(index uint64) {
	s.meta.index = max(s.meta.index, index)
	for s.meta.pending.len() > 0 && s.meta.pending.at(0).index <= index {
		op := s.meta.pending.pop()
		s.applyMeta(&op)
		s.answerMeta(&op)
	}
}

func (s *Shard) applyMeta(op *metaOp) {
	switch op.kind {
	case kindCreate:
		t := s.newTopic(op.id, op.name, op.count, op.settings)
		s.topics.add(t)
		s.meta.topics--
		s.meta.parts -= int(op.count)
		for i := range t.partitions {
			s.openPartition(&t.partitions[i])
		}
	case kindDelete:
		if t := s.topics.byID[op.id]; t != nil {
			s.deleteTopic(t)
		}
	case kindAlter:
		if t := s.topics.byID[op.id]; t != nil {
			s.alterTopic(t, op.settings)
		}
	case kindForget:
		s.topics.unbury(op.id)
	case kindProducers:
		s.meta.given = max(s.meta.given, op.value)
	}
}

func (s *Shard) answerMeta(op *metaOp) {
	k := s.conns[op.conn] // none for what nobody asked for
	if k == nil || k.ending {
		return
	}
	switch {
	case op.refused != nil:
		s.refuse(k, op.request, op.refused)
	case op.kind == kindCreate:
		s.reply(k, op.command, op.request, &frame.CreateTopicReply{ID: op.id})
	case op.command == frame.CmdProducerID:
		s.reply(k, op.command, op.request, &frame.ProducerIDReply{ProducerID: op.value})
	default:
		s.replyEmpty(k, op.command, op.request)
	}
}

// metaFailed tells everybody who waits for meta that the outcome is unknown.
func (s *Shard) metaFailed() {
	e := frame.Error{Code: frame.ErrFenced, Outcome: frame.OutcomeUnknown, Text: s.refuseFailure().text}
	for s.meta.pending.len() > 0 {
		op := s.meta.pending.pop()
		if k := s.conns[op.conn]; k != nil && !k.ending {
			s.failWith(k, op.request, &e)
		}
	}
	for _, a := range s.meta.askers {
		if k := s.conns[a.conn]; k != nil && !k.ending {
			s.failWith(k, a.request, &e)
		}
	}
	s.meta.askers = s.meta.askers[:0]
}

// onProducerID queues a wish for a producer id. All wishes of a turn share one entry.
func (s *Shard) onProducerID(k *conn, req uint64) {
	if why := s.admitMeta(); why != nil {
		s.refuse(k, req, why)
		return
	}
	if len(s.meta.askers) >= s.limits.MetaPending {
		s.refuse(k, req, refuseBusy)
		return
	}
	s.meta.askers = append(s.meta.askers, asker{k.id, req})
}

// send stages what gathered in this turn: producer ids to give and tombstones to forget.
func (m *metaState) send(s *Shard) {
	if s.failed != nil || s.state > draining {
		return
	}
	if len(m.askers) > 0 {
		s.giveProducers()
	}
	for len(m.forget) > 0 {
		id := m.forget[len(m.forget)-1]
		if s.note(metaOp{kind: kindForget, id: id}, le.AppendUint32(s.payload(), id)) != nil {
			return
		}
		m.forget = m.forget[:len(m.forget)-1]
	}
}

// gave says whether id may have come from PRODUCER ID. One that a client made up could later be given to another one, whose
// batches would then pass for repeats.
func (m *metaState) gave(id uint64) bool { return id > 1<<32 && id < m.given }

// giveProducers journals that ids are given away; the answers follow when that is durable. The start number in the high
// 32 bits keeps ids of different starts apart whatever was lost.
func (s *Shard) giveProducers() {
	m := &s.meta
	first, n := max(m.producers, m.given, s.cfg.Start<<32+1), len(m.askers)
	op := metaOp{kind: kindProducers, value: first + uint64(n)}
	if why := s.note(op, le.AppendUint64(s.payload(), op.value)); why != nil {
		for _, a := range m.askers {
			if k := s.conns[a.conn]; k != nil && !k.ending {
				s.refuse(k, a.request, why)
			}
		}
		m.askers = m.askers[:0]
		return
	}
	m.producers = op.value
	for _, a := range m.askers {
		m.pending.push(metaOp{index: m.last, conn: a.conn, request: a.request, command: frame.CmdProducerID, value: first})
		first++
	}
	m.askers = m.askers[:0]
}
