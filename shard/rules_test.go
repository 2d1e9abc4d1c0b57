package shard_test

import (
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard/sim"
)

// restart ends w the hard way and starts again on what the medium holds.
func restart(t testing.TB, w *sim.World, starts uint64) *sim.World {
	t.Helper()
	return startOn(t, w.Dev.Crash(), sim.Options{Start: starts, Mono: w.Now(), Wall: w.Wall(), Disk: sim.SmallDisk()})
}

// silent fails if anything has arrived at c.
func silent(t testing.TB, c *sim.Client, why string) {
	t.Helper()
	if r, ok := c.Next(); ok {
		t.Fatalf("%s: got %v %+v", why, r.Command, r.Error())
	}
}

func next(t testing.TB, c *sim.Client) sim.Reply {
	t.Helper()
	r, ok := c.Next()
	if !ok {
		t.Fatal("nothing has arrived")
	}
	return r
}

func wantError(t testing.TB, r sim.Reply, code frame.ErrorCode) frame.Error {
	t.Helper()
	e := r.Error()
	if r.Command != frame.CmdError || e.Code != code {
		t.Fatalf("got %v %s %q, want %s", r.Command, e.Code.Name(), e.Text, code.Name())
	}
	return e
}

func producerID(t testing.TB, c *sim.Client) uint64 {
	t.Helper()
	var m frame.ProducerIDReply
	if r := c.Call(frame.CmdProducerID, &frame.Empty{}); m.Decode(r.Payload) != nil {
		t.Fatalf("producer id: %v %+v", r.Command, r.Error())
	}
	return m.ProducerID
}

func describe(t testing.TB, c *sim.Client, name string) frame.DescribeTopicReply {
	t.Helper()
	var m frame.DescribeTopicReply
	if r := c.Call(frame.CmdDescribeTopic, &frame.DescribeTopic{Name: name}); m.Decode(r.Payload) != nil {
		t.Fatalf("describe: %v %+v", r.Command, r.Error())
	}
	return m
}

// An idempotent producer sends, the broker checkpoints and stops, then crashes, and the batch is sent again: it is the
// same batch, at the same offset, once.
func TestRule05ProducersSurviveRestarts(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	first := batchOf(batch.Options{ProducerID: pid}, "a", "b")
	second := batchOf(batch.Options{ProducerID: pid, BaseSequence: 2}, "c")
	produce(t, c, id, 0, frame.AcksDurable, first)
	if !w.Stop() { // a clean stop snapshots everything and leaves no entry to replay
		t.Fatal("no clean stop")
	}
	w = restart(t, w, 2)
	c = w.Connect()
	produce(t, c, id, 0, frame.AcksDurable, second)
	w = restart(t, w, 3) // and this life left a journal only
	c = w.Connect()
	if r := produce(t, c, id, 0, frame.AcksDurable, second); r.BaseOffset != 2 {
		t.Errorf("a repeat after a crash is at %d, want 2", r.BaseOffset)
	}
	if r := produce(t, c, id, 0, frame.AcksDurable, first); r.BaseOffset != 0 {
		t.Errorf("a repeat after a checkpoint is at %d, want 0", r.BaseOffset)
	}
	wantValues(t, fetch(t, c, id, 0, 0).values, "a", "b", "c")
}

// A batch is staged and not flushed; the producer's retry finds it. Answering that at once would acknowledge what a power
// failure takes away.
func TestRule07aRepeatWaitsForItsOriginal(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	w.Settle()
	b := batchOf(batch.Options{ProducerID: pid}, "a")
	original := c.Produce(id, 0, frame.AcksDurable, b, frame.MaxPayload)
	w.Turn(0)
	repeat := c.Produce(id, 0, frame.AcksDurable, b, frame.MaxPayload)
	w.Turn(0)
	silent(t, c, "nothing is flushed")
	w.Settle()
	for _, want := range []uint64{original, repeat} {
		r := next(t, c)
		if r.RequestID != want || r.Produced().BaseOffset != 0 {
			t.Errorf("request %d: %v at %d, want request %d at 0", r.RequestID, r.Command, r.Produced().BaseOffset, want)
		}
	}
	produced := c.Await(c.Produce(id, 0, frame.AcksDurable, b, frame.MaxPayload)).Produced()
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
	if produced.BaseOffset != 0 {
		t.Errorf("a late repeat is at %d", produced.BaseOffset)
	}
}

