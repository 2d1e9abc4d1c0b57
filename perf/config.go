package perf

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Config of a run. Each mode says what it uses.
type Config struct {
	Connect     client.Options
	Size        int           // bytes of a record's payload
	Batch       int           // records of a batch
	Connections int           // producers at once
	Partitions  int           // of the topic made for the run
	Duration    time.Duration // of the measured part
	Count       int           // records; ends the run before Duration, 0: no limit
	Warmup      time.Duration // before the measured part
	Rate        float64       // records a second over all connections, from a fixed schedule; 0: as fast as it goes
	Acks        client.Acks
	Codec       client.Codec
	Raw         bool // durable: bare request and reply instead of the client's producer
	Window      int  // wire: bytes that the publisher may be ahead of the subscriber

	FloorIn, FloorOut string // wire: a relay instead of a broker
}

// topic is one that exists for the length of a run.
type topic struct {
	c    *client.Client
	name string
	id   uint32
}

func newTopic(ctx context.Context, c *client.Client, mode string, partitions int, s client.Settings) (*topic, error) {
	var tail [4]byte
	rand.Read(tail[:]) // never fails
	t := &topic{c: c, name: fmt.Sprintf("bench.%s.%s", mode, hex.EncodeToString(tail[:]))}
	var err error
	t.id, err = c.CreateTopic(ctx, t.name, uint32(partitions), s)
	return t, err
}

// remove deletes the topic, also when the run was interrupted.
func (t *topic) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return t.c.DeleteTopic(ctx, t.name)
}
