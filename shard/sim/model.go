package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// model is what the clients of a campaign were told, and what must therefore be true after every recovery.
type model struct {
	topics  []*topicModel // every incarnation ever asked for, in order
	batches []*sentBatch  // by number - 1
	ids     map[uint32]*topicModel
}

// fate is what is known of a thing that a client asked for.
type fate uint8

const (
	asked   fate = iota // no answer yet, or none will come: it may be or not
	done                // answered
	refused             // answered "not done"
)

// topicModel is one incarnation of a name.
type topicModel struct {
	name      string
	id        uint32 // 0: not known yet
	created   fate
	deleting  bool
	gone      bool
	parts     []*partModel
	set       frame.Settings
	retention bool // records may go
}

func (t *topicModel) live() bool { return t.created == done && !t.deleting && !t.gone }

// sync says whether an answer to a durable PRODUCE of the topic comes after its flush and readers see durable records only.
func (t *topicModel) sync() bool { return t.set.Durability == frame.DurabilitySync }

// partModel is one partition of an incarnation.
type partModel struct {
	topic *topicModel
	n     uint32
	told  map[uint64]uint64 // offset → number of the batch that a client was told to be there, or has read there
	start uint64            // greatest log start seen
	high  uint64            // greatest high watermark seen
	acked []*sentBatch      // durable
	gaps  bool              // some offsets were told before they were durable, so gaps are legal
}

// sentBatch is one batch that a client sent, perhaps several times.
type sentBatch struct {
	no      uint64
	part    *partModel
	count   uint32
	crc     uint32
	acks    frame.Acks
	bytes   []byte // of streams, to be sent again
	seq     uint32
	state   fate
	durable bool // its records must be there after any crash
	base    uint64
	found   uint64 // life in which it was found by the current verification
}

// newTopic notes that a topic was asked for.
func (m *model) newTopic(name string, parts uint32, set frame.Settings) *topicModel {
	t := &topicModel{name: name, set: frame.DefaultSettings().Merge(set)}
	t.retention = t.set.RetentionRecords >= 0
	for n := range parts {
		t.parts = append(t.parts, &partModel{topic: t, n: n, told: make(map[uint64]uint64)})
	}
	m.topics = append(m.topics, t)
	return t
}

// tell notes that no lies at base, and checks it against what was told before.
func (p *partModel) tell(base uint64, b *sentBatch) error {
	for i := range uint64(b.count) {
		if old, ok := p.told[base+i]; ok && old != b.no {
			return fmt.Errorf("topic %d/%d: offset %d is batch %d and was batch %d", p.topic.id, p.n, base+i, b.no, old)
		}
		p.told[base+i] = b.no
	}
	return nil
}

// numberOf reads the number of the batch from its first record.
func numberOf(h *batch.Header, body []byte) (uint64, error) {
	var r batch.Reader
	r.Reset(h, body)
	rec, ok := r.Next()
	if !ok || len(rec.Value) < 8 {
		return 0, fmt.Errorf("batch at %d is none of ours", h.BaseOffset)
	}
	return le.Uint64(rec.Value), nil
}

// check judges one batch that a reader of p was given.
func (m *model) check(p *partModel, h *batch.Header, body []byte) (*sentBatch, error) {
	if err := batch.CheckBody(h, body); err != nil {
		return nil, fmt.Errorf("topic %d/%d offset %d: %w", p.topic.id, p.n, h.BaseOffset, err)
	}
	no, err := numberOf(h, body)
	if err != nil {
		return nil, err
	}
	if no == 0 || no > uint64(len(m.batches)) {
		return nil, fmt.Errorf("topic %d/%d offset %d: batch %d was never sent", p.topic.id, p.n, h.BaseOffset, no)
	}
	b := m.batches[no-1]
	switch {
	case b.part != p:
		return nil, fmt.Errorf("topic %d/%d offset %d: batch %d was sent to topic %d/%d", p.topic.id, p.n, h.BaseOffset, no, b.part.topic.id, b.part.n)
	case b.count != h.Count || b.crc != h.BodyCRC:
		return nil, fmt.Errorf("topic %d/%d offset %d: batch %d was changed", p.topic.id, p.n, h.BaseOffset, no)
	case b.state == refused:
		return nil, fmt.Errorf("topic %d/%d offset %d: batch %d was answered as not done", p.topic.id, p.n, h.BaseOffset, no)
	case b.state == done && b.base != h.BaseOffset:
		return nil, fmt.Errorf("topic %d/%d: batch %d is at %d and was acknowledged at %d", p.topic.id, p.n, no, h.BaseOffset, b.base)
	}
	return b, p.tell(h.BaseOffset, b)
}

// data judges a run of whole batches that a reader was given.
func (m *model) data(p *partModel, d []byte, each func(*batch.Header, *sentBatch) error) error {
	for len(d) > 0 {
		h, body, rest, err := batch.Next(d)
		if err != nil {
			return fmt.Errorf("topic %d/%d: %w", p.topic.id, p.n, err)
		}
		b, err := m.check(p, &h, body)
		if err == nil && each != nil {
			err = each(&h, b)
		}
		if err != nil {
			return err
		}
		d = rest
	}
	return nil
}
