package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// streamModel is one idempotent producer: it sends its batches in order, sends again what was not answered, and must never
// be refused for a sequence that is right.
type streamModel struct {
	id       uint64
	part     *partModel
	seq      uint32
	queue    []*sentBatch // not acknowledged, in order
	inFlight int
	rewind   bool // an answer says that later ones must be sent again
	again    bool // the head was sent again with nothing in flight before it
}

const streamDepth = 4

// gotProducer begins a stream.
func (r *run) gotProducer(p *partModel, id uint64) error {
	if r.producers[id] {
		return fmt.Errorf("producer id %#x was given twice", id)
	}
	r.producers[id] = true
	r.streams = append(r.streams, &streamModel{id: id, part: p})
	return nil
}

// pump lets a stream send: what must be sent again, else something new.
func (r *run) pumpStream(s *streamModel) {
	switch {
	case s.rewind && s.inFlight > 0:
	case s.rewind:
		s.rewind, s.again = false, true
		for _, b := range s.queue {
			r.sendStream(s, b)
		}
	case len(s.queue) < streamDepth:
		b := r.newBatch(s.part, frame.AcksDurable, s)
		s.queue = append(s.queue, b)
		r.sendStream(s, b)
	}
}

func (r *run) sendStream(s *streamModel, b *sentBatch) {
	a := r.actors[0]
	s.inFlight++
	id := a.Produce(s.part.topic.id, s.part.n, b.acks, b.bytes, r.partBytes())
	a.wait(&pending{id: id, cmd: frame.CmdProduce, batch: b, stream: s})
}

// heard takes the answer to one batch of s.
func (r *run) heardStream(s *streamModel, b *sentBatch, f Reply) error {
	s.inFlight--
	if f.Command != frame.CmdError {
		for i, q := range s.queue {
			if q == b {
				s.queue = append(s.queue[:i], s.queue[i+1:]...)
				break
			}
		}
		s.again = false
		return nil
	}
	e := f.Error()
	head := len(s.queue) > 0 && s.queue[0] == b
	switch e.Code {
	case frame.ErrUnknownTopic:
		r.endStream(s)
	case frame.ErrBusy, frame.ErrStopping:
		s.rewind, s.again = true, false
	case frame.ErrSequence, frame.ErrUnknownProducer:
		if head && s.again {
			if !s.part.topic.sync() && e.Code == frame.ErrSequence && e.First > uint64(b.seq) {
				r.stats.holes++ // a later segment outside the journal survived and an earlier one did not
				r.endStream(s)
				return nil
			}
			return fmt.Errorf("topic %d/%d: producer %#x sends sequence %d, all before it are acknowledged, and the broker wants %d: %s", s.part.topic.id, s.part.n, s.id, b.seq, e.First, e.Text)
		}
		s.rewind = true
	default:
		return fmt.Errorf("topic %d/%d: producer %#x: %v %s", s.part.topic.id, s.part.n, s.id, e.Code.Name(), e.Text)
	}
	return nil
}

func (r *run) endStream(s *streamModel) {
	for i, x := range r.streams {
		if x == s {
			r.streams = append(r.streams[:i], r.streams[i+1:]...)
			return
		}
	}
}