// Neither the answer to CREATE nor the topic may be seen before its entry is durable, nor an answer that follows from it.
func TestRule07cMetadataWaitsForItsFlush(t *testing.T) {
	w := start(t)
	c := w.Connect()
	w.Settle()
	made := c.Send(frame.CmdCreateTopic, &frame.CreateTopic{Name: "t", Partitions: 1})
	again := c.Send(frame.CmdCreateTopic, &frame.CreateTopic{Name: "t", Partitions: 1})
	w.Turn(0)
	silent(t, c, "nothing is flushed")
	c.Send(frame.CmdMetadata, &frame.Metadata{Topics: []string{"t"}})
	var m frame.MetadataReply
	if err := m.Decode(next(t, c).Payload); err != nil || m.Topics[0].Error != frame.ErrUnknownTopic {
		t.Fatalf("METADATA shows a topic that is not durable: %+v %v", m, err)
	}
	w.Settle()
	if r := next(t, c); r.RequestID != made || r.Command != frame.CmdCreateTopic {
		t.Fatalf("%v %+v", r.Command, r.Error())
	}
	if r := next(t, c); r.RequestID != again {
		t.Fatalf("request %d", r.RequestID)
	} else {
		wantError(t, r, frame.ErrTopicExists)
	}
	c.Send(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"})
	w.Turn(0)
	silent(t, c, "the deletion is not flushed")
	c.Send(frame.CmdMetadata, &frame.Metadata{Topics: []string{"t"}})
	if err := m.Decode(next(t, c).Payload); err != nil || m.Topics[0].Error != 0 {
		t.Fatalf("METADATA hides a topic whose deletion is not durable: %+v %v", m, err)
	}
	w.Settle()
	if r := next(t, c); r.Command != frame.CmdDeleteTopic {
		t.Fatalf("%v %+v", r.Command, r.Error())
	}
}

// A deletion is durable, the journal still holds entries of the topic, and the power fails. The tombstone says that they
// are void; without it they look like damage, or come back.
func TestRule12dDeletedTopicStaysDeleted(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	create(t, c, "other", 1, frame.Settings{})
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "b"))
	if r := c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"}); r.Command != frame.CmdDeleteTopic {
		t.Fatalf("delete: %+v", r.Error())
	}
	for starts := uint64(2); starts < 5; starts++ {
		w = restart(t, w, starts)
		if w.Report.Damaged() {
			t.Fatalf("start %d: a clean deletion is reported as damage:\n%v", starts, w.Report)
		}
		c = w.Connect()
		wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "x"), frame.MaxPayload)), frame.ErrUnknownTopic)
		var list frame.ListTopicsReply
		if err := list.Decode(c.Call(frame.CmdListTopics, &frame.ListTopics{}).Payload); err != nil || len(list.Topics) != 1 || list.Topics[0].Name != "other" {
			t.Fatalf("start %d: %+v %v", starts, list, err)
		}
	}
}

// A name is deleted and created again: it is another topic, with another id, and nothing of the first one is in it.
func TestRule12eRecreatedTopicIsAnotherOne(t *testing.T) {
	w := start(t)
	c := w.Connect()
	old := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	produce(t, c, old, 0, frame.AcksDurable, batchOf(batch.Options{ProducerID: pid}, "old"))
	c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"})
	id := create(t, c, "t", 1, frame.Settings{})
	if id == old {
		t.Fatalf("id %d was given twice", id)
	}
	for starts := uint64(2); starts < 4; starts++ {
		wantError(t, c.Await(c.Produce(old, 0, frame.AcksDurable, batchOf(batch.Options{}, "x"), frame.MaxPayload)), frame.ErrUnknownTopic)
		wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{ProducerID: pid, BaseSequence: 1}, "x"), frame.MaxPayload)), frame.ErrUnknownProducer)
		if got := fetch(t, c, id, 0, 0); len(got.values) != 0 || got.HighWatermark != 0 {
			t.Fatalf("the new topic holds %q", got.values)
		}
		w = restart(t, w, starts)
		c = w.Connect()
	}
	c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"})
	w = restart(t, w, 5)
	if third := create(t, w.Connect(), "t", 1, frame.Settings{}); third <= id {
		t.Fatalf("id %d after %d", third, id)
	}
}

