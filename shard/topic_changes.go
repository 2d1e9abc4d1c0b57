package shard

import (
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// onCreateTopic stages a new topic; it exists, and is answered, once its entry is durable.
func (s *Shard) onCreateTopic(k *conn, req uint64, m *frame.CreateTopic) {
	set, why := s.checkCreate(m)
	if why == nil {
		why = s.admitMeta()
	}
	if why != nil {
		s.refuse(k, req, why)
		return
	}
	if v, ok := s.see(m.Name); ok {
		s.refuseAfter(v.index, k, req, refuseExists)
		return
	}
	meta := &s.meta
	if len(s.topics.byID)+meta.topics >= s.limits.Topics {
		s.refuse(k, req, refuseTopics)
		return
	}
	if s.topics.partitions+meta.parts+int(m.Partitions) > s.limits.Partitions {
		s.refuse(k, req, refusePartitions)
		return
	}
	id := max(s.topics.nextID, meta.nextID)
	op := metaOp{
		kind: kindCreate, conn: k.id, request: req, command: frame.CmdCreateTopic,
		id: id, name: m.Name, count: m.Partitions, settings: set,
	}
	entry := frame.CreateTopic{Name: m.Name, Partitions: m.Partitions, Settings: set}
	meta.topics++
	meta.parts += int(m.Partitions)
	meta.nextID = id + 1
	if why := s.note(op, entry.Append(le.AppendUint32(s.payload(), id))); why != nil {
		meta.topics--
		meta.parts -= int(m.Partitions)
		s.refuse(k, req, why)
	}
}

var (
	refuseExists     = &refusal{frame.ErrTopicExists, "a topic of this name exists"}
	refuseTopics     = &refusal{frame.ErrLimit, "the broker has as many topics as it may"}
	refusePartitions = &refusal{frame.ErrLimit, "the broker has as many partitions as it may"}
	refuseNoParts    = &refusal{frame.ErrInvalidSetting, "a topic has at least one partition"}
	refuseManyParts  = &refusal{frame.ErrLimit, "a topic has at most 10,000 partitions"}
	refuseMaxRecord  = &refusal{frame.ErrInvalidSetting, "max record is above the broker's limits.max_record"}
	refuseStorage    = &refusal{frame.ErrInvalidSetting, "storage is fixed when the topic is created"}
	refuseJournaled  = &refusal{frame.ErrInvalidSetting, "durability cannot change between sync and the others; create a new topic"}
	refuseDeleted    = &refusal{frame.ErrUnknownTopic, "the topic was deleted"}
)

// checkCreate completes the settings and holds name, count and settings against their bounds.
func (s *Shard) checkCreate(m *frame.CreateTopic) (frame.Settings, *refusal) {
	if err := frame.ValidUserName(m.Name); err != nil {
		return frame.Settings{}, &refusal{frame.CodeOf(err), err.Error()}
	}
	switch {
	case m.Partitions == 0:
		return frame.Settings{}, refuseNoParts
	case m.Partitions > frame.MaxTopicPartitions:
		return frame.Settings{}, refuseManyParts
	}
	return s.checkSettings(s.cfg.Defaults, m.Settings)
}

// checkSettings lays over over base and checks the result.
func (s *Shard) checkSettings(base, over frame.Settings) (frame.Settings, *refusal) {
	if err := over.Validate(); err != nil {
		return base, &refusal{frame.CodeOf(err), err.Error()}
	}
	set := base.Merge(over)
	switch {
	case set.Storage == frame.StorageMemory:
		return base, refuseNotPlanned
	case set.MaxRecordBytes > s.limits.MaxRecordBytes:
		return base, refuseMaxRecord
	}
	return set, nil
}

func (s *Shard) onDeleteTopic(k *conn, req uint64, m *frame.DeleteTopic) {
	if why := s.admitMeta(); why != nil {
		s.refuse(k, req, why)
		return
	}
	v, ok := s.see(m.Name)
	if !ok {
		s.refuseAfter(v.index, k, req, noName(m.Name))
		return
	}
	op := metaOp{kind: kindDelete, conn: k.id, request: req, command: frame.CmdDeleteTopic, id: v.id, name: m.Name}
	payload := le.AppendUint32(le.AppendUint32(s.payload(), v.id), v.count)
	if why := s.note(op, payload); why != nil {
		s.refuse(k, req, why)
	}
}

func (s *Shard) onAlterTopic(k *conn, req uint64, m *frame.AlterTopic) {
	if why := s.admitMeta(); why != nil {
		s.refuse(k, req, why)
		return
	}
	v, ok := s.see(m.Name)
	if !ok {
		s.refuseAfter(v.index, k, req, noName(m.Name))
		return
	}
	set, why := s.checkSettings(v.settings, m.Settings)
	switch {
	case why != nil:
	case set.Storage != v.settings.Storage:
		why = refuseStorage
	case (set.Durability == frame.DurabilitySync) != (v.settings.Durability == frame.DurabilitySync):
		why = refuseJournaled
	}
	if why != nil {
		s.refuse(k, req, why)
		return
	}
	op := metaOp{kind: kindAlter, conn: k.id, request: req, command: frame.CmdAlterTopic, id: v.id, name: m.Name, settings: set}
	if why := s.note(op, set.Append(le.AppendUint32(s.payload(), v.id))); why != nil {
		s.refuse(k, req, why)
	}
}

// alterTopic makes new settings the topic's own; the log learns them at its next segment or sync.
func (s *Shard) alterTopic(t *topic, set frame.Settings) {
	s.topics.retain(&t.settings, -1)
	s.topics.retain(&set, 1)
	t.settings = set
	for i := range t.partitions {
		if p := &t.partitions[i]; p.log != nil {
			p.log.SetOptions(p.options())
		}
	}
}

// deleteTopic takes a topic out of applied state once its deletion is durable. Whoever waits on it is told, and its logs
// are dropped; the tombstone answers for what journal and files still hold of them.
func (s *Shard) deleteTopic(t *topic) {
	s.topics.remove(t)
	s.topics.bury(t.id, uint32(len(t.partitions)))
	for i := range t.partitions {
		p := &t.partitions[i]
		p.deleted = true
		s.abandon(p, frame.Error{Code: frame.ErrUnknownTopic, Outcome: frame.OutcomeUnknown, Text: refuseDeleted.text})
		s.endReaders(p, refuseDeleted)
		if p.log == nil {
			s.partitionGone(p)
			continue
		}
		s.dropping[p.key()] = p
		s.drop(p)
	}
}

// drop stages the end of p's log. A log that takes no entries is left to the tombstone and the next start.
func (s *Shard) drop(p *partition) {
	if _, err := p.log.Drop(s.cfg.Start); err != nil {
		s.report("warn", "dropping a deleted partition waits for the next start", "topic", p.topic.id, "partition", p.number, "error", err)
	}
}

// countGraves counts, after a start, the partitions of deleted topics that disk still knows; it goes on to remove them and
// says Gone. A tombstone without any has no more use.
func (s *Shard) countGraves() {
	for i := range s.topics.tombs {
		t := &s.topics.tombs[i]
		t.left = 0
		for n := range t.count {
			if s.store.Log(disk.Key{Topic: t.id, Partition: n}) != nil {
				t.left++
			}
		}
		if t.left == 0 {
			s.meta.forget = append(s.meta.forget, t.id)
		}
	}
}

// Gone is disk's word that nothing names k any more (disk.Machine).
func (s *Shard) Gone(k disk.Key) {
	if p := s.dropping[k]; p != nil {
		s.partitionGone(p)
		return
	}
	s.tombLess(k.Topic)
}

func (s *Shard) partitionGone(p *partition) {
	delete(s.dropping, p.key())
	s.vacate(p)
	s.tombLess(p.topic.id)
}

// vacate gives p's place to another partition.
func (s *Shard) vacate(p *partition) {
	s.partitions[p.place] = nil
	s.vacant = append(s.vacant, p.place)
}

// tombLess counts one partition of a deleted topic as gone; with the last one the tombstone may go.
func (s *Shard) tombLess(id uint32) {
	t := s.topics.tomb(id)
	if t == nil || t.left == 0 {
		return
	}
	if t.left--; t.left == 0 {
		s.meta.forget = append(s.meta.forget, id)
	}
}
