package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/slipringmq/slipring/frame"
)

// Consumer reads partitions of one topic, each in offset order. The next records are on their way while the last ones are
// handled; memory is bounded by about three replies of MaxBytes per shard, and what they inflate to.
type Consumer struct {
	client   *Client
	topic    *topic
	opts     ConsumerOptions
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	runs     chan run // from the fetchers; bounded: a slow caller stops the fetching
	fetchers []*fetcher

	mu    sync.Mutex
	parts map[uint32]*cursor

	// The caller's: only one goroutine calls Poll.
	now   run
	ended int // cursors that have reached their end, or failed on the way (UntilEnd)
	fatal error
}

// cursor is where one partition stands. Consumer.mu guards it.
type cursor struct {
	partition uint32
	fetcher   *fetcher
	next      uint64 // offset to ask for
	end       uint64 // of UntilEnd, 0 without; set before the fetcher starts
	seeks     int    // grows by Seek: what was asked for before is dropped
	paused    bool   // after an error or at the end; Seek goes on
	ended     bool   // the caller has been told
}

// below is the first offset that is not wanted.
func (c *cursor) below() uint64 {
	if c.end == 0 {
		return ^uint64(0)
	}
	return c.end
}

// run is what a fetcher hands over: records of one partition, or an error of it, or its end.
type run struct {
	cursor  *cursor
	seeks   int
	records []Record
	err     error
	end     bool
	fatal   bool // err concerns the whole consumer
}

// Consumer opens a consumer. It does not commit anything: where to begin is the caller's to say.
//
// Errors: ErrUnknownTopic, ErrUnknownPartition, ErrConnection.
func (c *Client) Consumer(ctx context.Context, name string, o ConsumerOptions) (*Consumer, error) {
	op := "consume " + name
	if err := validName(op, name); err != nil {
		return nil, err
	}
	t, err := c.refresh(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Consumer{client: c, topic: t, opts: o.withDefaults(t.settings), runs: make(chan run, 1), parts: map[uint32]*cursor{}}
	if s.opts.Partitions == nil {
		s.opts.Partitions = t.partitions()
	}
	s.opts.Partitions = slices.Compact(slices.Sorted(slices.Values(s.opts.Partitions)))
	for _, p := range s.opts.Partitions {
		if int(p) >= len(t.owners) {
			return nil, &Error{Op: op, Code: frame.ErrUnknownPartition, Text: fmt.Sprintf("partition %d; the topic has %d, from 0", p, len(t.owners))}
		}
		s.parts[p] = &cursor{partition: p}
	}
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	for _, f := range s.group() {
		s.running.Add(1)
		if !c.goRun(func() { defer s.running.Done(); f.run() }) {
			s.running.Done()
			s.Close()
			return nil, ErrClosed
		}
	}
	return s, nil
}

// locate resolves where each partition begins and, for UntilEnd, ends.
func (s *Consumer) locate(ctx context.Context) error {
	var kind frame.OffsetKind
	var millis int64
	switch s.opts.Start.kind {
	case unset, atStart:
		kind = frame.OffsetStart
	case atEnd:
		kind = frame.OffsetEnd
	case atTime:
		kind, millis = frame.OffsetByTime, s.opts.Start.time.UnixMilli()
	}
	if s.opts.Start.kind == atOffset {
		for _, cur := range s.parts {
			cur.next = s.opts.Start.offset
		}
	} else if err := s.ask(ctx, kind, millis, func(cur *cursor, offset uint64) { cur.next = offset }); err != nil {
		return err
	}
	if !s.opts.UntilEnd {
		return nil
	}
	return s.ask(ctx, frame.OffsetEnd, 0, func(cur *cursor, offset uint64) {
		cur.end = offset
		if cur.next == offset { // nothing to read; beyond it, the broker says that the offset is out of range
			cur.paused, cur.ended = true, true
			s.ended++
		}
	})
}

func (s *Consumer) ask(ctx context.Context, kind frame.OffsetKind, millis int64, set func(*cursor, uint64)) error {
	answers, err := s.client.listOffsets(ctx, s.topic, s.opts.Partitions, kind, millis)
	if err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		if a.Error != 0 {
			return s.partitionError(a.Partition, &frame.Error{Code: a.Error, Retriable: a.Error.Retriable()})
		}
		set(s.parts[a.Partition], a.Offset)
	}
	return nil
}

