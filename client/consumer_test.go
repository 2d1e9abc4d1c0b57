package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// fill produces "0" … to partition 0 of topic "a" in small batches.
func fill(t *testing.T, c *Client, n int, codec batch.Codec) {
	t.Helper()
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 1000, Compression: codec, Partitioner: func(*Record, int) int { return 0 }})
	produceNumbered(t, p, n)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
}

func mustConsumer(t *testing.T, c *Client, o ConsumerOptions) *Consumer {
	t.Helper()
	s, err := c.Consumer(ctxFor(t), "a", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// collect reads to the end.
func collect(t *testing.T, s *Consumer) []string {
	t.Helper()
	var got []string
	next := map[uint32]uint64{}
	for r, err := range s.Records(ctxFor(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset < next[r.Partition] {
			t.Fatalf("partition %d: offset %d after %d", r.Partition, r.Offset, next[r.Partition])
		}
		next[r.Partition] = r.Offset + 1
		got = append(got, string(r.Value))
	}
	return got
}

func TestConsumeFromEachPosition(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	for codec := batch.CodecNone; codec <= batch.CodecMax; codec++ {
		fill(t, c, 500, codec)
	}
	all := slices.Repeat(numbered(500), int(batch.CodecMax)+1)
	for _, tt := range []struct {
		name  string
		start Position
		want  []string
	}{
		{"start", FromStart(), all},
		{"unset", Position{}, all},
		{"offset in a batch", FromOffset(777), all[777:]},
		{"end", FromEnd(), nil},
		{"offset at the end", FromOffset(uint64(len(all))), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := collect(t, mustConsumer(t, c, ConsumerOptions{Start: tt.start, UntilEnd: true, MaxPartitionBytes: 5000})); !slices.Equal(got, tt.want) {
				t.Fatalf("%d records, want %d", len(got), len(tt.want))
			}
		})
	}
}

func TestConsumeManyPartitionsToTheEnd(t *testing.T) {
	f := newFake(t)
	f.create("a", 8, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{Partitioner: RoundRobin(), BatchBytes: 500})
	produceNumbered(t, p, 5000)
	p.Close(ctxFor(t))
	got := collect(t, mustConsumer(t, c, ConsumerOptions{UntilEnd: true, MaxBytes: 20_000, MaxPartitionBytes: 3000}))
	want := numbered(5000)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func TestConsumeLargeRecordsAndHeaders(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{})
	large := noise(5 << 20)
	want := Record{Key: []byte{}, Value: large, Headers: []Header{{Key: "k", Value: []byte("v")}, {Key: "k"}}, UnixMillis: 12345}
	if _, err := p.ProduceSync(ctxFor(t), &want); err != nil {
		t.Fatal(err)
	}
	p.Close(ctxFor(t))
	got, err := mustConsumer(t, c, ConsumerOptions{}).Poll(ctxFor(t), 10)
	if err != nil || len(got) != 1 {
		t.Fatal(len(got), err)
	}
	r := got[0]
	if r.Key == nil || len(r.Key) != 0 || !slices.Equal(r.Value, large) || r.UnixMillis != 12345 || len(r.Headers) != 2 || r.Headers[0].Key != "k" || string(r.Headers[0].Value) != "v" {
		t.Fatalf("came back changed: key %q, %d bytes, %v, %v", r.Key, len(r.Value), r.UnixMillis, r.Headers)
	}
}

// A consumer that waits at the end gets what is produced later, without asking in a loop.
func TestConsumeWaitsByLongPoll(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	fetches := 0
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdFetch {
			fetches++
		}
		return false
	}
	c := f.connect(t)
	s := mustConsumer(t, c, ConsumerOptions{Start: FromEnd()})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Poll(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	fill(t, c, 1, batch.CodecNone)
	if r, err := s.Poll(ctxFor(t), 1); err != nil || string(r[0].Value) != "0" {
		t.Fatal(r, err)
	}
	s.Close()
	f.close()
	if fetches > 3 {
		t.Fatalf("%d fetches for one record", fetches)
	}
}

func TestOutOfRangeIsTypedAndNeverAJump(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 1000, batch.CodecNone)
	f.mu.Lock()
	f.topics["a"].parts[0].start = 100
	f.mu.Unlock()
	s := mustConsumer(t, c, ConsumerOptions{Start: FromOffset(7)})
	_, err := s.Poll(ctxFor(t), 1)
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, ErrOffsetOutOfRange) || e.First != 100 || e.Last != 1000 {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Poll(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("went on by itself: %v", err)
	}
	if err := s.Seek(0, e.First); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Poll(ctxFor(t), 1); err != nil || r[0].Offset != 100 {
		t.Fatal(r, err)
	}
}

func TestSeekDropsWhatWasFetchedBefore(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 2000, batch.CodecNone)
	s := mustConsumer(t, c, ConsumerOptions{MaxPartitionBytes: 2000})
	for i, to := range []uint64{5, 1999, 0, 1500, 2000, 3} {
		if err := s.Seek(0, to); err != nil {
			t.Fatal(err)
		}
		if to == 2000 {
			continue // in a long poll at the end when the next Seek comes
		}
		for n := to; n < min(to+300, 2000); n++ {
			r, err := s.Poll(ctxFor(t), 1)
			if err != nil || r[0].Offset != n {
				t.Fatalf("seek %d to %d: offset %v, want %d; %v", i, to, r, n, err)
			}
		}
	}
}