// CREATE is answered when the topic can be used: the very next frame may produce to it.
func TestRule12fCreatedTopicTakesProduceAtOnce(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 3, frame.Settings{})
	for n := range uint32(3) {
		produce(t, c, id, n, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	}
}

// A consumer reads records that are not durable yet, the power fails and they are gone. No other record may ever have
// their offsets, and the consumer goes on where it was.
func TestRule13NoOffsetMeansTwoRecords(t *testing.T) {
	lazy := frame.Settings{Mask: frame.SetDurability | frame.SetIntervalMillis, Durability: frame.DurabilityInterval, IntervalMillis: 3_600_000}
	for _, c := range []struct {
		name string
		set  frame.Settings
		read bool
	}{
		{"interval", lazy, true},
		{"none", durability(frame.DurabilityNone), true},
		{"leader on sync", frame.Settings{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			k := w.Connect()
			id := create(t, k, "t", 1, c.set)
			produce(t, k, id, 0, frame.AcksLeader, batchOf(batch.Options{}, "first")) // waits for the ceiling
			w.Settle()
			r := k.Produce(id, 0, frame.AcksLeader, batchOf(batch.Options{}, "a", "b", "c"), frame.MaxPayload)
			told := next(t, k)
			if told.RequestID != r || told.Command != frame.CmdProduce {
				t.Fatalf("acks leader was not answered at once: %v", told.Command)
			}
			end := told.Produced().BaseOffset + 3
			if got := fetch(t, k, id, 0, 0); c.read && got.HighWatermark != end {
				t.Fatalf("high watermark %d, want %d", got.HighWatermark, end)
			}
			w = restart(t, w, 2)
			k = w.Connect()
			base := produce(t, k, id, 0, frame.AcksLeader, batchOf(batch.Options{}, "new")).BaseOffset
			if base < end {
				t.Fatalf("offset %d was told before the crash and is another record now", base)
			}
			w.Settle()
			if c.read {
				got := fetch(t, k, id, 0, end)
				wantValues(t, got.values, "new")
			}
			w.Stop()
			w = restart(t, w, 3)
			if got := describe(t, w.Connect(), "t").Partitions[0]; got.LogEnd != base+1 {
				t.Errorf("a clean stop leaves a gap: log end %d, want %d", got.LogEnd, base+1)
			}
		})
	}
}

