package slipring_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// answer is what a PRODUCE gets, as the table of DESIGN.md says.
type answer string

const (
	noReply     answer = "no reply"
	early       answer = "before the flush"
	afterFlush  answer = "after the flush"
	refuseDurab answer = "refused"
)

// The acknowledgement table: for every kind of topic and every acks.
func TestAcksTable(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	addr := b.Addr().String()
	c := connect(t, addr)
	for _, x := range []struct {
		topic           string
		settings        frame.Settings
		leader, durable answer
		strongest       frame.Acks
	}{
		{"sync", frame.Settings{}, early, afterFlush, frame.AcksDurable},
		{"interval", frame.Settings{Mask: frame.SetDurability | frame.SetIntervalMillis, Durability: frame.DurabilityInterval, IntervalMillis: 200}, early, afterFlush, frame.AcksDurable},
		{"none", frame.Settings{Mask: frame.SetDurability, Durability: frame.DurabilityNone}, early, refuseDurab, frame.AcksLeader},
		{"push", frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone}, early, refuseDurab, frame.AcksLeader},
	} {
		t.Run(x.topic, func(t *testing.T) {
			id, err := c.CreateTopic(within(t, 10*time.Second), x.topic, 1, x.settings)
			if err != nil {
				t.Fatal(err)
			}
			w := dial(t, addr)
			h, _ := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: id, Acks: frame.AcksLeader, Batch: batchOf(batch.Options{}, "first")})
			if h.Command != frame.CmdProduce { // from here on the offset ceiling is known
				t.Fatalf("leader: %v", h.Command)
			}
			checkAnswer(t, w, id, frame.AcksNone, noReply)
			checkAnswer(t, w, id, frame.AcksLeader, x.leader)
			checkAnswer(t, w, id, frame.AcksDurable, x.durable)
			want := uint64(4)
			if x.durable == refuseDurab {
				want = 3
			}
			eventually(t, 5*time.Second, "records of all that was not refused", func() bool {
				return describe(t, c, x.topic).Partitions[0].LogEnd == want
			})
			p, err := c.Producer(within(t, 10*time.Second), x.topic, client.ProducerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Acks() != x.strongest {
				t.Errorf("a client asks for %v, want %v", p.Acks(), x.strongest)
			}
			if _, err := c.Producer(within(t, 10*time.Second), x.topic, client.ProducerOptions{Acks: client.AcksDurable}); errors.Is(err, client.ErrDurability) != (x.durable == refuseDurab) {
				t.Errorf("a client that insists on durable: %v", err)
			}
		})
	}
	_, err := c.CreateTopic(within(t, 10*time.Second), "memory", 1, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageMemory})
	if !errors.Is(err, client.ErrInvalidSetting) {
		t.Errorf("storage memory, which this version does not offer: %v", err)
	}
}

// checkAnswer sends PRODUCE and, in the same write, a DESCRIBE TOPIC, which is answered at once. So the order of the two
// replies tells whether PRODUCE waited for the disk, and the description how far the flushes had come.
func checkAnswer(t *testing.T, w *wire, id uint32, acks frame.Acks, want answer) {
	t.Helper()
	w.last += 2
	produce, other := w.last-1, w.last
	m := frame.Produce{Topic: id, Acks: acks, Batch: batchOf(batch.Options{}, fmt.Sprint(acks))}
	w.put(t, frame.AppendFrame(frame.AppendFrame(nil, frame.CmdProduce, 0, produce, &m), frame.CmdPing, 0, other, &frame.Empty{}))
	h, payload := w.next(t)
	if want == noReply || want == afterFlush {
		if h.RequestID != other {
			t.Errorf("acks %v was answered with %v before PING, want %s", acks, h.Command, want)
			return
		}
		if want == noReply {
			return
		}
		h, payload = w.next(t)
	}
	switch {
	case h.RequestID != produce:
		t.Errorf("acks %v: reply %d, want %d: %s", acks, h.RequestID, produce, want)
	case want == refuseDurab:
		if e := refusal(t, h, payload); e.Code != frame.ErrDurability || e.Outcome != frame.NotDone || e.Retriable {
			t.Errorf("acks %v: %+v", acks, e)
		}
	case h.Command != frame.CmdProduce:
		t.Errorf("acks %v: %v, want %s", acks, h.Command, want)
	}
	if want == early || want == refuseDurab {
		w.next(t)
	}
}