func (s *Consumer) partitionError(partition uint32, e *frame.Error) *Error {
	if e.Text == "" {
		e.Text = e.Code.String() + "; " + e.Code.Advice()
	}
	return fromFrame(fmt.Sprintf("consume %s/%d", s.topic.name, partition), e)
}

// group makes one fetcher per address that owns partitions.
func (s *Consumer) group() []*fetcher {
	byOwner := map[string]*fetcher{}
	for _, p := range s.opts.Partitions {
		owner := s.topic.owners[p]
		f := byOwner[owner]
		if f == nil {
			f = &fetcher{c: s, wake: make(chan struct{}, 1), opener: opener{topic: s.topic, limit: s.opts.MaxDecompressedBytes}}
			byOwner[owner] = f
			s.fetchers = append(s.fetchers, f)
		}
		cur := s.parts[p]
		cur.fetcher = f
		f.cursors = append(f.cursors, cur)
	}
	return s.fetchers
}

// Poll waits for records and returns up to limit of them, at least one, all of one partition. They are the caller's.
//
// Errors: io.EOF when every partition has reached its end (UntilEnd); an error of one partition, such as
// ErrOffsetOutOfRange, ErrDamaged or ErrCorrupt, pauses that partition until Seek while Poll goes on with the others;
// ErrTopicRecreated, ErrUnknownTopic and ErrClosed are final. Lost connections are not errors: the consumer comes back.
func (s *Consumer) Poll(ctx context.Context, limit int) ([]Record, error) {
	for {
		if n := min(max(limit, 1), len(s.now.records)); n > 0 {
			if s.current(&s.now) {
				out := s.now.records[:n:n]
				s.now.records = s.now.records[n:]
				return out, nil
			}
			s.now = run{}
		}
		if s.fatal != nil {
			return nil, s.fatal
		}
		if s.ended == len(s.parts) {
			return nil, io.EOF
		}
		select {
		case s.now = <-s.runs:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
			return nil, ErrClosed
		}
		if err := s.take(&s.now); err != nil {
			s.now = run{}
			return nil, err
		}
	}
}

// take looks at a new run and gives the error that the caller should see.
func (s *Consumer) take(r *run) error {
	switch {
	case r.fatal:
		s.fatal = r.err
		return r.err
	case !s.current(r):
		r.records = nil
		return nil
	case r.end:
		s.mu.Lock()
		r.cursor.ended = true
		s.mu.Unlock()
		s.ended++
	}
	return r.err
}

// current says whether a run is not from before a Seek.
func (s *Consumer) current(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.cursor != nil && r.seeks == r.cursor.seeks
}

// Records iterates over the records, one by one. It ends at the end (UntilEnd), when ctx is done (with its error) and after
// a final error; other errors are yielded and the loop may go on. The record pointed to is the caller's to keep.
func (s *Consumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			records, err := s.Poll(ctx, 1<<30)
			for i := range records {
				if !yield(&records[i], nil) {
					s.now.records = records[i+1:] // what was not looked at comes first next time
					return
				}
			}
			switch {
			case err == nil:
			case err == io.EOF:
				return
			case ctx.Err() != nil, s.fatal != nil, errors.Is(err, ErrClosed):
				yield(nil, err)
				return
			case !yield(nil, err):
				return
			}
		}
	}
}

// Seek moves a partition: the next record of it that Poll gives has this offset or the first one above it.
func (s *Consumer) Seek(partition uint32, offset uint64) error {
	s.mu.Lock()
	cur := s.parts[partition]
	if cur == nil {
		s.mu.Unlock()
		return &Error{Op: "seek", Code: frame.ErrUnknownPartition, Text: fmt.Sprintf("partition %d is not consumed here", partition)}
	}
	cur.next = offset
	cur.seeks++
	cur.paused = false
	if cur.ended {
		cur.ended = false
		s.ended--
	}
	s.mu.Unlock()
	cur.fetcher.interrupt()
	return nil
}

// Close ends the consumer and waits for its goroutines.
func (s *Consumer) Close() error {
	s.cancel()
	for _, f := range s.fetchers {
		f.interrupt()
	}
	s.running.Wait()
	return nil
}