// Staged records are invisible, and they can be dropped whole: log end, sequences and answers go back as if they had never
// been.
func TestRule15StagedStateIsAnOverlay(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	pid := producerID(t, c)
	first := batchOf(batch.Options{ProducerID: pid}, "a")
	second := batchOf(batch.Options{ProducerID: pid, BaseSequence: 1}, "b", "c")
	third := batchOf(batch.Options{ProducerID: pid, BaseSequence: 3}, "d")
	produce(t, c, id, 0, frame.AcksDurable, first)
	w.Settle()
	flying := c.Produce(id, 1, frame.AcksDurable, batchOf(batch.Options{}, "x"), frame.MaxPayload)
	w.Turn(0) // its group is in flight, so what follows stays staged
	refused := []uint64{
		c.Produce(id, 0, frame.AcksDurable, second, frame.MaxPayload),
		c.Produce(id, 0, frame.AcksDurable, third, frame.MaxPayload),
		c.Produce(id, 0, frame.AcksDurable, second, frame.MaxPayload), // a repeat, told the same
	}
	reader := c.Send(frame.CmdFetch, &frame.Fetch{MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 1 << 20}}})
	w.Turn(0)
	if r := next(t, c); r.RequestID != reader {
		t.Fatalf("%v for request %d", r.Command, r.RequestID)
	} else {
		wantValues(t, chunks(t, r)[0].values, "a")
	}
	w.Shard.DropStaged(id, 0)
	for _, id := range refused {
		r := next(t, c)
		if e := wantError(t, r, frame.ErrBusy); r.RequestID != id || e.Outcome != frame.NotDone || !e.Retriable {
			t.Errorf("request %d: %+v", r.RequestID, e)
		}
	}
	w.Settle()
	if r := next(t, c); r.RequestID != flying || r.Command != frame.CmdProduce {
		t.Fatalf("the group in flight: %v %+v", r.Command, r.Error())
	}
	if got := describe(t, c, "t").Partitions[0]; got.LogEnd != 1 || got.HighWatermark != 1 {
		t.Errorf("log end %d, high watermark %d, want 1", got.LogEnd, got.HighWatermark)
	}
	wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, third, frame.MaxPayload)), frame.ErrSequence)
	if r := produce(t, c, id, 0, frame.AcksDurable, second); r.BaseOffset != 1 {
		t.Errorf("the second batch is at %d", r.BaseOffset)
	}
	wantValues(t, fetch(t, c, id, 0, 0).values, "a", "b", "c")
	w = restart(t, w, 2)
	wantValues(t, fetch(t, w.Connect(), id, 0, 0).values, "a", "b", "c")
}

// A batch that says one record and holds three would overlap the offsets after it.
func TestRule17RecordFramingIsChecked(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	whole := batchOf(batch.Options{}, "a", "b", "c")
	h, err := batch.ParseHeader(whole)
	if err != nil {
		t.Fatal(err)
	}
	h.Count, h.LastOffsetDelta = 1, 0
	lie := append(h.Append(nil), whole[batch.HeaderBytes:]...)
	e := wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, lie, frame.MaxPayload)), frame.ErrCorrupt)
	if e.Outcome != frame.NotDone || e.Retriable {
		t.Errorf("%+v", e)
	}
	if got := fetch(t, c, id, 0, 0); got.HighWatermark != 0 {
		t.Errorf("high watermark %d", got.HighWatermark)
	}
}

// One delivery is allowed while there is credit, so that a record larger than the credit moves; it takes the credit below
// zero and is the last one until more is given.
func TestRule21CreditGoesBelowZeroByOneDelivery(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	for range 4 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a", "b", "c"))
	}
	sub := c.Send(frame.CmdSubscribe, &frame.Subscribe{Name: "t", Start: frame.SubscribeLog, Records: 1, Bytes: 1 << 20})
	deliveries := func(want ...string) {
		t.Helper()
		w.Turn(0)
		var got []string
		for {
			r, ok := c.Next()
			if !ok {
				break
			}
			if r.Command != frame.CmdDeliver || r.RequestID != sub || r.More() {
				t.Fatalf("%v %+v", r.Command, r.Error())
			}
			var m frame.Deliver
			if err := m.Decode(r.Payload); err != nil || m.Topic != id || m.Lost != 0 {
				t.Fatalf("%+v %v", m, err)
			}
			values, _ := records(t, m.Data)
			got = append(got, values...)
		}
		wantValues(t, got, want...)
	}
	if r := next(t, c); r.Command != frame.CmdSubscribe {
		t.Fatalf("subscribe: %v %+v", r.Command, r.Error())
	}
	deliveries("a", "b", "c") // 1 - 3 = -2
	credit := func(records, bytes int64) {
		c.SendAs(frame.CmdCredit, sub, &frame.Credit{Records: records, Bytes: bytes})
	}
	credit(2, 0) // 0: still spent
	deliveries()
	credit(1, 0)
	deliveries("a", "b", "c")
	credit(1000, -0)
	deliveries("a", "b", "c", "a", "b", "c")
	if r := c.Call(frame.CmdUnsubscribe, &frame.Unsubscribe{}); r.Error().Code != frame.ErrUnknownSubscription {
		t.Errorf("unsubscribe of nothing: %v", r.Command)
	}
	c.SendAs(frame.CmdUnsubscribe, sub, &frame.Unsubscribe{})
	if r := next(t, c); r.Command != frame.CmdUnsubscribe || r.RequestID != sub {
		t.Errorf("%v %+v", r.Command, r.Error())
	}
}

