package shard_test

import (
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard/sim"
)

// A batch outside the journal waits for its flush when an entry is staged that says where its producer stands, without it.
// The batch lands first, and a snapshot is taken before the entry does: it names an index before the entry, and knows
// more. Replay must not take the producer back.
func TestRule05EntryDoesNotTakeProducersBack(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "lazy", 1, frame.Settings{
		Mask:       frame.SetDurability | frame.SetIntervalMillis | frame.SetRetentionRecords,
		Durability: frame.DurabilityInterval, IntervalMillis: 5, RetentionRecords: 1,
	})
	fill := create(t, c, "fill", 1, frame.Settings{})
	pid := producerID(t, c)
	send := func(o batch.Options, value string) frame.ProduceReply {
		t.Helper()
		return produce(t, c, id, 0, frame.AcksDurable, batchOf(o, value))
	}
	send(batch.Options{ProducerID: pid}, "a")
	send(batch.Options{}, "b")
	large := batchOf(batch.Options{}, string(make([]byte, 7<<10))) // small enough for the journal
	for range 24 {                                                 // a little below the half of the ring at which a checkpoint begins
		produce(t, c, fill, 0, frame.AcksDurable, large)
	}
	w.Settle()

	trims := w.Shard.Stats().Trims
	w.Dev.Plan(disk.SimFault{Kind: disk.OpWrite, Prefix: "shard-00/journal", Times: 1, StallNanos: 900e6})
	w.Advance(1_100e6)
	third := c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{ProducerID: pid, BaseSequence: 1}, "c"), frame.MaxPayload)
	for range 4 { // the sweep looks the log start up, and stages the entry and the trim that takes "a"
		w.Turn(8)
	}
	if got := w.Shard.Stats().Trims; got != trims+1 {
		t.Fatalf("%d trims, want %d: the entry must be under way", got, trims+1)
	}
	if r := c.Await(third); r.Command != frame.CmdProduce {
		t.Fatalf("%v %+v", r.Command, r.Error())
	}
	for range 10 {
		c.Produce(fill, 0, frame.AcksDurable, large, frame.MaxPayload)
	}
	for range 20 { // the checkpoint takes its snapshot of the topic; the journal does not answer
		w.Turn(8)
	}
	if start := describe(t, c, "lazy").Partitions[0].LogStart; start != 0 {
		t.Fatalf("log start %d: the entry landed too early", start)
	}
	w.Advance(1e9)
	w.Settle()

	w = startOn(t, w.Dev.Crash(), sim.Options{Start: 2, Mono: w.Now(), Wall: w.Wall(), Disk: sim.SmallDisk()})
	if w.Report.Snapshots == 0 {
		t.Fatalf("no snapshot was taken: %v", w.Report)
	}
	c = w.Connect()
	if r := send(batch.Options{ProducerID: pid, BaseSequence: 1}, "c"); r.BaseOffset != 2 {
		t.Errorf("a repeat is at %d, want 2", r.BaseOffset)
	}
	send(batch.Options{ProducerID: pid, BaseSequence: 2}, "d")
}
