package client

import (
	"context"
	"fmt"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// attempt is one PRODUCE request and what came of it.
type attempt struct {
	s      *sender
	b      *outgoing
	number int
	conn   *conn
	bytes  int // taken from the connection's window
	reply  frame.ProduceReply
	err    error
}

// deadline bounds a step by the delivery timeout of the oldest batch.
func (s *sender) deadline() (context.Context, context.CancelFunc) {
	return context.WithDeadline(s.p.ctx, s.window[0].born.Add(s.p.opts.DeliveryTimeout))
}

// transmit sends the waiting batches in order, as far as order allows: nothing overtakes, so a batch waits until whatever
// was sent after it has come back. After a failure one batch goes first and alone: those behind it would only be refused
// with it.
func (s *sender) transmit(now time.Time) {
	if now.Before(s.retryAt) {
		return
	}
	for i, b := range s.window {
		if b.state != waiting {
			continue
		}
		for _, later := range s.window[i+1:] {
			if later.state == inFlight {
				return
			}
		}
		if !s.connect(now) {
			return
		}
		for _, earlier := range s.window[:i] {
			if earlier.state == inFlight && (earlier.conn != s.conn || s.failures > 0) {
				return
			}
		}
		if !b.stamped && !s.stamp(b, now) {
			return
		}
		if !s.sendOne(b) || s.failures > 0 {
			return
		}
	}
}

// connect makes sure of a connection to the partition's owner, or to any shard.
func (s *sender) connect(now time.Time) bool {
	if s.conn != nil && s.conn.alive() {
		return true
	}
	ctx, cancel := s.deadline()
	defer cancel()
	cn, err := s.p.client.connTo(ctx, s.p.owner(s.partition))
	if err != nil {
		s.lastErr = err
		s.retryAt = now.Add(s.p.client.nextAttempt())
		return false
	}
	if cn.hello.DirectoryID != s.p.topic.directory {
		// Another data directory: its topic ids mean other topics.
		s.p.fail(fmt.Errorf("%w (another data directory)", ErrTopicRecreated))
		signal(s.wake)
		return false
	}
	s.conn = cn
	return true
}

// stamp gives a batch its place in the sequence.
func (s *sender) stamp(b *outgoing, now time.Time) bool {
	if !s.p.idempotent {
		return true
	}
	if s.id.ProducerID == batch.NoProducer {
		ctx, cancel := s.deadline()
		defer cancel()
		id, err := s.p.producerID(ctx, s.own)
		if err != nil {
			s.lastErr = err
			s.pause(now, 0)
			return false
		}
		s.id, s.next = id, 0
	}
	if err := b.stamp(s.id, s.next); err != nil {
		b.fail(s.wrap(err))
		signal(s.wake)
		return false
	}
	s.next += uint32(b.records)
	return true
}

// sendOne queues a batch on the connection; false when its window is full or it has just died.
func (s *sender) sendOne(b *outgoing) bool {
	bytes := len(b.buf.b) + frame.ProduceFixedBytes + frame.HeaderBytes
	if !s.conn.window.take(bytes, s.wake) {
		return false
	}
	request := frame.Produce{Topic: s.p.topic.id, Partition: s.partition, Acks: s.p.acks, Batch: b.buf.b}
	b.attempt++
	cn := s.conn
	a := &attempt{s: s, b: b, number: b.attempt, conn: cn, bytes: bytes}
	b.state, b.conn = inFlight, cn
	if s.p.acks == frame.AcksNone {
		cn.sendBatch(cn.unansweredID(), request, b.buf, a.end) // handed to the kernel is all there is to know
		return true
	}
	id, err := cn.register(&call{cmd: frame.CmdProduce, to: a})
	if err != nil {
		b.state = waiting
		cn.window.give(bytes)
		signal(s.wake)
		return false
	}
	cn.sendBatch(id, request, b.buf, nil)
	return true
}

// part implements receiver.
func (a *attempt) part(_ frame.Header, payload []byte) error {
	if err := a.reply.Decode(payload); err != nil {
		return fmt.Errorf("%w: PRODUCE: %v", ErrProtocol, err)
	}
	if a.reply.Topic != a.s.p.topic.id || a.reply.Partition != a.s.partition {
		return fmt.Errorf("%w: PRODUCE answered for another partition", ErrProtocol)
	}
	return nil
}

// end implements receiver.
func (a *attempt) end(err error) {
	a.err = err
	a.conn.window.give(a.bytes)
	a.s.mu.Lock()
	a.s.replies = append(a.s.replies, *a)
	a.s.mu.Unlock()
	signal(a.s.wake)
}
