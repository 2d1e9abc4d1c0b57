package client

import (
	"errors"
	"sync"
	"time"

	"github.com/slipringmq/slipring/frame"
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
