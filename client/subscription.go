package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/slipringmq/slipring/frame"
)

// SubscribeOptions of Client.Subscribe. The zero value of each field is its default.
type SubscribeOptions struct {
	Partitions []uint32 // default all
	Start      Position // FromEnd, the default, FromStart or FromOffset

	// Credit is what the broker may send ahead of what was taken: the memory of a subscription. It is renewed by itself.
	CreditRecords int64 // default 65,536
	CreditBytes   int64 // default 4 MiB; one delivery may exceed it

	MaxDecompressedBytes int // of one batch; default 16 MiB or, where that is more, the topic's max record
}

// Subscription receives the records of a topic the moment they become readable. From the end it is at most once: what is
// published while the connection is down passes by (see Gaps). From the start or an offset it goes on where it stood.
type Subscription struct {
	client  *Client
	topic   *topic
	opts    SubscribeOptions
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // something was queued

	mu     sync.Mutex
	queue  []delivery
	queued int64 // bytes in queue
	lost   uint64
	gaps   uint64
	fatal  error

	// The caller's: only one goroutine calls Poll.
	opener opener
	now    delivery
	ready  []Record
}

// delivery is a run of whole batches as it came.
type delivery struct {
	strand    *strand
	session   *session
	partition uint32
	data      []byte
	err       error // instead of data: the strand has ended for good
}

// Subscribe asks for push. When it returns, nothing that is published later is missed.
//
// Errors: ErrUnknownTopic, ErrUnknownPartition, ErrOffsetOutOfRange, ErrConnection.
func (c *Client) Subscribe(ctx context.Context, name string, o SubscribeOptions) (*Subscription, error) {
	op := "subscribe " + name
	if err := validName(op, name); err != nil {
		return nil, err
	}
	t, err := c.refresh(ctx, name)
	if err != nil {
		return nil, err
	}
	setDefault(&o.CreditRecords, 1<<16)
	setDefault(&o.CreditBytes, 4<<20)
	setDefault(&o.MaxDecompressedBytes, ConsumerOptions{}.withDefaults(t.settings).MaxDecompressedBytes)
	s := &Subscription{client: c, topic: t, opts: o, wake: make(chan struct{}, 1), opener: opener{topic: t, limit: o.MaxDecompressedBytes}}
	strands, err := s.strands()
	if err != nil {
		return nil, withOp(op, err)
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	for _, d := range strands {
		first := make(chan error, 1)
		s.running.Add(1)
		if !c.goRun(func() { defer s.running.Done(); d.run(first) }) {
			s.running.Done()
			s.Close()
			return nil, ErrClosed
		}
		select {
		case err = <-first:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			s.Close()
			return nil, withOp(op, err)
		}
	}
	return s, nil
}

// strands splits the subscription: where it must know how far each partition has come, each is subscribed by itself.
func (s *Subscription) strands() ([]*strand, error) {
	start := frame.SubscribeTail
	switch s.opts.Start.kind {
	case atStart:
		start = frame.SubscribeLog
	case atOffset:
		start = frame.SubscribeOffset
	case atTime:
		return nil, errors.New("a subscription begins at the start, the end or an offset; consume from a time instead")
	}
	partitions := s.opts.Partitions
	if partitions == nil {
		if start == frame.SubscribeTail {
			return []*strand{{s: s, partition: frame.AllPartitions, start: start}}, nil
		}
		partitions = s.topic.partitions()
	}
	var all []*strand
	for _, p := range partitions {
		if int(p) >= len(s.topic.owners) {
			return nil, &Error{Code: frame.ErrUnknownPartition, Text: fmt.Sprintf("partition %d; the topic has %d, from 0", p, len(s.topic.owners))}
		}
		all = append(all, &strand{s: s, partition: p, start: start, first: s.opts.Start.offset, next: s.opts.Start.offset})
	}
	return all, nil
}

// Poll waits for records and returns up to limit of them, at least one, all of one partition. They are the caller's.
//
// Errors: ErrCorrupt for a batch that cannot be read, which is skipped; ErrOffsetOutOfRange, ErrUnknownTopic,
// ErrTopicRecreated and ErrClosed are final.
func (s *Subscription) Poll(ctx context.Context, limit int) ([]Record, error) {
	for {
		if n := min(max(limit, 1), len(s.ready)); n > 0 {
			out := s.ready[:n:n]
			s.ready = s.ready[n:]
			return out, nil
		}
		if len(s.now.data) > 0 {
			if err := s.openNext(); err != nil {
				return nil, err
			}
			continue
		}
		if s.take() {
			if s.now.err != nil {
				err := s.now.err
				s.now = delivery{}
				return nil, err
			}
			continue
		}
		s.mu.Lock()
		fatal := s.fatal
		s.mu.Unlock()
		if fatal != nil {
			return nil, fatal
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// openNext decodes one batch of the current delivery and gives its credit back.
func (s *Subscription) openNext() error {
	d := &s.now
	h, n := batchExtent(d.data)
	one := d.data[:n]
	d.data = d.data[n:]
	d.session.giveBack(int64(h.Count), int64(n))
	records, _, _, err := s.opener.open(d.partition, d.strand.first, ^uint64(0), true, one)
	if err != nil {
		return fromFrame(fmt.Sprintf("subscribe %s/%d", s.topic.name, d.partition), corrupt(h.BaseOffset, err))
	}
	s.ready = records
	return nil
}

func (s *Subscription) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return false
	}
	s.now = s.queue[0]
	s.queue[0] = delivery{}
	s.queue = s.queue[1:]
	s.queued -= int64(len(s.now.data))
	if s.now.err != nil {
		s.fatal = s.now.err
	}
	return true
}

// put queues a delivery; false when the broker has sent far more than its credit.
func (s *Subscription) put(d delivery) bool {
	s.mu.Lock()
	queued := s.queued + int64(len(d.data))
	over := queued > 2*s.opts.CreditBytes+int64(len(s.topic.owners)+1)*int64(s.topic.batchMax())
	if !over {
		s.queue, s.queued = append(s.queue, d), queued
	}
	s.mu.Unlock()
	signal(s.wake)
	return !over
}

// Records iterates over the records, one by one, until ctx is done or a final error, which is yielded; after other errors
// the loop may go on.
func (s *Subscription) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			records, err := s.Poll(ctx, 1<<30)
			for i := range records {
				if !yield(&records[i], nil) {
					s.ready = records[i+1:]
					return
				}
			}
			if err != nil && (!yield(nil, err) || !errors.Is(err, ErrCorrupt)) {
				return
			}
		}
	}
}

// Lost is how many records the broker has dropped for this subscription for want of credit, on topics with storage none.
func (s *Subscription) Lost() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Gaps is how often the connection was lost and made again while records from the end were awaited: each time some may
// have passed by.
func (s *Subscription) Gaps() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaps
}

// Close ends the subscription and waits for its goroutines.
func (s *Subscription) Close() error {
	s.cancel()
	s.running.Wait()
	return nil
}
