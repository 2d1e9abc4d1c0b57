package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Replay measures reading a log from start to end: it fills a topic with Count records first, then reads it with one consumer
// that decodes every record. It uses Size, Batch, Partitions, Count and Codec.
func Replay(ctx context.Context, c Config) (*Report, error) {
	c.Connections = 1
	r := newReport("replay", &c)
	cl, err := client.Connect(ctx, c.Connect)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	t, err := newTopic(ctx, cl, "replay", c.Partitions, client.Settings{})
	if err != nil {
		return nil, err
	}
	defer t.remove(ctx)
	if err := fillTopic(ctx, cl, t, &c); err != nil {
		return nil, fmt.Errorf("replay: filling the topic: %w", err)
	}
	start := time.Now()
	s, err := cl.Consumer(ctx, t.name, client.ConsumerOptions{UntilEnd: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		records, err := s.Poll(ctx, 1<<30)
		if err == io.EOF {
			break
		}
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		if err != nil {
			return nil, err
		}
		r.Records += uint64(len(records))
		for i := range records {
			r.Bytes += uint64(len(records[i].Value))
		}
	}
	r.finish(time.Since(start))
	if r.Records != uint64(c.Count) {
		return nil, fmt.Errorf("replay: read %d records, wrote %d", r.Records, c.Count)
	}
	return r, nil
}

func fillTopic(ctx context.Context, cl *client.Client, t *topic, c *Config) error {
	p, err := cl.Producer(ctx, t.name, client.ProducerOptions{Compression: c.Codec, Partitioner: client.RoundRobin(),
		Linger: 5 * time.Millisecond, BatchBytes: c.Batch * (c.Size + 16)})
	if err != nil {
		return err
	}
	record := client.Record{Value: payload(c.Size)}
	for range c.Count {
		if err := p.Produce(ctx, &record, nil); err != nil {
			p.Close(context.WithoutCancel(ctx))
			return err
		}
	}
	return p.Close(ctx)
}
