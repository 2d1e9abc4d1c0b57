package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// numbered gives "0", "1", … so that loss, doubles and order all show in one comparison.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func produceNumbered(t *testing.T, p *Producer, n int) {
	t.Helper()
	ctx := ctxFor(t)
	for _, v := range numbered(n) {
		if err := p.Produce(ctx, &Record{Value: []byte(v)}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func mustProducer(t *testing.T, c *Client, topic string, o ProducerOptions) *Producer {
	t.Helper()
	p, err := c.Producer(ctxFor(t), topic, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkValues(t *testing.T, f *fake, topic string, want []string) {
	t.Helper()
	got := f.values(topic, 0)
	if !slices.Equal(got, want) {
		t.Fatalf("stored %d records, want %d; first difference at %d", len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestProduceKeepsOrderAndOffsets(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 2000})
	var next uint64
	var wrong atomic.Int32
	for _, v := range numbered(5000) {
		err := p.Produce(ctxFor(t), &Record{Value: []byte(v)}, func(r Result) {
			if r.Err != nil || r.Offset != next {
				wrong.Add(1)
			}
			next++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if wrong.Load() != 0 || next != 5000 {
		t.Fatalf("%d results, %d wrong", next, wrong.Load())
	}
	checkValues(t, f, "a", numbered(5000))
}

// Connections are cut over and over, before and after the broker has stored what they carried.
func TestProduceSurvivesCutsWithoutLossDoublesOrDisorder(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var n atomic.Int32
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdProduce {
			return false
		}
		switch n.Add(1) % 7 {
		case 3: // lost on the way
			c.nc.Close()
			return true
		case 5: // stored, the answer is lost
			c.loseAnswer(h, payload)
			return true
		}
		return false
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 1000})
	produceNumbered(t, p, 5000)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	checkValues(t, f, "a", numbered(5000))
}

// BUSY for one of several batches in flight: those behind it are refused for their sequence and follow in order.
func TestProduceKeepsOrderThroughBusy(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var n atomic.Int32
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdProduce && n.Add(1)%5 == 2 {
			c.fail(h.RequestID, frame.ErrBusy, func(e *frame.Error) { e.DelayMillis = 1 })
			return true
		}
		return false
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 1000})
	produceNumbered(t, p, 5000)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	checkValues(t, f, "a", numbered(5000))
}

func TestProduceWaitsAsLongAsBusyAsks(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var first atomic.Int64
	var waited atomic.Int64
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdProduce {
			return false
		}
		if first.CompareAndSwap(0, time.Now().UnixNano()) {
			c.fail(h.RequestID, frame.ErrBusy, func(e *frame.Error) { e.DelayMillis = 80 })
			return true
		}
		waited.Store(time.Now().UnixNano() - first.Load())
		return false
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{})
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if d := time.Duration(waited.Load()); d < 80*time.Millisecond {
		t.Fatalf("came back after %v, BUSY asked for 80 ms", d)
	}
	p.Close(ctxFor(t))
}

func TestProduceThroughABrokerRestart(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 1000})
	produceNumbered(t, p, 100)
	f.setDown(true)
	var failures atomic.Int32
	for i := range 900 {
		p.Produce(ctxFor(t), &Record{Value: []byte(fmt.Sprint(100 + i))}, func(r Result) {
			if r.Err != nil {
				failures.Add(1)
			}
		})
	}
	f.setDown(false)
	if err := p.Close(ctxFor(t)); err != nil || failures.Load() != 0 {
		t.Fatal(err, failures.Load())
	}
	checkValues(t, f, "a", numbered(1000))
}

// After the delivery timeout a batch that may be stored fails as unknown, and what follows is stored under a new producer
// id, not as a gap in the old sequence.
func TestDeliveryTimeoutSaysUnknownAndGoesOn(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var swallow atomic.Bool
	swallow.Store(true)
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		return h.Command == frame.CmdProduce && swallow.Load()
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{DeliveryTimeout: 50 * time.Millisecond})
	_, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("lost")})
	if !errors.Is(err, ErrDeliveryTimeout) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	swallow.Store(false)
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("next")}); err != nil {
		t.Fatal(err)
	}
	checkValues(t, f, "a", []string{"next"})
	if err := p.Close(ctxFor(t)); !errors.Is(err, ErrDeliveryTimeout) {
		t.Fatalf("Close hides the failure: %v", err)
	}
}

