package perf

import (
	"context"
	"runtime"
	"time"

	"github.com/slipringmq/slipring/client"
)

// writeBytes is how much the publisher hands over at once.
const writeBytes = 64 << 10

// publish writes the prepared frames until ctx is done.
func (e *ends) publish(ctx context.Context, c *Config, got *progress) error {
	burst := e.frame
	for len(burst) < writeBytes {
		burst = append(burst, e.frame...)
	}
	sent := uint64(0)
	full := func() bool { // with nothing under way a burst always goes, even one above the window
		ahead := sent - min(sent, got.settled.Load())
		return ahead > 0 && ahead+uint64(len(burst)) > uint64(c.Window)
	}
	for ctx.Err() == nil {
		for full() && ctx.Err() == nil {
			// The subscriber's reads are a few microseconds apart. Yielding finds it soon, sleeping now and then keeps the
			// processor for the broker.
			runtime.Gosched()
			if full() {
				time.Sleep(20 * time.Microsecond)
			}
		}
		n, err := e.in.Write(burst)
		sent += uint64(n)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return nil
}

// receive counts until the connection ends. Every frame sent holds batchRecords records.
func (e *ends) receive(got *progress, batchRecords int) error {
	var c client.Counter
	return c.Run(e.out, func(n client.Counts) {
		got.bytes.Store(n.Bytes)
		got.records.Store(n.Records)
		got.lost.Store(n.Lost)
		got.settled.Store((n.Records + n.Lost) * uint64(len(e.frame)) / uint64(batchRecords))
	})
}
