package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// verify reads everything after a recovery and compares it with what clients were told.
func (r *run) verify() error {
	if r.w.Report.Damaged() {
		return fmt.Errorf("a power cut was reported as damage:\n%s", r.w.Report)
	}
	c := r.w.Connect()
	defer c.Hangup()
	if err := r.verifyTopics(c); err != nil {
		return err
	}
	for _, t := range r.model.topics {
		if !t.live() {
			continue
		}
		for _, p := range t.parts {
			if err := r.verifyPartition(c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyTopics settles what was uncertain and refuses what is impossible.
func (r *run) verifyTopics(c *Client) error {
	var list frame.ListTopicsReply
	f := c.Call(frame.CmdListTopics, &frame.ListTopics{})
	if f.Command != frame.CmdListTopics {
		return fmt.Errorf("list: %v %+v", f.Command, f.Error())
	}
	if err := list.Decode(f.Payload); err != nil {
		return err
	}
	there := make(map[uint32]string)
	for _, s := range list.Topics {
		there[s.ID] = s.Name
		r.mix(uint64(s.ID))
		if r.model.ids[s.ID] != nil {
			continue
		}
		t := r.uncertain(s.Name)
		if t == nil || len(t.parts) != int(s.Partitions) {
			return fmt.Errorf("topic %s with id %d is there and was not asked for", s.Name, s.ID)
		}
		if err := r.exists(t, s.ID); err != nil {
			return err
		}
	}
	for _, t := range r.model.topics {
		_, is := there[t.id]
		switch {
		case t.gone && t.id != 0 && is:
			return fmt.Errorf("topic %s with id %d was deleted and is back", t.name, t.id)
		case t.gone || t.created == refused:
		case t.created == asked:
			t.gone = true // it was lost with the power; nobody had been told
		case t.deleting && !is:
			t.gone = true
		case !is:
			return fmt.Errorf("topic %s with id %d is lost", t.name, t.id)
		default:
			t.deleting = false
		}
	}
	return nil
}

// uncertain finds the topic of this name whose creation was not answered.
func (r *run) uncertain(name string) *topicModel {
	for _, t := range r.model.topics {
		if t.name == name && t.created == asked && !t.gone {
			return t
		}
	}
	return nil
}

// verifyPartition reads a partition from log start to high watermark: acknowledged batches unchanged at their offsets,
// none twice, no gap that has no reason.
func (r *run) verifyPartition(c *Client, p *partModel) error {
	info, err := r.describe(c, p)
	if err != nil {
		return err
	}
	switch {
	case info.LogStart < p.start:
		return fmt.Errorf("topic %d/%d: log start went back from %d to %d", p.topic.id, p.n, p.start, info.LogStart)
	case info.LogStart > 0 && !p.topic.retention:
		return fmt.Errorf("topic %d/%d: log start is %d and nothing may go", p.topic.id, p.n, info.LogStart)
	case p.topic.sync() && info.HighWatermark < p.high && !p.gaps:
		return fmt.Errorf("topic %d/%d: high watermark went back from %d to %d", p.topic.id, p.n, p.high, info.HighWatermark)
	}
	p.start, p.high = info.LogStart, info.HighWatermark
	r.life++
	next := info.LogStart
	for next < info.HighWatermark {
		at := next
		data, err := r.fetch(c, p, next)
		if err != nil {
			return err
		}
		err = r.model.data(p, data, func(h *batch.Header, b *sentBatch) error {
			if b.found == r.life {
				return fmt.Errorf("topic %d/%d: batch %d is there twice, at %d again", p.topic.id, p.n, b.no, h.BaseOffset)
			}
			if h.BaseOffset > next && !p.gaps {
				return fmt.Errorf("topic %d/%d: offsets %d to %d are missing", p.topic.id, p.n, next, h.BaseOffset)
			}
			b.found = r.life
			next = h.NextOffset()
			r.mix(b.no)
			r.mix(h.BaseOffset)
			return nil
		})
		if err != nil {
			return err
		}
		if next == at {
			break // nothing up to the ceiling that the start resumed at
		}
	}
	for _, b := range p.acked {
		if b.base >= info.LogStart && b.found != r.life {
			return fmt.Errorf("LOST: topic %d/%d: batch %d was acknowledged at %d and is not there", p.topic.id, p.n, b.no, b.base)
		}
	}
	return nil
}

func (r *run) describe(c *Client, p *partModel) (frame.PartitionInfo, error) {
	f := c.Call(frame.CmdDescribeTopic, &frame.DescribeTopic{Name: p.topic.name})
	var m frame.DescribeTopicReply
	if f.Command != frame.CmdDescribeTopic {
		return frame.PartitionInfo{}, fmt.Errorf("describe %s: %v %+v", p.topic.name, f.Command, f.Error())
	}
	if err := m.Decode(f.Payload); err != nil {
		return frame.PartitionInfo{}, err
	}
	info := m.Partitions[p.n]
	if info.Error != 0 {
		return info, fmt.Errorf("topic %d/%d is %v", p.topic.id, p.n, info.Error.Name())
	}
	return info, nil
}

func (r *run) fetch(c *Client, p *partModel, offset uint64) ([]byte, error) {
	m := frame.Fetch{MaxBytes: 4 << 20, Partitions: []frame.FetchPartition{{Topic: p.topic.id, Partition: p.n, Offset: offset, MaxBytes: 4 << 20}}}
	f := c.Call(frame.CmdFetch, &m)
	if f.Command != frame.CmdFetch {
		return nil, fmt.Errorf("topic %d/%d: fetch at %d: %v %+v", p.topic.id, p.n, offset, f.Command, f.Error())
	}
	var data []byte
	for payload := f.Payload; len(payload) > 0; {
		chunk, rest, err := frame.NextChunk(payload)
		if err != nil {
			return nil, err
		}
		if chunk.Error != 0 {
			return nil, fmt.Errorf("topic %d/%d: fetch at %d: %v", p.topic.id, p.n, offset, chunk.Error.Name())
		}
		data = append(data, chunk.Data...)
		payload = rest
	}
	return data, nil
}
