package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// sender carries the records of one partition to the broker, in order. Produce fills batches under its lock; its goroutine,
// started by the first record, sends them and deals with what comes back.
//
// A batch gets its sequence when it is first sent and keeps it through every retry, so the broker knows it again. Only a
// batch of which every attempt was answered "not done" may be given another producer id and sequence: the rest would risk
// being stored twice, and fails with ErrOutcomeUnknown instead.
type sender struct {
	p         *Producer
	partition uint32
	wake      chan struct{}

	mu       sync.Mutex
	started  bool
	closed   bool
	open     *outgoing   // being filled; never empty
	ready    []*outgoing // full, oldest first
	replies  []attempt
	flushes  []flushWait
	begun    uint64 // batches opened
	finished uint64 // batches reported

	// The goroutine's own.
	window   []*outgoing // taken from ready, oldest first; at most MaxInFlight
	id       frame.ProducerIDReply
	spoilt   bool   // id's sequence is broken here: a new id is needed
	own      bool   // the id that the partitions share was spoilt here before
	next     uint32 // sequence of the next record
	conn     *conn
	failures int       // attempts in a row without success
	retryAt  time.Time // nothing is sent before
	lastErr  error     // of the latest attempt
	stale    bool      // the broker does not know the topic or partition: ask METADATA
}

type flushWait struct {
	until uint64 // of finished
	done  chan struct{}
}

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

func newSender(p *Producer, partition uint32) *sender {
	return &sender{p: p, partition: partition, wake: make(chan struct{}, 1)}
}

// add puts a record of at most size encoded bytes into the open batch.
func (s *sender) add(r *Record, size int, done func(Result)) error {
	now := time.Now()
	millis := r.UnixMillis
	if millis == 0 {
		millis = now.UnixMilli()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if err := s.p.fatalError(); err != nil {
			return err
		}
		return ErrClosed
	}
	if !s.started {
		if err := s.start(); err != nil {
			return err
		}
	}
	b := s.open
	if b != nil && b.builder.Bytes()+size > s.p.opts.BatchBytes {
		s.ready = append(s.ready, b)
		b = nil
	}
	if b == nil {
		b = newOutgoing(millis, now)
		s.open = b
		s.begun++
		signal(s.wake)
	}
	b.builder.Add(r.Key, r.Key != nil, r.Value, r.Headers, millis)
	if done != nil {
		for len(b.done) < b.records {
			b.done = append(b.done, nil)
		}
		b.done = append(b.done, done)
	}
	b.records++
	b.charged += int64(size)
	return nil
}

func (s *sender) start() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.fatal != nil {
		return s.p.fatal
	}
	if s.p.closed {
		return ErrClosed
	}
	s.p.running.Add(1)
	if !s.p.client.goRun(func() { defer s.p.running.Done(); s.run() }) {
		s.p.running.Done()
		return ErrClosed
	}
	s.started = true
	return nil
}

// flush makes the open batch go and gives a channel that closes when all batches begun so far are reported, nil when they are.
func (s *sender) flush() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == s.begun {
		return nil
	}
	if s.open != nil {
		s.ready = append(s.ready, s.open)
		s.open = nil
	}
	w := flushWait{s.begun, make(chan struct{})}
	s.flushes = append(s.flushes, w)
	signal(s.wake)
	return w.done
}

func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sender) run() {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for s.p.ctx.Err() == nil {
		timer.Reset(s.step(time.Now()))
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.p.ctx.Done():
		}
	}
	s.giveUp(ErrClosed)
}

// step does all that can be done now and says for how long nothing but a wake-up can change that.
func (s *sender) step(now time.Time) time.Duration {
	if err := s.p.fatalError(); err != nil {
		s.giveUp(err)
		return never
	}
	s.takeReplies(now)
	for {
		s.expire(now)
		s.reportSettled()
		if s.spoilt && !s.renew() {
			return s.until(now)
		}
		if !s.admit(now) {
			break
		}
	}
	if s.stale && !s.lookUpTopic(now) {
		return s.until(now)
	}
	s.transmit(now)
	return s.until(now)
}

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

// reportSettled tells the results of the oldest batches, in order. A failed one leaves a hole in the sequence.
func (s *sender) reportSettled() {
	n := 0
	for ; n < len(s.window) && s.window[n].state == settled; n++ {
		b := s.window[n]
		s.spoilt = s.spoilt || b.err != nil && b.stamped
		b.report(s.p, s.partition)
	}
	if n == 0 {
		return
	}
	rest := copy(s.window, s.window[n:])
	clear(s.window[rest:])
	s.window = s.window[:rest]
	s.finish(uint64(n))
}

func (s *sender) finish(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished += n
	keep := s.flushes[:0]
	for _, f := range s.flushes {
		if f.until <= s.finished {
			close(f.done)
		} else {
			keep = append(keep, f)
		}
	}
	s.flushes = keep
}

// renew gives up a spoilt sequence once nothing is in flight under it; false until then. Batches that may be stored fail.
func (s *sender) renew() bool {
	for _, b := range s.window {
		if b.state == inFlight {
			return false
		}
	}
	for _, b := range s.window {
		if b.state == waiting && b.stamped && b.uncertain {
			b.fail(s.wrap(errors.New("an earlier batch of this producer failed")))
		}
		b.stamped = false
	}
	s.id = frame.ProducerIDReply{}
	s.own, s.spoilt = true, false
	s.reportSettled()
	return true
}

// admit moves a batch that is due into the window; false when there is none or no room.
func (s *sender) admit(now time.Time) bool {
	if len(s.window) >= s.p.opts.MaxInFlight {
		return false
	}
	s.mu.Lock()
	var b *outgoing
	switch {
	case len(s.ready) > 0:
		b = s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
	case s.open != nil && s.due(now):
		b = s.open
		s.open = nil
	}
	s.mu.Unlock()
	if b == nil {
		return false
	}
	if err := b.seal(s.p.opts.Compression); err != nil {
		b.fail(s.wrap(err))
	}
	s.window = append(s.window, b)
	return true
}

// due says whether the open batch should go although it is not full.
func (s *sender) due(now time.Time) bool {
	if s.p.opts.Linger > 0 {
		return now.Sub(s.open.born) >= s.p.opts.Linger
	}
	return len(s.window) == 0
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

// until is how long step has nothing to do.
func (s *sender) until(now time.Time) time.Duration {
	d := never
	waits := false
	for _, b := range s.window {
		waits = waits || b.state == waiting
	}
	if len(s.window) > 0 {
		d = min(d, s.window[0].born.Add(s.p.opts.DeliveryTimeout).Sub(now))
	}
	if waits && now.Before(s.retryAt) {
		d = min(d, s.retryAt.Sub(now))
	}
	s.mu.Lock()
	if s.open != nil && s.p.opts.Linger > 0 && len(s.window) < s.p.opts.MaxInFlight {
		d = min(d, s.open.born.Add(s.p.opts.Linger).Sub(now))
	}
	s.mu.Unlock()
	return max(d, 0)
}

// giveUp fails everything that is left.
func (s *sender) giveUp(err error) {
	s.mu.Lock()
	left := append(s.window, s.ready...)
	if s.open != nil {
		left = append(left, s.open)
	}
	s.closed = true
	s.window, s.ready, s.open = nil, nil, nil
	s.mu.Unlock()
	for _, b := range left {
		if b.state == inFlight {
			b.uncertain = true
		}
		if b.state != settled {
			b.fail(s.wrap(err))
		}
		b.report(s.p, s.partition)
	}
	s.finish(uint64(len(left)))
}
