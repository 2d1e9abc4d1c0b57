package shard_test

import (
	"strings"
	"testing"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// What docs/PROTOCOL.md promises beyond the numbered rules.

// A bound in bytes alone lets the oldest segments go, keeps at least as much, and what is left can be read.
func TestRetentionByBytes(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{
		Mask: frame.SetSegmentBytes | frame.SetRetentionBytes, SegmentBytes: 64 << 10, RetentionBytes: 128 << 10})
	value := strings.Repeat("x", 4000)
	for range 200 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, value))
	}
	for range 5 {
		w.Advance(2e9)
		w.Settle()
	}
	p := describe(t, c, "t").Partitions[0]
	if p.LogStart == 0 || p.LogEnd != 200 || p.Bytes < 128<<10 || p.Bytes > 192<<10+4096 {
		t.Fatalf("%d bytes in %d segments, offsets %d to %d", p.Bytes, p.Segments, p.LogStart, p.LogEnd)
	}
	if got := fetch(t, c, id, 0, p.LogStart); uint64(len(got.values)) != p.LogEnd-p.LogStart {
		t.Errorf("%d records from %d to %d", len(got.values), p.LogStart, p.LogEnd)
	}
	if got := fetch(t, c, id, 0, 0); got.Error != frame.ErrOffsetOutOfRange || got.LogStart != p.LogStart {
		t.Errorf("below log start: %v", got.FetchChunk)
	}
}

func TestMetadataOfUnknownTopicsIsEmpty(t *testing.T) {
	w := start(t)
	c := w.Connect()
	r := c.Call(frame.CmdMetadata, &frame.Metadata{Topics: []string{"unknown", "a..b"}})
	var m frame.MetadataReply
	if err := m.Decode(r.Payload); err != nil || len(m.Topics) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, code := range []frame.ErrorCode{frame.ErrUnknownTopic, frame.ErrInvalidName} {
		if x := m.Topics[i]; x.Error != code || x.Settings != (frame.Settings{}) || x.ID != 0 || len(x.Partitions) != 0 {
			t.Errorf("%s: %+v", x.Name, x)
		}
	}
}

// Storage none holds nothing, so its log start is its end; and it knows no repeats.
func TestStorageNoneHoldsNothing(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	pid := producerID(t, c)
	b := batchOf(batch.Options{ProducerID: pid, BaseSequence: 7}, "a", "b")
	for i := range uint64(2) {
		if r := produce(t, c, id, 0, frame.AcksLeader, b); r.BaseOffset != 2*i || r.LogStart != 2*i+2 {
			t.Errorf("reply %d: %+v", i, r)
		}
	}
	if p := describe(t, c, "t").Partitions[0]; p.LogStart != 4 || p.HighWatermark != 4 || p.LogEnd != 4 || p.DurableEnd != 4 || p.Bytes != 0 {
		t.Errorf("%+v", p)
	}
	var o frame.ListOffsetsReply
	r := c.Call(frame.CmdListOffsets, &frame.ListOffsets{Partitions: []frame.OffsetQuery{{Topic: id}}})
	if err := o.Decode(r.Payload); err != nil || o.Partitions[0].Offset != 4 {
		t.Errorf("log start: %+v, %v", o, err)
	}
}

// The answers of the table under "Order and retries" that the rules do not show.
func TestIdempotentAnswers(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	send := func(epoch uint16, sequence uint32, values ...string) frame.Error {
		o := batch.Options{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: sequence}
		return c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(o, values...), frame.MaxPayload)).Error()
	}
	for i := range uint32(7) {
		if e := send(0, 2*i, "a", "b"); e.Code != 0 {
			t.Fatalf("batch %d: %+v", i, e)
		}
	}
	if e := send(0, 2, "a", "b"); e.Code != frame.ErrSequence || int32(2-uint32(e.First)) >= 0 {
		t.Errorf("a repeat that is not remembered: %+v", e)
	}
	if e := send(0, 15, "gap"); e.Code != frame.ErrSequence || int32(15-uint32(e.First)) <= 0 {
		t.Errorf("a gap: %+v", e)
	}
	if e := send(0, 12, "other count"); e.Code != frame.ErrSequence || e.First != 14 {
		t.Errorf("a sequence again with another count: %+v", e)
	}
	if e := send(1, 14, "new"); e.Code != frame.ErrSequence || e.First != 0 || !strings.Contains(e.Text, "epoch") {
		t.Errorf("a newer epoch that goes on: %+v", e)
	}
	if e := send(1, 0, "new"); e.Code != 0 {
		t.Errorf("a newer epoch: %+v", e)
	}
	if e := send(0, 14, "old"); e.Code != frame.ErrProducerFenced {
		t.Errorf("the epoch before: %+v", e)
	}
}

// A topic that is deleted under a waiting FETCH ends it with a chunk that says so.
func TestDeletionEndsFetchWithAChunk(t *testing.T) {
	w := start(t)
	c := w.Connect()
	gone, kept := create(t, c, "gone", 1, frame.Settings{}), create(t, c, "kept", 1, frame.Settings{})
	id := c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{
		{Topic: kept, MaxBytes: 1 << 20}, {Topic: gone, MaxBytes: 1 << 20}}})
	w.Connect().Send(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "gone"})
	got := chunks(t, c.Await(id))
	if len(got) != 2 || got[0].Error != 0 || got[1].Error != frame.ErrUnknownTopic {
		t.Errorf("%+v", got)
	}
}

// One whose reply is under way keeps what was sent, and ends with the same word.
func TestDeletionEndsAFetchUnderWay(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "gone", 1, frame.Settings{})
	for range 40 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 30_000)))
	}
	ask := c.Send(frame.CmdFetch, &frame.Fetch{MinBytes: 1, MaxBytes: 8 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 8 << 20}}})
	w.Settle() // the reply stops where the connection has enough
	w.Connect().Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "gone"})
	r := c.Await(ask)
	if r.Command == frame.CmdError {
		wantError(t, r, frame.ErrUnknownTopic)
		return
	}
	var last frame.FetchChunk
	for p := r.Payload; len(p) > 0; {
		var err error
		if last, p, err = frame.NextChunk(p); err != nil {
			t.Fatal(err)
		}
	}
	if last.Error != frame.ErrUnknownTopic {
		t.Errorf("the last chunk says %q", last.Error.Name())
	}
	if got := chunks(t, r); len(got[0].values) == 0 {
		t.Error("nothing was sent before the deletion")
	}
}
