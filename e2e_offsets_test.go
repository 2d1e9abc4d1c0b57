package slipring_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
)

// Offsets are found by append time, exactly, in memory and on the disk, across segments and a restart.
func TestOffsetsByTime(t *testing.T) {
	cfg := testConfig(t.TempDir())
	b := openBroker(t, cfg)
	c := connect(t, b.Addr().String())
	ctx := within(t, 30*time.Second)
	if _, err := c.CreateTopic(ctx, "times", 1, frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(ctx, "times", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var at []int64 // append time of each offset
	for i := range 40 {
		r, err := p.ProduceSync(ctx, &client.Record{Value: make([]byte, 1+i%4*100_000)})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, r.AppendMillis)
		if i%3 == 2 { // neighbours may share a millisecond, every third may not
			eventually(t, 5*time.Second, "the clock moves", func() bool { return time.Now().UnixMilli() > r.AppendMillis+1 })
		}
	}
	checkTimes(t, c, at)
	closeBroker(t, b)
	b = openBroker(t, cfg)
	checkTimes(t, connect(t, b.Addr().String()), at)
}

func checkTimes(t *testing.T, c *client.Client, at []int64) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	for _, delta := range []int64{-1, 0, 1} {
		for i := range at {
			want := 0
			for want < len(at) && at[want] < at[i]+delta {
				want++
			}
			got, err := c.ListOffsets(ctx, "times", nil, client.OffsetByTime, at[i]+delta)
			if err != nil || len(got) != 1 || got[0].Error != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			if got[0].Offset != uint64(want) || want < len(at) && got[0].Time != at[want] || want == len(at) && got[0].Time != 0 {
				t.Errorf("time of offset %d, %+d ms: offset %d of time %d, want %d", i, delta, got[0].Offset, got[0].Time, want)
			}
		}
	}
	for kind, want := range map[client.OffsetKind]uint64{client.OffsetStart: 0, client.OffsetEnd: uint64(len(at))} {
		if got, err := c.ListOffsets(ctx, "times", nil, kind, 0); err != nil || got[0].Offset != want {
			t.Errorf("kind %v: %+v, %v", kind, got, err)
		}
	}
	got := consumeAll(t, c, "times", client.ConsumerOptions{Start: client.FromTime(time.UnixMilli(at[20]))})
	if len(got) == 0 || got[0].AppendMillis != at[20] || got[len(got)-1].Offset != uint64(len(at)-1) {
		t.Errorf("consumed %d records from the time of offset 20", len(got))
	}
}

// An offset that is not in the log is refused with the range that is, below and above, by FETCH and by SUBSCRIBE.
func TestOffsetOutOfRange(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	ctx := within(t, 30*time.Second)
	if _, err := c.CreateTopic(ctx, "range", 1, frame.Settings{Mask: frame.SetRetentionRecords, RetentionRecords: 10}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // one batch each: retention goes by batches
		produceValues(t, c, "range", client.ProducerOptions{}, fmt.Sprint(i))
	}
	eventually(t, 10*time.Second, "retention", func() bool { return describe(t, c, "range").Partitions[0].LogStart == 20 })
	for _, offset := range []uint64{0, 19, 31, 1 << 40} {
		s, err := c.Consumer(ctx, "range", client.ConsumerOptions{Start: client.FromOffset(offset)})
		if err == nil {
			_, err = s.Poll(ctx, 1)
			s.Close()
		}
		checkRange(t, fmt.Sprint("fetch at ", offset), err)
		sub, err := c.Subscribe(ctx, "range", client.SubscribeOptions{Start: client.FromOffset(offset)})
		if err == nil {
			_, err = sub.Poll(ctx, 1)
			sub.Close()
		}
		checkRange(t, fmt.Sprint("subscribe at ", offset), err)
	}
	for _, offset := range []uint64{20, 29} {
		s, err := c.Consumer(ctx, "range", client.ConsumerOptions{Start: client.FromOffset(offset)})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Poll(ctx, 1); err != nil || r[0].Offset != offset || string(r[0].Value) != fmt.Sprint(offset) {
			t.Errorf("fetch at %d: %+v, %v", offset, r, err)
		}
		s.Close()
	}
}

func checkRange(t *testing.T, what string, err error) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || !errors.Is(err, client.ErrOffsetOutOfRange) || e.First != 20 || e.Last != 30 {
		t.Errorf("%s: %v, want out of range with 20 to 30", what, err)
	}
}

// Deleting a topic wakes those who wait on it, with an error and at once; the name made anew is another topic to them.
func TestDeleteWakesWaiters(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	addr := b.Addr().String()
	c := connect(t, addr)
	ctx := within(t, 20*time.Second)
	id, err := c.CreateTopic(ctx, "doomed", 2, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	fetcher, pusher := dial(t, addr), dial(t, addr)
	fetcher.send(t, frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{
		{Topic: id, Partition: 0, MaxBytes: 1 << 20}, {Topic: id, Partition: 1, MaxBytes: 1 << 20},
	}})
	pusher.ask(t, frame.CmdSubscribe, &frame.Subscribe{Name: "doomed", Partition: frame.AllPartitions, Records: 10, Bytes: 1 << 20})
	polled := make(chan error, 2)
	go func() { polled <- pollOnce(ctx, c) }()
	go func() { polled <- takeOnce(ctx, c) }()
	eventually(t, 5*time.Second, "all of them wait", func() bool {
		s, err := b.Stats(ctx)
		return err == nil && s.Shard.Subscriptions == 2 && s.Shard.Fetches >= 2
	})
	if err := c.DeleteTopic(ctx, "doomed"); err != nil {
		t.Fatal(err)
	}
	h, payload := fetcher.next(t)
	gone := 0
	for len(payload) > 0 {
		chunk, rest, err := frame.NextChunk(payload)
		if err != nil || h.Command != frame.CmdFetch || len(chunk.Data) != 0 {
			t.Fatalf("the waiting fetch was answered %v %+v, %v", h.Command, chunk, err)
		}
		if chunk.Error == frame.ErrUnknownTopic {
			gone++ // of one partition at least: the reply goes as soon as an error is known
		}
		payload = rest
	}
	if gone == 0 {
		t.Error("the waiting fetch was answered without an error")
	}
	h, payload = pusher.next(t)
	if e := refusal(t, h, payload); e.Code != frame.ErrUnknownTopic {
		t.Errorf("the subscription ended with %v", e.Code)
	}
	if _, err := c.CreateTopic(ctx, "doomed", 2, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-polled; !errors.Is(err, client.ErrUnknownTopic) && !errors.Is(err, client.ErrTopicRecreated) {
			t.Errorf("a client that waited got %v", err)
		}
	}
}

func pollOnce(ctx context.Context, c *client.Client) error {
	s, err := c.Consumer(ctx, "doomed", client.ConsumerOptions{MaxWait: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Poll(ctx, 1)
	return err
}

func takeOnce(ctx context.Context, c *client.Client) error {
	s, err := c.Subscribe(ctx, "doomed", client.SubscribeOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Poll(ctx, 1)
	return err
}
