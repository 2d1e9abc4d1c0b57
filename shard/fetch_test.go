package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

func part(topic, partition uint32, offset uint64) frame.FetchPartition {
	return frame.FetchPartition{Topic: topic, Partition: partition, Offset: offset, MaxBytes: 1 << 20}
}

// A FETCH at the log end waits: for its bytes, its time, or its end.
func TestFetchWaits(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	wait := func(minBytes, millis uint32) uint64 {
		return c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: millis, MinBytes: minBytes, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{part(id, 0, 0), part(id, 1, 0)}})
	}
	t.Run("until a record", func(t *testing.T) {
		req := wait(1, 60_000)
		w.Settle()
		silent(t, c, "nothing is there")
		produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "a"))
		got := chunks(t, c.Await(req))
		if len(got) != 2 || got[0].Partition != 1 || len(got[1].values) != 0 {
			t.Fatalf("%+v", got)
		}
		wantValues(t, got[0].values, "a")
	})
	t.Run("until enough bytes", func(t *testing.T) {
		req := wait(700, 60_000)
		for i := range 3 {
			w.Settle()
			silent(t, c, fmt.Sprintf("%d batches are not enough", i))
			produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 100)))
		}
		got := chunks(t, c.Await(req))
		if n := len(got[0].Data) + len(got[1].Data); n < 700 {
			t.Fatalf("%d bytes", n)
		}
	})
	t.Run("until its time", func(t *testing.T) {
		req := c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 250, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{part(id, 1, 1)}})
		w.Advance(240e6)
		w.Settle()
		silent(t, c, "too early")
		w.Advance(20e6)
		if got := chunks(t, c.Await(req)); len(got) != 1 || len(got[0].values) != 0 || got[0].HighWatermark != 1 {
			t.Fatalf("%+v", got)
		}
	})
	t.Run("until cancelled", func(t *testing.T) {
		req := c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 250, MinBytes: 1, MaxBytes: 1, Partitions: []frame.FetchPartition{part(id, 1, 1)}})
		c.Send(frame.CmdCancel, &frame.Cancel{RequestID: req})
		wantError(t, c.Await(req), frame.ErrCancelled)
		c.Send(frame.CmdCancel, &frame.Cancel{RequestID: req})
		w.Advance(1e9)
		w.Settle()
		silent(t, c, "it is answered")
	})
	t.Run("until the topic is deleted", func(t *testing.T) {
		req := c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1, MaxBytes: 1, Partitions: []frame.FetchPartition{part(id, 1, 1)}})
		c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"})
		if got := chunks(t, c.Await(req)); got[0].Error != frame.ErrUnknownTopic {
			t.Fatalf("%+v", got)
		}
	})
}

func TestFetchErrorsArePerPartition(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	none := create(t, c, "n", 1, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a", "b"))
	req := c.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1000, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{
		part(id, 1, 3), part(id, 7, 0), part(99, 0, 0), part(none, 0, 0), part(id, 0, 1),
	}})
	got := chunks(t, c.Await(req))
	want := []frame.ErrorCode{frame.ErrNone, frame.ErrOffsetOutOfRange, frame.ErrUnknownPartition, frame.ErrUnknownTopic, frame.ErrInvalidSetting}
	if len(got) != len(want) {
		t.Fatalf("%d chunks: %+v", len(got), got)
	}
	for i := range got {
		if got[i].Error != want[i] {
			t.Errorf("chunk %d: %v, want %v", i, got[i].Error.Name(), want[i].Name())
		}
	}
	wantValues(t, got[0].values, "a", "b") // from the middle of a batch: all of it
	if got[1].LogStart != 0 || got[1].HighWatermark != 0 {
		t.Errorf("the valid range is not told: %+v", got[1].FetchChunk)
	}
}

// The bounds on bytes hold, but one batch always comes, however large; a batch larger than a frame comes in pieces.
func TestFetchBounds(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	large := strings.Repeat("L", 1_500_000)
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 400)))
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("y", 400)))
	m := frame.Produce{Topic: id, Partition: 0, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, large)}
	if r := c.Await(c.Produce(m.Topic, m.Partition, m.Acks, m.Batch, 300_000)); r.Command != frame.CmdProduce {
		t.Fatalf("%+v", r.Error())
	}
	produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "z"))
	for _, x := range []struct {
		maxBytes, partBytes uint32
		offset              uint64
		want                int // batches of partition 0
		other               int
	}{
		{1 << 30, 1 << 30, 0, 3, 1},
		{1 << 30, 1, 0, 1, 1}, // one each
		{1, 1 << 30, 0, 1, 0}, // one in all
		{600, 600, 0, 1, 0},
		{1100, 1100, 0, 2, 0}, // the third does not fit
		{1200, 1020, 0, 2, 1},
		{1, 1, 2, 1, 0}, // larger than everything
	} {
		p0, p1 := part(id, 0, x.offset), part(id, 1, 0)
		p0.MaxBytes, p1.MaxBytes = x.partBytes, x.partBytes
		got := chunks(t, c.Call(frame.CmdFetch, &frame.Fetch{MaxBytes: x.maxBytes, Partitions: []frame.FetchPartition{p0, p1}}))
		if len(got) != 2 || len(got[0].bases) != x.want || len(got[1].bases) != x.other {
			t.Errorf("%+v: %d chunks, %v and %v", x, len(got), got[0].bases, got[len(got)-1].bases)
		}
	}
	if got := fetch(t, c, id, 0, 2); got.values[0] != large {
		t.Error("the large record came back changed")
	}
}

