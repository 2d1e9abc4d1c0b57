package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard/sim"
)

const plenty = 1 << 40

// subscribe asks for a topic and expects to get it.
func subscribe(t testing.TB, c *sim.Client, m frame.Subscribe) uint64 {
	t.Helper()
	id := c.Send(frame.CmdSubscribe, &m)
	if r := c.Await(id); r.Command != frame.CmdSubscribe || len(r.Payload) != 0 {
		t.Fatalf("subscribe: %v %+v", r.Command, r.Error())
	}
	return id
}

// delivered takes every DELIVER that has arrived and joins its data by partition.
func delivered(t testing.TB, c *sim.Client, sub uint64) (values map[uint32][]string, lost int) {
	t.Helper()
	data := make(map[uint32][]byte)
	for {
		r, ok := c.Next()
		if !ok {
			break
		}
		var m frame.Deliver
		if r.Command != frame.CmdDeliver || r.RequestID != sub || m.Decode(r.Payload) != nil {
			t.Fatalf("%v for %d: %+v", r.Command, r.RequestID, r.Error())
		}
		data[m.Partition] = append(data[m.Partition], m.Data...)
		lost += int(m.Lost)
	}
	values = make(map[uint32][]string)
	for p, d := range data {
		values[p], _ = records(t, d)
	}
	return values, lost
}

func TestSubscriptionStarts(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a", "b"))
	produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "c"))
	all := frame.Subscribe{Name: "t", Partition: frame.AllPartitions, Records: plenty, Bytes: plenty}
	for _, x := range []struct {
		name string
		m    frame.Subscribe
		want string
	}{
		{"tail", all, "map[0:[d] 1:[e]]"},
		{"log", func() frame.Subscribe { m := all; m.Start = frame.SubscribeLog; return m }(), "map[0:[a b d] 1:[c e]]"},
		{"one partition", frame.Subscribe{Name: "t", Partition: 1, Start: frame.SubscribeLog, Records: plenty, Bytes: plenty}, "map[1:[c e]]"},
		{"offset", frame.Subscribe{Name: "t", Partition: 0, Start: frame.SubscribeOffset, Offset: 2, Records: plenty, Bytes: plenty}, "map[0:[d]]"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := start(t)
			c := w.Connect()
			id := create(t, c, "t", 2, frame.Settings{})
			produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a", "b"))
			produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "c"))
			reader := w.Connect()
			sub := subscribe(t, reader, x.m)
			w.Settle()
			produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "d"))
			produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "e"))
			w.Settle()
			if got, _ := delivered(t, reader, sub); fmt.Sprint(got) != x.want {
				t.Errorf("got %v, want %s", got, x.want)
			}
		})
	}
	for _, x := range []struct {
		m    frame.Subscribe
		code frame.ErrorCode
	}{
		{frame.Subscribe{Name: "u", Partition: frame.AllPartitions}, frame.ErrUnknownTopic},
		{frame.Subscribe{Name: "../u", Partition: frame.AllPartitions}, frame.ErrInvalidName},
		{frame.Subscribe{Name: "t", Partition: 2}, frame.ErrUnknownPartition},
		{frame.Subscribe{Name: "t", Partition: 0, Start: frame.SubscribeOffset, Offset: 3}, frame.ErrOffsetOutOfRange},
	} {
		wantError(t, c.Call(frame.CmdSubscribe, &x.m), x.code)
	}
}

// Nothing leaves before it is durable, subscriptions included.
func TestDeliveryWaitsForTheFlush(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	sub := subscribe(t, c, frame.Subscribe{Name: "t", Records: plenty, Bytes: plenty})
	w.Settle()
	c.Produce(id, 0, frame.AcksNone, batchOf(batch.Options{}, "a"), frame.MaxPayload)
	w.Turn(0)
	w.Turn(0)
	silent(t, c, "it is not flushed")
	w.Settle()
	if got, _ := delivered(t, c, sub); fmt.Sprint(got) != "map[0:[a]]" {
		t.Errorf("got %v", got)
	}
}

// A batch larger than the credit in bytes moves all the same, whole, in several frames; then the credit is spent.
func TestRule21LargeBatchMoves(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	large := strings.Repeat("L", 700_000)
	c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, large), frame.MaxPayload))
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "next"))
	sub := subscribe(t, c, frame.Subscribe{Name: "t", Start: frame.SubscribeLog, Records: plenty, Bytes: 1})
	w.Settle()
	pieces, more := 0, 0
	var data []byte
	for {
		r, ok := c.Next()
		if !ok {
			w.Settle()
			if r, ok = c.Next(); !ok {
				break
			}
		}
		var m frame.Deliver
		if err := m.Decode(r.Payload); err != nil || r.Command != frame.CmdDeliver {
			t.Fatalf("%v %v", r.Command, err)
		}
		pieces++
		if r.More() {
			more++
		}
		data = append(data, m.Data...)
	}
	values, _ := records(t, data)
	if len(values) != 1 || values[0] != large || pieces < 2 || more != pieces-1 {
		t.Fatalf("%d records in %d frames, %d with more", len(values), pieces, more)
	}
	c.SendAs(frame.CmdCredit, sub, &frame.Credit{Bytes: 600_000}) // still below zero
	w.Settle()
	silent(t, c, "the credit is spent")
	c.SendAs(frame.CmdCredit, sub, &frame.Credit{Bytes: 200_000})
	w.Settle()
	if got, _ := delivered(t, c, sub); fmt.Sprint(got) != "map[0:[next]]" {
		t.Errorf("got %v", got)
	}
}