func TestDeliveryTimeoutOfWhatWasNeverSentIsNotUnknown(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{DeliveryTimeout: 50 * time.Millisecond})
	f.setDown(true)
	_, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("x")})
	if !errors.Is(err, ErrDeliveryTimeout) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	p.Close(ctxFor(t))
}

// The broker has forgotten the producer. A batch of which nothing is in doubt goes on under a new id; one that may have been
// stored must not.
func TestForgottenProducer(t *testing.T) {
	for _, uncertain := range []bool{false, true} {
		t.Run(fmt.Sprint("uncertain=", uncertain), func(t *testing.T) {
			f := newFake(t)
			f.create("a", 1, frame.Settings{})
			var forget atomic.Bool
			f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
				if h.Command == frame.CmdProduce && forget.CompareAndSwap(true, false) {
					if uncertain { // stored, then state and connection are lost
						c.loseAnswer(h, payload)
					}
					f.mu.Lock()
					clear(f.topics["a"].parts[0].producers)
					f.mu.Unlock()
					return uncertain
				}
				return false
			}
			c := f.connect(t)
			p := mustProducer(t, c, "a", ProducerOptions{})
			if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("0")}); err != nil {
				t.Fatal(err)
			}
			forget.Store(true)
			_, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("1")})
			if uncertain != errors.Is(err, ErrOutcomeUnknown) || uncertain != errors.Is(err, ErrUnknownProducer) {
				t.Fatalf("got %v", err)
			}
			if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("2")}); err != nil {
				t.Fatal(err)
			}
			checkValues(t, f, "a", numbered(3))
			p.Close(ctxFor(t))
		})
	}
}

// A batch refused for good leaves no hole: those behind it are stored.
func TestRefusedBatchDoesNotStopTheNext(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var n atomic.Int32
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdProduce && n.Add(1) == 2 {
			c.fail(h.RequestID, frame.ErrTooLarge)
			return true
		}
		return false
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 500})
	var refused, stored atomic.Int32
	for _, v := range numbered(500) {
		p.Produce(ctxFor(t), &Record{Value: []byte(v)}, func(r Result) {
			switch {
			case r.Err == nil:
				stored.Add(1)
			case errors.Is(r.Err, ErrTooLarge) && !errors.Is(r.Err, ErrOutcomeUnknown):
				refused.Add(1)
			default:
				t.Errorf("got %v", r.Err)
			}
		})
	}
	if err := p.Close(ctxFor(t)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if got := len(f.values("a", 0)); got != int(stored.Load()) || refused.Load() == 0 || got+int(refused.Load()) != 500 {
		t.Fatalf("%d in the broker, %d acknowledged, %d refused", got, stored.Load(), refused.Load())
	}
}

func TestTopicRecreatedEndsTheProducer(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{})
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("0")}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(ctxFor(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopic(ctxFor(t), "a", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("1")}); !errors.Is(err, ErrTopicRecreated) {
			t.Fatalf("got %v", err)
		}
	}
	p.Close(ctxFor(t))
	checkValues(t, f, "a", nil)
}

// A wiped directory: topic id 1 exists again and means another topic.
func TestAnotherDirectoryEndsTheProducer(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{})
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("0")}); err != nil {
		t.Fatal(err)
	}
	f.setDown(true)
	f.mu.Lock()
	f.topics, f.nextID, f.hello.DirectoryID = map[string]*fakeTopic{}, 1, [16]byte{9}
	f.mu.Unlock()
	f.create("other", 1, frame.Settings{})
	f.setDown(false)
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("1")}); !errors.Is(err, ErrTopicRecreated) {
		t.Fatalf("got %v", err)
	}
	p.Close(ctxFor(t))
	checkValues(t, f, "other", nil)
}

func TestProduceBlocksAtItsMemoryBound(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool { return h.Command == frame.CmdProduce }
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{MaxBufferedBytes: 10_000})
	ctx, cancel := context.WithTimeout(ctxFor(t), 50*time.Millisecond)
	defer cancel()
	held := 0
	for {
		if err := p.Produce(ctx, &Record{Value: make([]byte, 900)}, nil); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		held += 900
	}
	if held > 10_000 || held < 8000 {
		t.Fatalf("held %d bytes", held)
	}
	closing, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	if err := p.Close(closing); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// The sum of unanswered PRODUCE bytes stays within what HELLO allowed.
