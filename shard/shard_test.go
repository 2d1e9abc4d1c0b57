package shard_test

import (
	"fmt"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard/sim"
)

// start opens a small shard on a fresh disk.
func start(t testing.TB) *sim.World {
	t.Helper()
	return startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk()})
}

func startOn(t testing.TB, dev *disk.Sim, o sim.Options) *sim.World {
	t.Helper()
	o.Pool = sim.NewPool(8 << 20)
	t.Cleanup(func() { // what a crash left in it is nobody's
		o.Pool.Reclaim()
		if err := o.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := sim.Start(dev, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return w
}

// create makes a topic and returns its id.
func create(t testing.TB, c *sim.Client, name string, partitions uint32, set frame.Settings) uint32 {
	t.Helper()
	r := c.Call(frame.CmdCreateTopic, &frame.CreateTopic{Name: name, Partitions: partitions, Settings: set})
	var m frame.CreateTopicReply
	if r.Command != frame.CmdCreateTopic || m.Decode(r.Payload) != nil {
		t.Fatalf("create %s: %v %v", name, r.Command, r.Error())
	}
	return m.ID
}

func durability(d frame.Durability) frame.Settings {
	return frame.Settings{Mask: frame.SetDurability, Durability: d}
}

// batchOf encodes one batch with a record for each value.
func batchOf(o batch.Options, values ...string) []byte {
	var b batch.Builder
	b.Reset(sim.Begin)
	for _, v := range values {
		b.Add(nil, false, []byte(v), nil, sim.Begin)
	}
	return b.Finish(nil, o)
}

// produce sends one batch and waits for its answer.
func produce(t testing.TB, c *sim.Client, topic, partition uint32, acks frame.Acks, p []byte) frame.ProduceReply {
	t.Helper()
	r := c.Await(c.Produce(topic, partition, acks, p, frame.MaxPayload))
	if r.Command != frame.CmdProduce {
		t.Fatalf("produce: %v %s", r.Command, r.Error().Code.Name())
	}
	return r.Produced()
}

// fetched is what FETCH gave of one partition.
type fetched struct {
	frame.FetchChunk
	values []string
	bases  []uint64
}

// fetch reads one partition from an offset without waiting.
func fetch(t testing.TB, c *sim.Client, topic, partition uint32, offset uint64) fetched {
	t.Helper()
	id := c.Send(frame.CmdFetch, &frame.Fetch{MinBytes: 1, MaxBytes: 8 << 20, Partitions: []frame.FetchPartition{
		{Topic: topic, Partition: partition, Offset: offset, MaxBytes: 8 << 20}}})
	return chunks(t, c.Await(id))[0]
}

// chunks decodes a reply to FETCH, by partition in order of arrival.
func chunks(t testing.TB, r sim.Reply) []fetched {
	t.Helper()
	if r.Command != frame.CmdFetch {
		t.Fatalf("fetch: %v %+v", r.Command, r.Error())
	}
	var out []fetched
	for p := r.Payload; len(p) > 0; {
		c, rest, err := frame.NextChunk(p)
		if err != nil {
			t.Fatalf("chunk: %v", err)
		}
		p = rest
		if n := len(out); n > 0 && out[n-1].Topic == c.Topic && out[n-1].Partition == c.Partition {
			out[n-1].Data = append(out[n-1].Data, c.Data...)
			continue
		}
		c.Data = append([]byte(nil), c.Data...)
		out = append(out, fetched{FetchChunk: c})
	}
	for i := range out {
		out[i].values, out[i].bases = records(t, out[i].Data)
	}
	return out
}

// records decodes whole batches.
func records(t testing.TB, p []byte) (values []string, bases []uint64) {
	t.Helper()
	for len(p) > 0 {
		h, body, rest, err := batch.Next(p)
		if err != nil {
			t.Fatalf("batch: %v", err)
		}
		if err := batch.CheckBody(&h, body); err != nil {
			t.Fatalf("batch at %d: %v", h.BaseOffset, err)
		}
		p = rest
		bases = append(bases, h.BaseOffset)
		var r batch.Reader
		r.Reset(&h, body)
		for {
			rec, ok := r.Next()
			if !ok {
				break
			}
			values = append(values, string(rec.Value))
		}
	}
	return values, bases
}

func wantValues(t testing.TB, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestProduceThenFetchGivesTheSameRecords(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "orders.eu", 2, frame.Settings{})
	if r := produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "a", "b")); r.BaseOffset != 0 {
		t.Fatalf("base offset %d", r.BaseOffset)
	}
	if r := produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "c")); r.BaseOffset != 2 {
		t.Fatalf("base offset %d", r.BaseOffset)
	}
	got := fetch(t, c, id, 1, 0)
	wantValues(t, got.values, "a", "b", "c")
	if got.HighWatermark != 3 || got.Error != 0 {
		t.Fatalf("chunk %+v", got.FetchChunk)
	}
}
