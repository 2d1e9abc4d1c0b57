package slipring_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// allocsAllowed is the bar, for one record: what is left are tables that double and a file now and then.
const allocsAllowed = 0.001

// A broker under load allocates nothing on the Go heap for a record, whichever way it comes and goes, and makes one system
// call a turn.
func TestLiveCostOfARecord(t *testing.T) {
	// Little memory, so that the broker soon has all it will ever have.
	broker := startChild(t, t.TempDir(), "", childConfig+`={"MemoryLimit": 167772160, "SegmentBytes": 268435456}`)
	c := connect(t, broker.addr)
	ctx := within(t, 60*time.Second)
	stored, err := c.CreateTopic(ctx, "stored", 2, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := c.CreateTopic(ctx, "pushed", 1, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	if err != nil {
		t.Fatal(err)
	}
	fifty := make([]string, 50)
	for i := range fifty {
		fifty[i] = string(make([]byte, 64))
	}
	many := batchOf(batch.Options{}, fifty...)
	for _, x := range []struct {
		name    string
		records int
		run     func(n int)
	}{
		{"PRODUCE durable, batches of 50", 1_000_000, func(n int) {
			pipeline(t, broker.addr, n/50, 64, frame.CmdProduce, &frame.Produce{Topic: stored, Acks: frame.AcksDurable, Batch: many})
		}},
		{"PUBLISH durable, single records", 200_000, func(n int) {
			pipeline(t, broker.addr, n, 1000, frame.CmdPublish, &frame.Publish{Topic: stored, Partition: 1, Acks: frame.AcksDurable, Value: []byte("a small record, of which many come in one read")})
		}},
		{"FETCH", 1_000_000, func(n int) { fetchRecords(t, broker.addr, stored, n) }},
		{"storage none, one subscriber", 1_000_000, func(n int) {
			pushRecords(t, broker.addr, pushed, n/50, &frame.Produce{Topic: pushed, Acks: frame.AcksNone, Batch: many})
		}},
	} {
		switch {
		case raceBuild:
			x.records /= 10
		case testing.Short() && !strings.HasPrefix(x.name, "PRODUCE"): // that one needs as much to fill what there is to fill
			x.records /= 4
		}
		x.run(x.records) // warm: pools and tables grow to what the load needs
		before, began := broker.stats(t), time.Now()
		x.run(x.records)
		after, took := broker.stats(t), time.Since(began)
		allocs := float64(after.Mallocs-before.Mallocs) / float64(x.records)
		turns, enters := after.Loop.Turns-before.Loop.Turns, after.Loop.Enters-before.Loop.Enters
		t.Logf("%s: %d records in %v, %.6f allocations a record (%d), %d frames, %d turns, %.3f enters a turn", x.name, x.records,
			took.Round(time.Millisecond), allocs, after.Mallocs-before.Mallocs, after.Shard.Frames-before.Shard.Frames, turns, float64(enters)/float64(turns))
		if allocs >= allocsAllowed && !raceBuild && !block.Invariants { // those builds take blocks from the Go heap
			t.Errorf("%s: %.6f allocations a record, want fewer than %g", x.name, allocs, allocsAllowed)
		}
		if x.name == "FETCH" && turns > 20*(after.Shard.Frames-before.Shard.Frames) { // some of it comes from the disk, by the piece
			t.Errorf("FETCH: %d turns for %d replies of 256 KiB", turns, after.Shard.Frames-before.Shard.Frames)
		}
		if float64(enters) > 1.05*float64(turns) {
			t.Errorf("%s: %d enters in %d turns", x.name, enters, turns)
		}
	}
}

// pipeline sends a request n times and reads the replies, with at most window of them unanswered.
func pipeline(t *testing.T, addr string, n, window int, cmd frame.Command, m message) {
	t.Helper()
	w := dial(t, addr)
	defer w.Close()
	free := make(chan struct{}, window)
	var answers sync.WaitGroup
	answers.Go(func() {
		for i := range n {
			h, payload, err := w.read(20 * time.Second)
			if err != nil || h.Command != cmd {
				var e frame.Error
				_ = e.Decode(payload)
				t.Errorf("reply %d: %v, %v %v", i, h.Command, err, &e)
				w.Close()
				close(free)
				return
			}
			<-free
		}
	})
	request := frame.AppendParts(nil, cmd, 0, 7, m.Append(nil))
	for range n {
		select {
		case free <- struct{}{}:
		case <-time.After(20 * time.Second):
			t.Error("no reply within 20 s")
			return
		}
		if _, err := w.Write(request); err != nil {
			t.Error(err)
			return
		}
	}
	answers.Wait()
}

// fetchRecords reads a partition from its start until it has seen n records.
func fetchRecords(t *testing.T, addr string, topic uint32, n int) {
	t.Helper()
	w := dial(t, addr)
	defer w.Close()
	next, seen := uint64(0), 0
	var data []byte
	for seen < n {
		w.send(t, frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 1000, MaxBytes: 256 << 10, Partitions: []frame.FetchPartition{{Topic: topic, Offset: next, MaxBytes: 256 << 10}}})
		data = data[:0]
		for more := true; more; {
			h, payload := w.next(t)
			for len(payload) > 0 {
				chunk, rest, err := frame.NextChunk(payload)
				if err != nil || chunk.Error != 0 {
					t.Fatalf("fetch: %v, %v", chunk.Error, err)
				}
				data, payload = append(data, chunk.Data...), rest
			}
			more = h.More()
		}
		if len(data) == 0 {
			next = 0 // all read: once more
		}
		for p := data; len(p) > 0; {
			h, err := batch.ParseHeader(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[h.TotalBytes():]
			next, seen = h.NextOffset(), seen+int(h.Count)
		}
	}
}

// pushRecords sends a batch n times while one subscriber reads, and waits until all bytes have come.
func pushRecords(t *testing.T, addr string, topic uint32, n int, m *frame.Produce) {
	t.Helper()
	reader, writer := dial(t, addr), dial(t, addr)
	defer reader.Close()
	defer writer.Close()
	reader.ask(t, frame.CmdSubscribe, &frame.Subscribe{Name: "pushed", Partition: frame.AllPartitions, Records: 1 << 50, Bytes: 1 << 50})
	one := int64(frame.HeaderBytes + frame.DeliverFixedBytes + len(m.Batch))
	const ahead = 50 // the reader's buffer of 256 KiB must not drop any
	free := make(chan struct{}, ahead)
	var deliveries sync.WaitGroup
	deliveries.Go(func() {
		for range n {
			_ = reader.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.CopyN(io.Discard, reader.in, one); err != nil {
				t.Error(fmt.Errorf("deliveries: %w", err))
				reader.Close()
				writer.Close()
				return
			}
			<-free
		}
	})
	request := frame.AppendParts(nil, frame.CmdProduce, 0, 7, m.Append(nil))
	for range n {
		select {
		case free <- struct{}{}:
		case <-time.After(20 * time.Second):
			t.Error("no delivery within 20 s")
			return
		}
		if _, err := writer.Write(request); err != nil {
			t.Error(err)
			return
		}
	}
	deliveries.Wait()
}
