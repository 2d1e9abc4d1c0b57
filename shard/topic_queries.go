package shard

import (
	"slices"
	"strings"

	"github.com/slipringmq/slipring/frame"
)

// What these answer with is applied state only.

func (s *Shard) onMetadata(k *conn, req uint64, m *frame.Metadata) {
	out := frame.MetadataReply{Endpoints: s.cfg.Endpoints}
	for _, name := range m.Topics {
		out.Topics = append(out.Topics, s.topicMetadata(name))
	}
	s.reply(k, frame.CmdMetadata, req, &out)
}

func (s *Shard) topicMetadata(name string) frame.TopicMetadata {
	t := s.topics.byName[name]
	if t == nil {
		code := noName(name).code
		return frame.TopicMetadata{Error: code, Name: name}
	}
	// One shard owns every partition, and its endpoint is the first of its number.
	endpoint := slices.IndexFunc(s.cfg.Endpoints, func(e frame.Endpoint) bool { return int(e.Shard) == s.cfg.Shard })
	owners := make([]uint16, len(t.partitions))
	for i := range owners {
		owners[i] = uint16(max(endpoint, 0))
	}
	return frame.TopicMetadata{Name: t.name, ID: t.id, Settings: t.settings, Partitions: owners}
}

func (s *Shard) onListTopics(k *conn, req uint64, m *frame.ListTopics) {
	limit := int(m.Limit)
	if limit == 0 {
		limit = frame.MaxListTopics
	}
	from, found := s.topics.search(max(m.After, m.Prefix))
	if found && m.After >= m.Prefix && m.After != "" {
		from++
	}
	var out frame.ListTopicsReply
	for _, t := range s.topics.sorted[from:] {
		if !strings.HasPrefix(t.name, m.Prefix) {
			break
		}
		if len(out.Topics) == limit {
			out.More = true
			break
		}
		out.Topics = append(out.Topics, t.summary())
	}
	s.reply(k, frame.CmdListTopics, req, &out)
}

func (t *topic) summary() frame.TopicSummary {
	sum := frame.TopicSummary{
		Name: t.name, ID: t.id, Partitions: uint32(len(t.partitions)),
		Storage: t.settings.Storage, Durability: t.settings.Durability,
	}
	for i := range t.partitions {
		p := &t.partitions[i]
		if p.log != nil {
			sum.Records += p.high - min(p.start, p.high)
			sum.Bytes += uint64(p.log.Bytes())
		}
	}
	return sum
}

func (s *Shard) onDescribeTopic(k *conn, req uint64, m *frame.DescribeTopic) {
	t := s.topics.byName[m.Name]
	if t == nil {
		s.refuse(k, req, noName(m.Name))
		return
	}
	out := frame.DescribeTopicReply{Name: t.name, ID: t.id, Settings: t.settings, Partitions: make([]frame.PartitionInfo, len(t.partitions))}
	for i := range t.partitions {
		out.Partitions[i] = s.describe(&t.partitions[i])
	}
	s.reply(k, frame.CmdDescribeTopic, req, &out)
}

func (s *Shard) describe(p *partition) frame.PartitionInfo {
	info := frame.PartitionInfo{
		Partition: p.number, Shard: uint32(s.cfg.Shard), Epoch: s.cfg.Start,
		LogStart: p.start, LogEnd: p.next, DurableEnd: p.durable, HighWatermark: p.high,
	}
	if p.fenced != nil || s.failed != nil && p.log != nil {
		info.Error = frame.ErrFenced
	}
	if p.log != nil {
		info.Bytes, info.Segments = uint64(p.log.Bytes()), uint32(p.log.Segments())
	}
	return info
}