// A reader that does not read holds a cursor, not memory: what is queued for it stays near the mark, and it gets
// everything in the end.
func TestSlowReaderHoldsACursor(t *testing.T) {
	w := start(t)
	c, slow := w.Connect(), w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	const batches = 40
	for i := range batches {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, fmt.Sprint(i), strings.Repeat("x", 20_000)))
	}
	req := slow.Send(frame.CmdFetch, &frame.Fetch{MaxBytes: 8 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 8 << 20}}})
	other := slow.Send(frame.CmdFetch, &frame.Fetch{MaxBytes: 100, Partitions: []frame.FetchPartition{{Topic: id, Offset: 78, MaxBytes: 100}}})
	w.Settle()
	if queued := w.Net.Queued(slow.ID()); queued > 64<<10+256<<10 || queued < 64<<10 {
		t.Errorf("%d bytes are queued", queued)
	}
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "others go on"))
	if got := chunks(t, slow.Await(req))[0]; len(got.bases) != batches || got.values[2*batches-2] != fmt.Sprint(batches-1) {
		t.Errorf("%d batches", len(got.bases))
	}
	if got := chunks(t, slow.Await(other))[0]; len(got.bases) != 1 {
		t.Errorf("%+v", got.bases)
	}
	gone := slow.Send(frame.CmdFetch, &frame.Fetch{MaxBytes: 8 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 8 << 20}}})
	_ = gone
	w.Turn(0)
	slow.Hangup() // in the middle of a reply, perhaps of a read
	w.Settle()
}

// Records that have left memory are read from their segments.
func TestFetchReadsSegments(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 64 << 10})
	var want []string
	for i := range 60 {
		v := fmt.Sprintf("%d %s", i, strings.Repeat("x", 5000))
		want = append(want, v)
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, v))
	}
	if info := describe(t, c, "t").Partitions[0]; info.Segments < 4 {
		t.Fatalf("%d segments", info.Segments)
	}
	wantValues(t, fetch(t, c, id, 0, 0).values, want...)
	w = restart(t, w, 2)
	c = w.Connect()
	wantValues(t, fetch(t, c, id, 0, 0).values, want...)
	wantValues(t, fetch(t, c, id, 0, 41).values, want[41:]...)
}

func TestListOffsets(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	var at []int64
	for i := range 5 {
		at = append(at, produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, fmt.Sprint(i), "x")).AppendTime)
		w.Advance(60e9)
	}
	ask := func(partition uint32, kind frame.OffsetKind, time int64) frame.OffsetAnswer {
		t.Helper()
		var m frame.ListOffsetsReply
		r := c.Call(frame.CmdListOffsets, &frame.ListOffsets{Partitions: []frame.OffsetQuery{{Topic: id, Partition: partition, Kind: kind, Time: time}}})
		if err := m.Decode(r.Payload); err != nil || len(m.Partitions) != 1 {
			t.Fatalf("%v %+v %v", r.Command, r.Error(), err)
		}
		return m.Partitions[0]
	}
	for range 2 {
		if a := ask(0, frame.OffsetStart, 0); a.Offset != 0 || a.Error != 0 {
			t.Errorf("start %+v", a)
		}
		if a := ask(0, frame.OffsetEnd, 0); a.Offset != 10 {
			t.Errorf("end %+v", a)
		}
		for i, time := range at {
			if a := ask(0, frame.OffsetByTime, time); a.Offset != uint64(2*i) || a.Time != time {
				t.Errorf("time %d: %+v", time, a)
			}
			if a := ask(0, frame.OffsetByTime, time+1); i < 4 && (a.Offset != uint64(2*i+2) || a.Time != at[i+1]) || i == 4 && (a.Offset != 10 || a.Time != 0) {
				t.Errorf("after time %d: %+v", time, a)
			}
		}
		if a := ask(1, frame.OffsetByTime, 0); a.Offset != 0 || a.Error != 0 {
			t.Errorf("an empty partition: %+v", a)
		}
		if a := ask(2, frame.OffsetEnd, 0); a.Error != frame.ErrUnknownPartition {
			t.Errorf("no such partition: %+v", a)
		}
		w = restart(t, w, 2)
		c = w.Connect()
	}
}
