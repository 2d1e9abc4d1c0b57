package shard

import (
	"fmt"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// replayMeta applies one entry of meta after a start.
func (s *Shard) replayMeta(e *disk.Entry) error {
	s.meta.index = e.Index
	p := e.Payload
	if len(p) < 5 || p[0] != metaVersion {
		return fmt.Errorf("shard: meta entry %d of kind %d does not parse", e.Index, e.Kind)
	}
	p = p[1:]
	id, rest := le.Uint32(p), p[4:]
	op := metaOp{kind: e.Kind, id: id}
	var err error
	switch e.Kind {
	case kindCreate:
		var m frame.CreateTopic
		err = m.Decode(rest)
		op.name, op.count, op.settings = m.Name, m.Partitions, m.Settings
		if err == nil && (m.Settings.Mask != frame.SetAll || m.Partitions == 0 || m.Partitions > frame.MaxTopicPartitions) {
			err = errState
		}
	case kindAlter:
		err = op.settings.Decode(rest)
	case kindDelete:
		if len(rest) != 4 {
			err = errState
			break
		}
		op.count = le.Uint32(rest)
	case kindForget:
	case kindProducers:
		if len(p) != 8 {
			err = errState
			break
		}
		op.value = le.Uint64(p)
	default:
		err = fmt.Errorf("a kind that this version does not know")
	}
	if err != nil {
		return fmt.Errorf("shard: meta entry %d of kind %d: %w", e.Index, e.Kind, err)
	}
	s.redoMeta(&op)
	return nil
}

// redoMeta changes the tables only; logs are joined when all is recovered.
func (s *Shard) redoMeta(op *metaOp) {
	switch op.kind {
	case kindCreate:
		s.topics.add(s.newTopic(op.id, op.name, op.count, op.settings))
	case kindDelete:
		if t := s.topics.byID[op.id]; t != nil {
			s.topics.remove(t)
			for i := range t.partitions {
				s.vacate(&t.partitions[i])
			}
		}
		s.topics.bury(op.id, op.count)
	case kindAlter:
		if t := s.topics.byID[op.id]; t != nil {
			s.topics.retain(&t.settings, -1)
			s.topics.retain(&op.settings, 1)
			t.settings = op.settings
		}
	case kindForget:
		s.topics.unbury(op.id)
	case kindProducers:
		s.meta.given = max(s.meta.given, op.value)
	}
}

// Snapshot of meta, version 1, little-endian:
//
//	u8 version | u32 next topic id | u64 end of the producer ids given away
//	| u32 tombstones, each u32 id, u32 partitions
//	| u32 topics by name, each u32 id, u32 length and CREATE TOPIC's payload
func (s *Shard) snapshotMeta(dst []byte) []byte {
	t := &s.topics
	dst = append(dst, metaVersion)
	dst = le.AppendUint32(dst, t.nextID)
	dst = le.AppendUint64(dst, s.meta.given)
	dst = le.AppendUint32(dst, uint32(len(t.tombs)))
	for _, x := range t.tombs {
		dst = le.AppendUint32(le.AppendUint32(dst, x.id), x.count)
	}
	dst = le.AppendUint32(dst, uint32(len(t.sorted)))
	for _, x := range t.sorted {
		dst = le.AppendUint32(dst, x.id)
		at := len(dst)
		m := frame.CreateTopic{Name: x.name, Partitions: uint32(len(x.partitions)), Settings: x.settings}
		dst = m.Append(append(dst, 0, 0, 0, 0))
		le.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst
}

func (s *Shard) restoreMeta(p []byte) error {
	const fixed = 1 + 4 + 8 + 4
	if len(p) < fixed || p[0] != metaVersion {
		return errState
	}
	nextID, given, tombs := le.Uint32(p[1:]), le.Uint64(p[5:]), le.Uint32(p[13:])
	p = p[fixed:]
	for range tombs {
		if len(p) < 8 {
			return errState
		}
		s.topics.bury(le.Uint32(p), le.Uint32(p[4:]))
		p = p[8:]
	}
	if len(p) < 4 {
		return errState
	}
	n := le.Uint32(p)
	p = p[4:]
	for range n {
		if len(p) < 8 || uint64(le.Uint32(p[4:])) > uint64(len(p)-8) {
			return errState
		}
		id, end := le.Uint32(p), 8+int(le.Uint32(p[4:]))
		var m frame.CreateTopic
		if err := m.Decode(p[8:end]); err != nil {
			return err
		}
		if m.Partitions == 0 || m.Partitions > frame.MaxTopicPartitions || m.Settings.Mask != frame.SetAll {
			return errState
		}
		s.topics.add(s.newTopic(id, m.Name, m.Partitions, m.Settings))
		p = p[end:]
	}
	if len(p) != 0 {
		return errState
	}
	s.topics.nextID, s.meta.given = max(s.topics.nextID, nextID), given
	return nil
}
