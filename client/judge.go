package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// takeReplies applies what the connections' readers have put down.
func (s *sender) takeReplies(now time.Time) {
	s.mu.Lock()
	replies := s.replies
	s.replies = nil
	s.mu.Unlock()
	for i := range replies {
		a := &replies[i]
		if a.b.attempt == a.number && a.b.state == inFlight {
			s.judge(a, now)
		}
	}
}

// judge decides what the end of an attempt means for its batch.
func (s *sender) judge(a *attempt, now time.Time) {
	b := a.b
	if a.err == nil {
		b.state, b.reply = settled, a.reply
		s.failures, s.lastErr = 0, nil
		return
	}
	b.state = waiting
	s.lastErr = a.err
	e, answered := answer(a.err)
	if !answered || e.Unknown {
		b.uncertain = true
	}
	switch {
	case b.uncertain && !s.p.idempotent && !s.p.opts.NotIdempotent:
		b.fail(s.wrap(a.err)) // nothing would recognise a second copy
	case !answered:
		s.pause(now, 0) // the connection's own backoff comes on top
	case e.Code == frame.ErrSequence || e.Code == frame.ErrUnknownProducer:
		s.judgeSequence(b, e, now)
	case e.Code == frame.ErrUnknownTopic || e.Code == frame.ErrWrongShard:
		s.stale = true
		s.pause(now, e.Delay)
	case e.Retriable:
		s.pause(now, e.Delay)
	default:
		b.fail(s.wrap(e))
	}
}

// judgeSequence: the broker misses batches before this one.
func (s *sender) judgeSequence(b *outgoing, e *Error, now time.Time) {
	if !s.p.idempotent {
		b.fail(s.wrap(e))
		return
	}
	if s.spoilt {
		return // a batch before it has failed for good; renew decides
	}
	for _, earlier := range s.window {
		if earlier == b {
			break
		}
		if earlier.state != settled || earlier.err != nil {
			return // of course: that one was refused or lost; this one follows once more behind it
		}
	}
	ahead := e.Code == frame.ErrSequence && int32(uint32(e.First)-b.sequence) > 0
	switch {
	case ahead, b.uncertain:
		// The broker remembers later batches than this, or nothing: an earlier attempt may be stored.
		b.uncertain = true
		b.fail(s.wrap(e))
	case e.Code == frame.ErrUnknownProducer || s.p.acks != frame.AcksDurable:
		// Forgotten (a long pause, or a crash that took records that were not promised to be durable), and this batch was
		// never stored: it may begin a new sequence.
		s.p.client.opts.Logger.Warn("broker forgot the producer; going on with a new id", "topic", s.p.topic.name, "partition", s.partition, "error", e)
		s.spoilt = true
	default:
		b.fail(fmt.Errorf("records acknowledged as durable are missing at the broker: %w", s.wrap(e)))
	}
}

func (s *sender) wrap(err error) error {
	return withOp(fmt.Sprintf("produce %s/%d", s.p.topic.name, s.partition), err)
}

// pause keeps retries apart: what the broker asked for, or a growing pause with jitter, whichever is longer.
func (s *sender) pause(now time.Time, asked time.Duration) {
	o := &s.p.client.opts
	s.failures++
	at := now.Add(max(asked, jitter(backoff(o.BackoffMin/10, o.BackoffMax, s.failures))))
	if at.After(s.retryAt) {
		s.retryAt = at
	}
}

// expire fails batches whose delivery timeout has passed, oldest first.
func (s *sender) expire(now time.Time) {
	for _, b := range s.window {
		if b.state == settled {
			continue
		}
		if now.Sub(b.born) < s.p.opts.DeliveryTimeout {
			return
		}
		if b.state == inFlight {
			b.uncertain = true
		}
		err := ErrDeliveryTimeout
		if s.lastErr != nil {
			err = fmt.Errorf("%w; the last attempt: %w", err, s.lastErr)
		}
		b.fail(s.wrap(err))
	}
}

// lookUpTopic asks METADATA after the broker did not know the topic; false when the answer must wait or ended everything.
func (s *sender) lookUpTopic(now time.Time) bool {
	if len(s.window) == 0 || now.Before(s.retryAt) {
		return false
	}
	ctx, cancel := s.deadline()
	defer cancel()
	switch err := s.p.checkTopic(ctx); {
	case err == nil:
		s.stale = false
		s.conn = nil // the owner may be another one
		return true
	case errors.Is(err, ErrTopicRecreated), isCode(err, frame.ErrUnknownTopic):
		s.p.fail(err)
		s.giveUp(s.p.fatalError())
	default:
		s.lastErr = err
		s.pause(now, 0)
	}
	return false
}