// A client that finds another directory behind the same address must notice: ids in it mean other topics.
func TestRule23DirectoryIDIsTold(t *testing.T) {
	for _, id := range [][16]byte{{1}, {2, 15: 9}} {
		w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Dir: id})
		c := w.Dial()
		var m frame.HelloReply
		r := c.Call(frame.CmdHello, &frame.Hello{MinVersion: 1, MaxVersion: 1})
		if err := m.Decode(r.Payload); err != nil || m.DirectoryID != id {
			t.Errorf("HELLO tells directory %x, want %x (%v)", m.DirectoryID, id, err)
		}
		c.Hangup()
		c = w.Connect()
		topic := create(t, c, "t", 1, frame.Settings{})
		produce(t, c, topic, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
		h, err := batch.ParseHeader(fetch(t, c, topic, 0, 0).Data)
		if err != nil || h.PartitionTag != batch.PartitionTag(id, topic, 0) {
			t.Errorf("partition tag %x does not follow from the directory (%v)", h.PartitionTag, err)
		}
	}
}

// A flush neither fails nor ends: new PRODUCE is answered BUSY and not done, reads go on, and a late completion resumes.
func TestRule30StalledFlush(t *testing.T) {
	dev := disk.NewSim(disk.SimOptions{Seed: 1})
	w := startOn(t, dev, sim.Options{Disk: sim.SmallDisk()})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	w.Settle()
	dev.Plan(disk.SimFault{Kind: disk.OpWrite, Prefix: "shard-00/journal", Times: 1, StallNanos: 5e9})
	waiting := c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "b"), frame.MaxPayload)
	w.Turn(8)
	w.Advance(1_100e6)
	w.Turn(8)
	refused := c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "c"), frame.MaxPayload)
	r := next(t, c)
	if e := wantError(t, r, frame.ErrBusy); r.RequestID != refused || e.Outcome != frame.NotDone || !e.Retriable || e.DelayMillis == 0 {
		t.Fatalf("request %d: %+v", r.RequestID, e)
	}
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
	w.Advance(5e9)
	w.Settle()
	if r := next(t, c); r.RequestID != waiting || r.Command != frame.CmdProduce {
		t.Fatalf("the stalled batch: %v %+v", r.Command, r.Error())
	}
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "d"))
	wantValues(t, fetch(t, c, id, 0, 0).values, "a", "b", "d")
}

// Frames that were begun hold memory for the bytes that arrived, not for those that were announced; before HELLO no frame
// is larger than 4 KiB.
func TestRule31UnfinishedFramesHoldWhatArrived(t *testing.T) {
	w := start(t)
	var all []*sim.Client
	before := w.Pool.Stats().InUse
	for range 50 {
		c := w.Connect()
		c.Raw(frame.AppendHeader(nil, frame.CmdFetch, 0, 1, frame.MaxPayload))
		c.Raw(make([]byte, 100))
		all = append(all, c)
	}
	if held := w.Pool.Stats().InUse - before; held > len(all)*64<<10 {
		t.Errorf("%d unfinished frames of 1 MiB hold %d bytes for 100 each", len(all), held)
	}
	for _, c := range all {
		c.Hangup()
	}
	if held := w.Pool.Stats().InUse - before; held != 0 {
		t.Errorf("%d bytes are held for nobody", held)
	}
	c := w.Dial()
	c.Raw(frame.AppendHeader(nil, frame.CmdHello, 0, 1, frame.MaxPayloadBeforeAuth+1))
	wantError(t, next(t, c), frame.ErrTooLarge)
	if c.Open() {
		t.Error("the connection is still open")
	}
}
