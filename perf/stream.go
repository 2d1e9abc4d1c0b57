package perf

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Stream measures batched producing through the client: throughput and the latency of acknowledgements. It uses Size, Batch
// (records that a batch holds at most), Connections, Partitions, Duration, Count, Warmup, Rate, Acks and Codec.
func Stream(ctx context.Context, c Config) (*Report, error) {
	r := newReport("stream", &c)
	admin, err := client.Connect(ctx, c.Connect)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	t, err := newTopic(ctx, admin, "stream", c.Partitions, client.Settings{})
	if err != nil {
		return nil, err
	}
	defer t.remove(ctx)

	running, cancel := context.WithTimeout(ctx, c.Warmup+c.Duration)
	defer cancel()
	begin := time.Now()
	s := &streamRun{c: &c, t: t, begin: begin, measureFrom: begin.Add(c.Warmup), latency: sharedLatency{l: newLatency()}}
	var wait sync.WaitGroup
	for i := range c.Connections {
		wait.Go(func() { s.fail(s.connection(running, i)) })
	}
	wait.Wait()
	if err := s.err; err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	r.Acks = s.acks
	r.Latency = s.latency.l.quantiles()
	r.Records = s.acked.Load()
	r.Bytes = r.Records * uint64(c.Size)
	r.WireBytes = s.wire.Load()
	r.finish(time.Since(s.measureFrom))
	return r, nil
}

type streamRun struct {
	c           *Config
	t           *topic
	begin       time.Time
	measureFrom time.Time
	latency     sharedLatency
	offered     atomic.Int64
	acked, wire atomic.Uint64

	mu   sync.Mutex
	acks string
	err  error
}

func (s *streamRun) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil {
		s.err = err
	}
}

// Without a rate the latency of every record would measure the queue in the client, so only one in so many is timed.
const timedOneIn = 100

func (s *streamRun) connection(ctx context.Context, index int) error {
	cl, err := client.Connect(ctx, s.c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	o := client.ProducerOptions{Acks: s.c.Acks, Compression: s.c.Codec, Partitioner: client.RoundRobin(), Linger: time.Millisecond,
		BatchBytes: s.c.Batch * (s.c.Size + 16), OnBatch: s.note}
	p, err := cl.Producer(ctx, s.t.name, o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.acks = p.Acks().String()
	s.mu.Unlock()
	record := client.Record{Value: payload(s.c.Size)}
	plan := newSchedule(s.begin, s.c.Rate, s.c.Connections, index)
	for n := 0; ; n++ {
		if s.c.Count > 0 && s.offered.Add(1) > int64(s.c.Count) {
			break
		}
		due, ok := plan.next(ctx)
		if !ok {
			break
		}
		var done func(client.Result)
		if (s.c.Rate > 0 || n%timedOneIn == 0) && due.After(s.measureFrom) {
			done = func(r client.Result) {
				if r.Err == nil {
					s.latency.record(time.Since(due))
				}
			}
		}
		if err := p.Produce(ctx, &record, done); err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return p.Close(closing)
}

// note counts what is acknowledged during the measured part.
func (s *streamRun) note(b client.BatchResult) {
	if b.Err != nil || time.Now().Before(s.measureFrom) {
		return
	}
	s.acked.Add(uint64(b.Records))
	s.wire.Add(uint64(b.Bytes))
}
