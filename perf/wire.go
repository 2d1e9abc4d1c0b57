package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Wire measures one publisher joined to one push subscriber: the same prepared frames, acks none, over and over, through a
// topic with storage none made for the run, or through a relay (FloorIn, FloorOut). It uses Size, Batch, Duration, Warmup
// and Window.
//
// The publisher stays at most Window bytes ahead of the subscriber, for a broker and for a relay alike: without that a
// broker would drop what its subscriber cannot take, and the figures would compare losing with waiting.
func Wire(ctx context.Context, c Config) (*Report, error) {
	c.Connections, c.Partitions = 1, 1
	c.Batch = min(c.Batch, client.PreparedMax(c.Size))
	r := newReport("wire", &c)
	r.Acks = "none"
	ends, err := wireEnds(ctx, &c, r)
	if err != nil {
		return nil, err
	}
	defer ends.close()
	return r, ends.measure(ctx, &c, r)
}

// ends are the two connections of a wire run.
type ends struct {
	in, out io.ReadWriteCloser
	frame   []byte
	close   func()
}

func wireEnds(ctx context.Context, c *Config, r *Report) (*ends, error) {
	if c.FloorIn != "" {
		r.Target = "floor"
		return floorEnds(ctx, c)
	}
	cl, err := client.Connect(ctx, c.Connect)
	if err != nil {
		return nil, err
	}
	t, err := newTopic(ctx, cl, "wire", 1, client.Settings{Mask: client.SetStorage, Storage: client.StorageNone})
	if err != nil {
		cl.Close()
		return nil, err
	}
	e := &ends{frame: client.PrepareBatch(t.id, 0, client.AcksNone, c.Batch, c.Size)}
	var in, out *client.Raw
	e.close = func() {
		for _, raw := range []*client.Raw{in, out} {
			if raw != nil {
				raw.Close()
			}
		}
		t.remove(ctx)
		cl.Close()
	}
	if out, err = cl.DialRaw(ctx); err == nil {
		err = out.Subscribe(t.name)
	}
	if err == nil {
		in, err = cl.DialRaw(ctx)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	e.in, e.out = in, out
	return e, nil
}

func floorEnds(ctx context.Context, c *Config) (*ends, error) {
	var d net.Dialer
	out, err := d.DialContext(ctx, "tcp", c.FloorOut)
	if err != nil {
		return nil, err
	}
	in, err := d.DialContext(ctx, "tcp", c.FloorIn)
	if err != nil {
		out.Close()
		return nil, err
	}
	e := &ends{in: in, out: out, frame: client.PrepareBatch(1, 0, client.AcksNone, c.Batch, c.Size)}
	e.close = func() {
		in.Close()
		out.Close()
	}
	return e, nil
}

// measure runs publisher and subscriber, and takes what arrives between the end of the warm-up and the end of the run.
func (e *ends) measure(ctx context.Context, c *Config, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, c.Warmup+c.Duration)
	defer cancel()
	var got progress
	received := make(chan error, 1)
	published := make(chan error, 1)
	go func() { received <- e.receive(&got, c.Batch) }()
	go func() { published <- e.publish(ctx, c, &got) }()

	warm := time.NewTimer(c.Warmup)
	defer warm.Stop()
	var before client.Counts
	var start time.Time
	var early error
	var receiverEnded, publisherEnded bool
	for waiting := true; waiting; {
		select {
		case <-warm.C:
			before, start = got.counts(), time.Now()
		case <-ctx.Done():
			waiting = false
		case early = <-received:
			receiverEnded, waiting = true, false
		case early = <-published:
			publisherEnded, waiting = true, false
		}
	}
	after, end := got.counts(), time.Now()
	interrupted := ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded)
	cancel()
	e.in.Close()
	e.out.Close()
	// Closed connections end both; what they say now is no news.
	if !receiverEnded {
		<-received
	}
	if !publisherEnded {
		<-published
	}
	switch {
	case interrupted:
		return errors.New("interrupted")
	case early != nil:
		return fmt.Errorf("wire: the stream ended early: %w", early)
	case start.IsZero():
		return errors.New("wire: the warm-up did not end")
	}
	r.Records = after.Records - before.Records
	r.WireBytes = after.Bytes - before.Bytes
	r.Lost = after.Lost - before.Lost
	r.Bytes = r.Records * uint64(c.Size)
	r.finish(end.Sub(start))
	return nil
}

// progress is what the subscriber has seen, shared with the publisher.
type progress struct {
	bytes, records, lost atomic.Uint64
	settled              atomic.Uint64 // bytes that are no longer under way: received, or lost
}

func (p *progress) counts() client.Counts {
	return client.Counts{Bytes: p.bytes.Load(), Records: p.records.Load(), Lost: p.lost.Load()}
}