func TestProduceRespectsTheWindow(t *testing.T) {
	f := newFake(t)
	f.create("a", 8, frame.Settings{})
	f.hello.ProduceWindow = 5000
	var mu sync.Mutex
	var open, most int
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdProduce {
			return false
		}
		mu.Lock()
		open += len(payload)
		most = max(most, open)
		mu.Unlock()
		f.running.Go(func() {
			time.Sleep(time.Millisecond) // lets requests pile up, if they would
			mu.Lock()
			open -= len(payload)
			mu.Unlock()
			c.handle(h, payload)
		})
		return true
	}
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 2000, Partitioner: RoundRobin(), MaxInFlight: 1})
	produceNumbered(t, p, 5000)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if most > 5000 || most < 3000 {
		t.Fatalf("at most %d bytes were unanswered, window is 5000", most)
	}
}

func TestProduceEveryCodecAndSize(t *testing.T) {
	for codec := batch.CodecNone; codec <= batch.CodecMax; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			f := newFake(t)
			f.create("a", 1, frame.Settings{})
			c := f.connect(t)
			p := mustProducer(t, c, "a", ProducerOptions{Compression: codec})
			want := numbered(100)
			want = append(want, "", strings.Repeat("large ", 400_000), string(noise(3<<20)))
			for _, v := range want {
				if err := p.Produce(ctxFor(t), &Record{Value: []byte(v)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(ctxFor(t)); err != nil {
				t.Fatal(err)
			}
			checkValues(t, f, "a", want)
		})
	}
}

func TestAcksNoneAsksForNoReply(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{Acks: AcksNone, BatchBytes: 1000})
	produceNumbered(t, p, 2000)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ping(ctxFor(t)); err != nil { // behind the batches on the same connection
		t.Fatal(err)
	}
	checkValues(t, f, "a", numbered(2000))
}

func TestAcksDefaultToTheStrongest(t *testing.T) {
	set := func(s frame.Storage, d frame.Durability) frame.Settings {
		return frame.Settings{Storage: s, Durability: d}
	}
	for _, tt := range []struct {
		settings frame.Settings
		want     frame.Acks
	}{
		{set(frame.StorageLog, frame.DurabilitySync), frame.AcksDurable},
		{set(frame.StorageLog, frame.DurabilityInterval), frame.AcksDurable},
		{set(frame.StorageLog, frame.DurabilityNone), frame.AcksLeader},
		{set(frame.StorageMemory, frame.DurabilitySync), frame.AcksLeader},
		{set(frame.StorageNone, frame.DurabilitySync), frame.AcksLeader},
	} {
		got, err := AcksStrongest.resolve(&topic{settings: tt.settings})
		if err != nil || got != tt.want {
			t.Errorf("%+v: %v, %v", tt.settings, got, err)
		}
		_, err = AcksDurable.resolve(&topic{settings: tt.settings})
		if refused := errors.Is(err, ErrDurability); refused != (tt.want != frame.AcksDurable) {
			t.Errorf("%+v: durable: %v", tt.settings, err)
		}
	}
}

func TestRecordAboveTheTopicsBoundIsRefusedAtOnce(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 1024})
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{})
	if err := p.Produce(ctxFor(t), &Record{Value: make([]byte, 1025)}, nil); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: make([]byte, 1024)}); err != nil {
		t.Fatal(err)
	}
	p.Close(ctxFor(t))
}

// A record costs no allocation of its own: what is allocated is per batch.
func TestProduceAllocatesPerBatchOnly(t *testing.T) {
	p, done := benchProducer(t)
	defer done()
	r := Record{Key: []byte("some/file.go"), Value: []byte("	if err := p.Produce(ctx, r, n)")}
	const n = 200_000
	run := func() {
		for range n {
			if err := p.Produce(context.Background(), &r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	run() // warm
	if per := testing.AllocsPerRun(3, run) / n; per > 0.02 {
		t.Fatalf("%.3f allocations per record", per)
	}
}

// BenchmarkProduce: records of 32 bytes, keyed, 8 partitions, to a fake broker in the same process that checks and keeps
// every batch. It bounds the client's cost per record, its share of the fake's included.
func BenchmarkProduce(b *testing.B) {
	p, done := benchProducer(b)
	defer done()
	r := Record{Key: []byte("some/file.go"), Value: []byte("	if err := p.Produce(ctx, r, n)")}
	b.SetBytes(int64(len(r.Value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Produce(context.Background(), &r, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}