// On a durable acknowledgement the durable end has passed the record, whatever the topic's durability.
func TestDurableAckMeansDurableEnd(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	for _, durability := range []frame.Durability{frame.DurabilitySync, frame.DurabilityInterval} {
		topic := "durable." + fmt.Sprint(uint8(durability))
		ctx := within(t, 20*time.Second)
		if _, err := c.CreateTopic(ctx, topic, 1, frame.Settings{Mask: frame.SetDurability | frame.SetIntervalMillis, Durability: durability, IntervalMillis: 20}); err != nil {
			t.Fatal(err)
		}
		p, err := c.Producer(ctx, topic, client.ProducerOptions{Acks: client.AcksDurable})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			r, err := p.ProduceSync(ctx, &client.Record{Value: make([]byte, 1+i*30_000)})
			if err != nil {
				t.Fatal(err)
			}
			if d := describe(t, c, topic).Partitions[0]; d.DurableEnd <= r.Offset || d.HighWatermark <= r.Offset {
				t.Errorf("%s: offset %d is acknowledged, durable end %d, high watermark %d", topic, r.Offset, d.DurableEnd, d.HighWatermark)
			}
		}
	}
}

// A topic with storage none pushes to whoever is there, tells how much it dropped for want of credit, and keeps nothing.
func TestStorageNone(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	addr := b.Addr().String()
	c := connect(t, addr)
	ctx := within(t, 20*time.Second)
	id, err := c.CreateTopic(ctx, "now", 2, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	if err != nil {
		t.Fatal(err)
	}
	produceValues(t, c, "now", client.ProducerOptions{}, "nobody is there")
	sub, err := c.Subscribe(ctx, "now", client.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for i := range 100 {
		produceValues(t, c, "now", client.ProducerOptions{Partitioner: client.Explicit()}, fmt.Sprint(i))
	}
	for i, r := range take(t, sub, 100) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("pushed %q as number %d", r.Value, i)
		}
	}
	if sub.Lost() != 0 {
		t.Errorf("%d lost", sub.Lost())
	}
	if p := describe(t, c, "now").Partitions[0]; p.Bytes != 0 || p.Segments != 0 {
		t.Errorf("something is kept: %+v", p)
	}
	checkLost(t, addr, id)
	w := dial(t, addr)
	_, payload := w.ask(t, frame.CmdFetch, &frame.Fetch{MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 1 << 20}}})
	var chunk frame.FetchChunk
	if err := chunk.Decode(payload); err != nil || chunk.Error != frame.ErrInvalidSetting {
		t.Errorf("a fetch was answered %v, %v", chunk.Error, err)
	}
	h, payload := w.ask(t, frame.CmdSubscribe, &frame.Subscribe{Name: "now", Partition: 0, Start: frame.SubscribeLog})
	if e := refusal(t, h, payload); e.Code != frame.ErrInvalidSetting {
		t.Errorf("a subscription from log start: %v", e.Code)
	}
}

// checkLost gives credit for two records and sends five; the next delivery tells of the three that were dropped.
func checkLost(t *testing.T, addr string, id uint32) {
	t.Helper()
	reader, writer := dial(t, addr), dial(t, addr)
	sub := reader.send(t, frame.CmdSubscribe, &frame.Subscribe{Name: "now", Partition: 1, Records: 2, Bytes: 1 << 20})
	reader.next(t)
	produce := func(v string) {
		t.Helper()
		if h, _ := writer.ask(t, frame.CmdProduce, &frame.Produce{Topic: id, Partition: 1, Acks: frame.AcksLeader, Batch: batchOf(batch.Options{}, v)}); h.Command != frame.CmdProduce {
			t.Fatalf("produce: %v", h.Command)
		}
	}
	for i := range 5 {
		produce(fmt.Sprint(i))
	}
	deliver := func(lost uint32) {
		t.Helper()
		h, payload := reader.next(t)
		var m frame.Deliver
		if h.Command != frame.CmdDeliver || h.RequestID != sub || m.Decode(payload) != nil || m.Lost != lost || m.Partition != 1 {
			t.Fatalf("%v %+v, want a delivery that tells of %d lost records", h, m, lost)
		}
	}
	deliver(0)
	deliver(0)
	reader.put(t, frame.AppendFrame(nil, frame.CmdCredit, 0, sub, &frame.Credit{Records: 10, Bytes: 1 << 20}))
	reader.ask(t, frame.CmdPing, &frame.Empty{}) // CREDIT has no reply of its own
	produce("with credit")
	deliver(3)
	produce("and another")
	deliver(0)
}
