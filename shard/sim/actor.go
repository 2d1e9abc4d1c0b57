package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// actor is one client of a campaign: a connection and what it waits for.
type actor struct {
	*Client
	r       *run
	pending []*pending
	subs    []*subModel
}

// pending is one request without its answer.
type pending struct {
	id     uint64
	cmd    frame.Command
	batch  *sentBatch
	stream *streamModel
	topic  *topicModel
	part   *partModel
	data   []byte // of FETCH, joined
}

// subModel is one subscription as its client sees it.
type subModel struct {
	id   uint64
	part *partModel
	data []byte // of a batch that is not whole yet
}

func (a *actor) wait(p *pending) { a.pending = append(a.pending, p) }

// hear takes everything that has arrived.
func (a *actor) hear() error {
	for {
		f, ok := a.Next()
		if !ok {
			return nil
		}
		if err := a.frame(f); err != nil {
			return err
		}
	}
}

func (a *actor) frame(f Reply) error {
	if f.Command == frame.CmdDeliver {
		return a.deliver(f)
	}
	for i, p := range a.pending {
		if p.id != f.RequestID {
			continue
		}
		if f.Command == frame.CmdFetch && f.More() {
			p.data = append(p.data, f.Payload...)
			return nil
		}
		a.pending = append(a.pending[:i], a.pending[i+1:]...)
		return a.answer(p, f)
	}
	for i, s := range a.subs {
		if s.id == f.RequestID && f.Command == frame.CmdError { // its topic is gone, or its offset
			a.subs = append(a.subs[:i], a.subs[i+1:]...)
			return nil
		}
	}
	if f.Error().Code == frame.ErrUnknownSubscription {
		return nil // UNSUBSCRIBE crossed with the end of its subscription, and that answered it
	}
	return fmt.Errorf("%v for request %d, which nobody waits for: %+v", f.Command, f.RequestID, f.Error())
}

func (a *actor) answer(p *pending, f Reply) error {
	if f.Command != p.cmd && f.Command != frame.CmdError {
		return fmt.Errorf("%v was answered %v", p.cmd, f.Command)
	}
	failed := f.Command == frame.CmdError
	switch p.cmd {
	case frame.CmdProduce, frame.CmdPublish:
		return a.r.produced(p, f)
	case frame.CmdFetch:
		if failed {
			return nil
		}
		return a.fetched(append(p.data, f.Payload...))
	case frame.CmdCreateTopic:
		return a.r.created(p.topic, f)
	case frame.CmdDeleteTopic:
		return a.r.deleted(p.topic, f)
	case frame.CmdProducerID:
		var m frame.ProducerIDReply
		if failed {
			return nil
		}
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		return a.r.gotProducer(p.part, m.ProducerID)
	case frame.CmdSubscribe:
		if !failed {
			a.subs = append(a.subs, &subModel{id: p.id, part: p.part})
		}
	}
	return nil
}

// fetched judges the chunks of a reply.
func (a *actor) fetched(payload []byte) error {
	joined := make(map[*partModel][]byte)
	var order []*partModel
	for len(payload) > 0 {
		c, rest, err := frame.NextChunk(payload)
		if err != nil {
			return err
		}
		payload = rest
		t := a.r.model.ids[c.Topic]
		if t == nil || c.Error != 0 {
			continue
		}
		p := t.parts[c.Partition]
		if _, ok := joined[p]; !ok {
			order = append(order, p)
		}
		joined[p] = append(joined[p], c.Data...)
	}
	for _, p := range order {
		if err := a.r.read(p, joined[p]); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) deliver(f Reply) error {
	for _, s := range a.subs {
		if s.id != f.RequestID {
			continue
		}
		var m frame.Deliver
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		s.data = append(s.data, m.Data...)
		if f.More() {
			return nil
		}
		data := s.data
		s.data = nil
		return a.r.read(s.part, data)
	}
	return nil // it ended, and this crossed with the end
}