// Storage none: what finds no credit is dropped and counted; nobody else is touched.
func TestStorageNoneDropsAndCounts(t *testing.T) {
	w := start(t)
	c, poor, rich := w.Connect(), w.Connect(), w.Connect()
	id := create(t, c, "t", 1, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	broke := subscribe(t, poor, frame.Subscribe{Name: "t", Records: 2, Bytes: plenty})
	fine := subscribe(t, rich, frame.Subscribe{Name: "t", Records: plenty, Bytes: plenty})
	for i := range 5 {
		r := produce(t, c, id, 0, frame.AcksLeader, batchOf(batch.Options{}, fmt.Sprint(i), "x"))
		if r.BaseOffset != uint64(2*i) {
			t.Errorf("batch %d is at %d", i, r.BaseOffset)
		}
	}
	if got, lost := delivered(t, poor, broke); fmt.Sprint(got) != "map[0:[0 x]]" || lost != 0 {
		t.Errorf("got %v, lost %d", got, lost)
	}
	if got, lost := delivered(t, rich, fine); len(got[0]) != 10 || lost != 0 {
		t.Errorf("got %v, lost %d", got, lost)
	}
	poor.SendAs(frame.CmdCredit, broke, &frame.Credit{Records: 10})
	produce(t, c, id, 0, frame.AcksLeader, batchOf(batch.Options{}, "5"))
	if got, lost := delivered(t, poor, broke); fmt.Sprint(got) != "map[0:[5]]" || lost != 8 {
		t.Errorf("got %v, lost %d, want 8", got, lost)
	}
	poor.SendAs(frame.CmdUnsubscribe, broke, &frame.Unsubscribe{})
	if r := next(t, poor); r.Command != frame.CmdUnsubscribe {
		t.Fatalf("%v", r.Command)
	}
	produce(t, c, id, 0, frame.AcksLeader, batchOf(batch.Options{}, "6"))
	silent(t, poor, "it has left")
	wantError(t, c.Call(frame.CmdSubscribe, &frame.Subscribe{Name: "t", Start: frame.SubscribeLog}), frame.ErrInvalidSetting)
}

// A topic is deleted under its readers: each is told, once, under its own id.
func TestDeletionEndsSubscriptions(t *testing.T) {
	w := start(t)
	c, reader := w.Connect(), w.Connect()
	create(t, c, "t", 3, frame.Settings{})
	sub := subscribe(t, reader, frame.Subscribe{Name: "t", Partition: frame.AllPartitions, Records: plenty, Bytes: plenty})
	c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"})
	if r := next(t, reader); r.RequestID != sub {
		t.Fatalf("request %d", r.RequestID)
	} else {
		wantError(t, r, frame.ErrUnknownTopic)
	}
	silent(t, reader, "once")
	reader.SendAs(frame.CmdCredit, sub, &frame.Credit{Records: 1})
	silent(t, reader, "CREDIT has no reply")
	create(t, c, "t", 1, frame.Settings{})
	subscribe(t, reader, frame.Subscribe{Name: "t", Partition: frame.AllPartitions, Records: plenty, Bytes: plenty})
}

// A subscription without credit falls behind the log start: it ends with the valid range, and never jumps in silence.
func TestSubscriptionBelowLogStartEnds(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{Mask: frame.SetRetentionRecords, RetentionRecords: 4})
	for range 6 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a", "b"))
	}
	sub := subscribe(t, c, frame.Subscribe{Name: "t", Start: frame.SubscribeLog})
	w.Advance(2e9)
	w.Settle()
	silent(t, c, "no credit")
	c.SendAs(frame.CmdCredit, sub, &frame.Credit{Records: 100, Bytes: plenty})
	w.Settle()
	r := next(t, c)
	if e := wantError(t, r, frame.ErrOffsetOutOfRange); r.RequestID != sub || e.First != 8 || e.Last != 12 {
		t.Errorf("request %d: %+v", r.RequestID, e)
	}
}

// A subscriber that does not read holds cursors; the others get everything at once.
func TestSlowSubscriberTouchesNobody(t *testing.T) {
	w := start(t)
	c, slow, quick := w.Connect(), w.Connect(), w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	all := frame.Subscribe{Name: "t", Records: plenty, Bytes: plenty}
	lazy, eager := subscribe(t, slow, all), subscribe(t, quick, all)
	got := 0
	for range 50 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 10_000)))
		w.Settle()
		values, _ := delivered(t, quick, eager)
		got += len(values[0])
	}
	if got != 50 {
		t.Errorf("the quick one got %d of 50", got)
	}
	if queued := w.Net.Queued(slow.ID()); queued > 64<<10+256<<10 {
		t.Errorf("%d bytes wait for the slow one", queued)
	}
	n := 0
	for range 20 {
		values, _ := delivered(t, slow, lazy)
		n += len(values[0])
		w.Settle()
	}
	if n != 50 {
		t.Errorf("the slow one got %d of 50 in the end", n)
	}
}
