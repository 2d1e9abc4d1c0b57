package slipring_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// A producer that repeats its batches after a restart gets the answers of the first time and stores nothing twice: after a
// clean stop and after SIGKILL, with its sequences in the journal alone and with a journal written all around since.
func TestDuplicatesOverRestart(t *testing.T) {
	for _, how := range []string{"stop", "kill"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			broker := startChild(t, dir, "")
			c := connect(t, broker.addr)
			ctx := within(t, 30*time.Second)
			topic, err := c.CreateTopic(ctx, "once", 1, frame.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			other, err := c.CreateTopic(ctx, "other", 1, frame.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			w := dial(t, broker.addr)
			d := duplicates{topic: topic, id: producerID(t, w)}
			for i := range uint32(7) {
				d.send(t, w, i, uint64(10*i))
			}
			for round, fill := range []int{0, 48 << 20} { // the journal has 32 MiB
				if testing.Short() && fill > 0 {
					continue
				}
				fillTopic(t, w, other, fill)
				if how == "stop" {
					broker.stop(t)
				} else {
					broker.kill()
				}
				broker = startChild(t, dir, "")
				w = dial(t, broker.addr)
				for i := uint32(2); i < 7; i++ { // the last five are remembered
					d.send(t, w, i, uint64(10*i))
				}
				d.refused(t, w, 0, frame.ErrSequence)
				d.refused(t, w, 8, frame.ErrSequence)
				if end := describe(t, connect(t, broker.addr), "once").Partitions[0].LogEnd; end != 70 {
					t.Errorf("round %d: log end %d after repeats, want 70", round, end)
				}
			}
			d.send(t, w, 7, 70)
		})
	}
}

// duplicates is a producer of batches of ten records.
type duplicates struct {
	topic uint32
	id    frame.ProducerIDReply
}

func producerID(t *testing.T, w *wire) (id frame.ProducerIDReply) {
	t.Helper()
	_, payload := w.ask(t, frame.CmdProducerID, &frame.Empty{})
	if err := id.Decode(payload); err != nil {
		t.Fatal(err)
	}
	return id
}

func (d *duplicates) produce(t *testing.T, w *wire, i uint32) (frame.Header, []byte) {
	t.Helper()
	values := make([]string, 10)
	for j := range values {
		values[j] = fmt.Sprint(10*int(i) + j)
	}
	return w.ask(t, frame.CmdProduce, &frame.Produce{Topic: d.topic, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{
		ProducerID: d.id.ProducerID, ProducerEpoch: d.id.Epoch, BaseSequence: 10 * i,
	}, values...)})
}

// send sends batch i, which must be answered with offset want.
func (d *duplicates) send(t *testing.T, w *wire, i uint32, want uint64) {
	t.Helper()
	h, payload := d.produce(t, w, i)
	var r frame.ProduceReply
	if h.Command != frame.CmdProduce || r.Decode(payload) != nil || r.BaseOffset != want {
		t.Fatalf("batch %d: %v %+v, want offset %d", i, h.Command, r, want)
	}
}

func (d *duplicates) refused(t *testing.T, w *wire, i uint32, code frame.ErrorCode) {
	t.Helper()
	h, payload := d.produce(t, w, i)
	if e := refusal(t, h, payload); e.Code != code || code == frame.ErrSequence && e.First != 70 {
		t.Errorf("batch %d: %+v, want %v from 70", i, e, code)
	}
}

// fillTopic appends about n bytes through the journal, in batches below the size that goes to segments directly.
func fillTopic(t *testing.T, w *wire, topic uint32, n int) {
	t.Helper()
	b := batchOf(batch.Options{}, string(make([]byte, 100_000)))
	for sent := 0; sent < n; sent += len(b) {
		h, payload := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: topic, Acks: frame.AcksDurable, Batch: b})
		if h.Command != frame.CmdProduce {
			if e := refusal(t, h, payload); e.Code != frame.ErrBusy {
				t.Fatalf("filling: %+v", e)
			}
		}
	}
}

// A clean stop under load ends within ten seconds and loses nothing that was acknowledged, and the next start knows that
// it was clean.
func TestCleanStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	c := &campaign{}
	random := rand.New(rand.NewPCG(*campaignSeed, 7))
	for round := range 2 {
		broker := startChild(t, dir, "")
		c.firstAck(t, broker.addr, time.Now(), round == 0)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for range campaignProducers {
			seed := random.Uint64()
			running.Go(func() { c.produce(ctx, t, broker.addr, seed) })
		}
		before := c.acked.Load()
		eventually(t, 10*time.Second, "load", func() bool { return c.acked.Load() > before+2000 })
		began := time.Now()
		broker.stop(t)
		took := time.Since(began)
		cancel()
		running.Wait()
		if took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if !strings.Contains(broker.log.String(), "stopping") {
			t.Errorf("the log says nothing of the stop:\n%s", broker.log.String())
		}
		again := startChild(t, dir, "")
		again.stop(t)
		if log := again.log.String(); !strings.Contains(log, "stop=clean") || strings.Contains(log, "level=ERROR") {
			t.Errorf("the start after a clean stop says:\n%s", log)
		}
		t.Logf("stopped in %v with %d records acknowledged so far", took.Round(time.Millisecond), c.acked.Load())
	}
	c.verify(t, dir, true)
}

// Producer, consumer and subscription of one client live through SIGKILL and a new start on the same port: every record
// arrives once, in order.
func TestClientOutlivesKill(t *testing.T) {
	dir := t.TempDir()
	broker := startChild(t, dir, "")
	c := connect(t, broker.addr)
	ctx := within(t, 40*time.Second)
	if _, err := c.CreateTopic(ctx, "alive", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(ctx, "alive", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := c.Consumer(ctx, "alive", client.ConsumerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	sub, err := c.Subscribe(ctx, "alive", client.SubscribeOptions{Start: client.FromStart()})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	const n, kills = 3000, 3
	var readers sync.WaitGroup
	readers.Go(func() { readInOrder(t, ctx, "consumer", n, consumer.Poll) })
	readers.Go(func() { readInOrder(t, ctx, "subscription", n, sub.Poll) })
	for i := range n {
		if err := p.Produce(ctx, &client.Record{Value: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
		if i%(n/kills) == n/kills/2 {
			broker.kill() // with records on their way
			broker = startChild(t, dir, broker.addr)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Errorf("flush: %v", err)
	}
	readers.Wait()
	if end := describe(t, c, "alive").Partitions[0].LogEnd; end != n {
		t.Errorf("log end %d, want %d", end, n)
	}
}

func readInOrder(t *testing.T, ctx context.Context, who string, n int, poll func(context.Context, int) ([]client.Record, error)) {
	for next := 0; next < n; {
		records, err := poll(ctx, n-next)
		if err != nil {
			t.Errorf("%s after %d records: %v", who, next, err)
			return
		}
		for _, r := range records {
			if string(r.Value) != fmt.Sprint(next) || r.Offset != uint64(next) {
				t.Errorf("%s: %q at %d, want %d", who, r.Value, r.Offset, next)
				return
			}
			next++
		}
	}
}