func TestConsumeThroughCuts(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 3000, batch.CodecZstd)
	n := 0
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdFetch {
			return false
		}
		if n++; n%3 == 0 {
			c.nc.Close()
		}
		return n%3 == 0
	}
	got := collect(t, mustConsumer(t, c, ConsumerOptions{UntilEnd: true, MaxPartitionBytes: 1500}))
	if !slices.Equal(got, numbered(3000)) {
		t.Fatalf("%d records, first difference at %d", len(got), firstDifference(got, numbered(3000)))
	}
}

func TestTopicRecreatedEndsTheConsumer(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	s := mustConsumer(t, c, ConsumerOptions{Start: FromEnd()})
	if err := c.DeleteTopic(ctxFor(t), "a"); err != nil {
		t.Fatal(err)
	}
	f.create("a", 1, frame.Settings{})
	for range 2 {
		_, err := s.Poll(ctxFor(t), 1)
		// Between delete and create the consumer may have asked.
		if !errors.Is(err, ErrTopicRecreated) && !errors.Is(err, ErrUnknownTopic) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestDamagedBatchesAreNotBelieved(t *testing.T) {
	restamp := func(change func(h *batch.Header)) func([]byte) []byte {
		return func(b []byte) []byte {
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			change(&h)
			return append(h.Append(nil), b[batch.HeaderBytes:]...)
		}
	}
	for name, damage := range map[string]func([]byte) []byte{
		"body bit":         func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"header bit":       func(b []byte) []byte { b[batch.BaseOffsetAt] ^= 1; return b },
		"cut short":        func(b []byte) []byte { return b[:len(b)-1] },
		"other partition":  restamp(func(h *batch.Header) { h.PartitionTag++ }),
		"offsets before":   restamp(func(h *batch.Header) { h.BaseOffset = 0 }),
		"span too small":   restamp(func(h *batch.Header) { h.LastOffsetDelta, h.Count = 0, 1 }),
		"count too large":  restamp(func(h *batch.Header) { h.Count++; h.LastOffsetDelta++ }),
		"codec of nothing": restamp(func(h *batch.Header) { h.Attributes = byte(batch.CodecZstd) }),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.create("a", 2, frame.Settings{})
			c := f.connect(t)
			fill(t, c, 500, batch.CodecNone)
			f.mu.Lock()
			p := f.topics["a"].parts[0]
			h, _ := batch.ParseHeader(p.batches[1])
			p.batches[1] = damage(p.batches[1])
			p.batches = p.batches[:2]
			f.mu.Unlock()
			s := mustConsumer(t, c, ConsumerOptions{})
			for n := range h.BaseOffset {
				r, err := s.Poll(ctxFor(t), 1)
				if err != nil || r[0].Offset != n {
					t.Fatalf("before the damage: %v %v", r, err)
				}
			}
			if _, err := s.Poll(ctxFor(t), 1); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	bomb := make([]byte, 3<<20)
	for codec := batch.CodecGzip; codec <= batch.CodecMax; codec++ {
		packed, err := compress(nil, codec, bomb)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := decompress(codec, packed, len(bomb), &zstdReader{}); err != nil || len(out) != len(bomb) {
			t.Errorf("%v: at the bound: %d bytes, %v", codec, len(out), err)
		}
		if out, err := decompress(codec, packed, len(bomb)-1, &zstdReader{}); !errors.Is(err, errBomb) {
			t.Errorf("%v: above the bound: %d bytes, %v", codec, len(out), err)
		}
	}
	// A snappy block that claims 4 GiB - 1.
	if _, err := decompress(batch.CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 1<<20, nil); err == nil {
		t.Error("snappy believed a claim")
	}
}

func TestPollEndsWithEOFOnce(t *testing.T) {
	f := newFake(t)
	f.create("a", 3, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 10, batch.CodecNone)
	s := mustConsumer(t, c, ConsumerOptions{UntilEnd: true})
	poll := func(want int) { // a batch a poll; how the ten were batched is a matter of timing
		t.Helper()
		for n := 0; n < want; {
			r, err := s.Poll(ctxFor(t), 100)
			if n += len(r); err != nil || n > want {
				t.Fatal(n, err)
			}
		}
	}
	end := func() {
		t.Helper()
		if _, err := s.Poll(ctxFor(t), 1); err != io.EOF {
			t.Fatal(err)
		}
	}
	poll(10)
	end()
	end()
	if err := s.Seek(0, 8); err != nil {
		t.Fatal(err)
	}
	poll(2)
	end()
}

// Offsets that were never used lie before the end; reading to the end must end.
func TestConsumeToAnEndBehindAGap(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 10, batch.CodecNone)
	f.mu.Lock()
	f.topics["a"].parts[0].next = 1_000_000
	f.mu.Unlock()
	if got := collect(t, mustConsumer(t, c, ConsumerOptions{UntilEnd: true, MaxWait: 10 * time.Millisecond})); len(got) != 10 {
		t.Fatalf("%d records", len(got))
	}
}

func TestSubscription(t *testing.T) {
	f := newFake(t)
	f.create("a", 2, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 100, batch.CodecNone)
	for _, tt := range []struct {
		name  string
		start Position
		skip  int
	}{{"tail", Position{}, 100}, {"start", FromStart(), 0}, {"offset", FromOffset(42), 42}} {
		t.Run(tt.name, func(t *testing.T) {
			o := SubscribeOptions{Start: tt.start, CreditBytes: 4000, CreditRecords: 50}
			if tt.start.kind == atOffset {
				o.Partitions = []uint32{0}
			}
			before := len(f.values("a", 0))
			s, err := c.Subscribe(ctxFor(t), "a", o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			fill(t, c, 1000, batch.CodecSnappy)
			want := slices.Concat(f.values("a", 0))[min(tt.skip, before):]
			if tt.skip == 100 {
				want = f.values("a", 0)[before:]
			}
			var got []string
			for r, err := range s.Records(ctxFor(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, string(r.Value)); len(got) == len(want) {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("first difference at %d", firstDifference(got, want))
			}
		})
	}
}

// From an offset a subscription goes on where it stood, however often the connection breaks.
func TestSubscriptionGoesOnThroughCuts(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	fill(t, c, 3000, batch.CodecNone)
	s, err := c.Subscribe(ctxFor(t), "a", SubscribeOptions{Start: FromStart(), CreditBytes: 3000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	for r, err := range s.Records(ctxFor(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Value) != fmt.Sprint(n) {
			t.Fatalf("got %s, want %d", r.Value, n)
		}
		if n++; n == 3000 {
			break
		}
		if n%500 == 0 {
			f.cut()
		}
	}
}

// BenchmarkDecodeRecords: one batch of 5,000 keyed records of 32 bytes, checksum, framing and records, hot in cache. No
// socket: it bounds what a consumer costs per record.
func BenchmarkDecodeRecords(b *testing.B) {
	var builder batch.Builder
	builder.Reset(1)
	const n = 5000
	for range n {
		builder.Add([]byte("some/file.go"), true, []byte("	if err := p.Produce(ctx, r, n)"), nil, 1)
	}
	tp := &topic{id: 1}
	p := builder.Finish(nil, batch.Options{})
	batch.Stamp(p, 0, 1, 1, batch.PartitionTag(tp.directory, 1, 0))
	o := &opener{topic: tp, limit: 1 << 20}
	b.ReportAllocs()
	for b.Loop() {
		records, _, _, err := o.open(0, 0, ^uint64(0), true, p)
		if err != nil || len(records) != n {
			b.Fatal(len(records), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}
