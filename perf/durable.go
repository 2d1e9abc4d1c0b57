package perf

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Durable measures the latency of durable acknowledgements: each connection has one small record in flight. It uses Size,
// Connections, Partitions, Duration, Count, Warmup, Rate and Raw.
func Durable(ctx context.Context, c Config) (*Report, error) {
	c.Batch = 1
	r := newReport("durable", &c)
	r.Acks = "durable"
	admin, err := client.Connect(ctx, c.Connect)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	t, err := newTopic(ctx, admin, "durable", c.Partitions, client.Settings{})
	if err != nil {
		return nil, err
	}
	defer t.remove(ctx)

	total := c.Warmup + c.Duration
	running, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	begin := time.Now()
	g := &durableGroup{c: &c, t: t, measureFrom: begin.Add(c.Warmup)}
	for i := range c.Connections {
		g.running.Go(func() { g.note(g.connection(running, begin, i)) })
	}
	g.running.Wait()
	if g.err != nil {
		return nil, g.err
	}
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	all := newLatency()
	for _, l := range g.latencies {
		all.merge(l)
	}
	r.Latency = all.quantiles()
	r.Records = g.measured.Load()
	r.Bytes = r.Records * uint64(c.Size)
	r.finish(time.Since(g.measureFrom))
	return r, nil
}

type durableGroup struct {
	c           *Config
	t           *topic
	measureFrom time.Time
	running     sync.WaitGroup
	measured    atomic.Uint64

	mu        sync.Mutex
	latencies []*latency
	err       error
}

func (g *durableGroup) note(l *latency, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l != nil {
		g.latencies = append(g.latencies, l)
	}
	if err != nil && g.err == nil {
		g.err = err
	}
}

// connection sends one record after the other, each when the last is acknowledged and its own time has come. When it is
// late, the wait counts.
func (g *durableGroup) connection(ctx context.Context, begin time.Time, index int) (*latency, error) {
	one, done, err := g.sender(ctx, index)
	if err != nil {
		return nil, err
	}
	defer done()
	l := newLatency()
	s := newSchedule(begin, g.c.Rate, g.c.Connections, index)
	for {
		due, ok := s.next(ctx)
		if !ok {
			return l, nil
		}
		if err := one(); err != nil {
			if ctx.Err() != nil {
				return l, nil
			}
			return l, err
		}
		now := time.Now()
		if due.Before(g.measureFrom) {
			continue
		}
		l.record(now.Sub(due))
		if n := g.measured.Add(1); g.c.Count > 0 && n >= uint64(g.c.Count) {
			return l, nil
		}
	}
}

// sender gives the function that sends one record and waits for it.
func (g *durableGroup) sender(ctx context.Context, index int) (one func() error, done func(), err error) {
	cl, err := client.Connect(ctx, g.c.Connect)
	if err != nil {
		return nil, nil, err
	}
	partition := uint32(index % g.c.Partitions)
	if g.c.Raw {
		raw, err := cl.DialRaw(ctx)
		if err != nil {
			cl.Close()
			return nil, nil, err
		}
		frame := client.PrepareBatch(g.t.id, partition, client.AcksDurable, 1, g.c.Size)
		stop := context.AfterFunc(ctx, func() { raw.Close() })
		return func() error { return raw.ProduceOne(frame) }, func() { stop(); raw.Close(); cl.Close() }, nil
	}
	p, err := cl.Producer(ctx, g.t.name, client.ProducerOptions{Acks: client.AcksDurable, Partitioner: client.Explicit()})
	if err != nil {
		cl.Close()
		return nil, nil, err
	}
	record := client.Record{Value: payload(g.c.Size), Partition: partition}
	one = func() error {
		_, err := p.ProduceSync(ctx, &record)
		return err
	}
	return one, func() { p.Close(context.WithoutCancel(ctx)); cl.Close() }, nil
}

func payload(size int) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = 'a' + byte(i%26)
	}
	return p
}
