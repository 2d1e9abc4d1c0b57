package shard_test

import (
	"strings"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
	"github.com/slipringmq/slipring/shard/sim"
)

// When is PRODUCE answered? The table of the design: at once, after the flush, after the interval's flush, refused, never.
func TestAcknowledgementTable(t *testing.T) {
	interval := frame.Settings{Mask: frame.SetDurability | frame.SetIntervalMillis, Durability: frame.DurabilityInterval, IntervalMillis: 500}
	memoryless := frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone}
	const (
		never = iota
		atOnce
		afterFlush
		afterInterval
		refused
	)
	for _, c := range []struct {
		name string
		set  frame.Settings
		want [3]int // by acks
	}{
		{"sync", frame.Settings{}, [3]int{never, atOnce, afterFlush}},
		{"interval", interval, [3]int{never, atOnce, afterInterval}},
		{"none", durability(frame.DurabilityNone), [3]int{never, atOnce, refused}},
		{"storage none", memoryless, [3]int{never, atOnce, refused}},
	} {
		for acks, want := range c.want {
			t.Run(c.name+"/"+frame.Acks(acks).String(), func(t *testing.T) {
				w := start(t)
				k := w.Connect()
				id := create(t, k, "t", 1, c.set)
				w.Settle()
				if want != refused { // the first leader acknowledgement of a partition waits for its ceiling
					k.Produce(id, 0, frame.AcksLeader, batchOf(batch.Options{}, "warm"), frame.MaxPayload)
					w.Settle()
					w.Advance(1e9)
					w.Settle()
					next(t, k)
				}
				req := k.Produce(id, 0, frame.Acks(acks), batchOf(batch.Options{}, "a"), frame.MaxPayload)
				r, early := k.Next()
				if early != (want == atOnce || want == refused) {
					t.Fatalf("answered at once: %v", early)
				}
				for range 100 { // 10 ms
					w.Turn(1 << 20)
				}
				if !early {
					r, early = k.Next()
					if early != (want == afterFlush) {
						t.Fatalf("answered after a flush: %v", early)
					}
				}
				w.Advance(1e9)
				w.Settle()
				if !early {
					r, early = k.Next()
				}
				switch {
				case early != (want != never):
					t.Fatalf("answered at all: %v", early)
				case want == refused:
					wantError(t, r, frame.ErrDurability)
				case early && (r.RequestID != req || r.Command != frame.CmdProduce):
					t.Fatalf("%v for %d", r.Command, r.RequestID)
				}
				silent(t, k, "once is enough")
			})
		}
	}
}

func TestProduceRefusesWhatItMust(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 2000})
	good := batchOf(batch.Options{}, "a", "b")
	change := func(at int, fix bool) []byte {
		p := append([]byte(nil), good...)
		p[at] ^= 1
		if fix {
			h, _ := batch.ParseHeader(good)
			if at == batch.AttributesAt {
				h.Attributes = 64
			}
			return append(h.Append(nil), p[batch.HeaderBytes:]...)
		}
		return p
	}
	for _, x := range []struct {
		name      string
		topic     uint32
		partition uint32
		batch     []byte
		code      frame.ErrorCode
	}{
		{"topic", id + 1, 0, good, frame.ErrUnknownTopic},
		{"partition", id, 2, good, frame.ErrUnknownPartition},
		{"header bit", id, 0, change(batch.BaseTimeAt, false), frame.ErrCorrupt},
		{"body bit", id, 0, change(len(good)-1, false), frame.ErrCorrupt},
		{"attribute", id, 0, change(batch.AttributesAt, true), frame.ErrCorrupt},
		{"short", id, 0, good[:len(good)-1], frame.ErrCorrupt},
		{"long", id, 0, append(append([]byte(nil), good...), 0), frame.ErrCorrupt},
		{"record", id, 0, batchOf(batch.Options{}, strings.Repeat("x", 2001)), frame.ErrTooLarge},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, part := range []int{frame.MaxPayload, 109} { // whole, and in parts
				if x.name == "long" && part == 109 {
					continue // an upload with too many bytes ends its connection
				}
				e := wantError(t, c.Await(c.Produce(x.topic, x.partition, frame.AcksDurable, x.batch, part)), x.code)
				if e.Outcome != frame.NotDone {
					t.Errorf("outcome %v", e.Outcome)
				}
			}
			c.Produce(x.topic, x.partition, frame.AcksNone, x.batch, frame.MaxPayload)
			silent(t, c, "acks none has no answer")
		})
	}
	if r := produce(t, c, id, 0, frame.AcksDurable, good); r.BaseOffset != 0 {
		t.Errorf("a refused batch took an offset: %d", r.BaseOffset)
	}
}

// A batch in parts arrives byte by byte while another one does, and PING is answered between them.
func TestPartsTravelBetweenOtherFrames(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	long := [2][]byte{}
	for i := range long {
		m := frame.Produce{Topic: id, Partition: uint32(i), Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, strings.Repeat(string(rune('a'+i)), 60_000), "end")}
		long[i] = m.Append(nil)
	}
	part := func(i, from, to int, more uint16) {
		p := frame.AppendHeader(nil, frame.CmdProduce, more, uint64(100+i), to-from)
		p = append(p, long[i][from:to]...)
		for len(p) > 0 {
			n := min(len(p), 977)
			c.Raw(p[:n])
			p = p[n:]
		}
	}
	part(0, 0, 120, frame.FlagMore)
	part(1, 0, 30_000, frame.FlagMore)
	part(0, 120, 40_000, frame.FlagMore)
	c.SendAs(frame.CmdPing, 50, &frame.Empty{})
	if r := next(t, c); r.Command != frame.CmdPing || r.RequestID != 50 {
		t.Fatalf("PING waits for an upload: %v", r.Command)
	}
	part(1, 30_000, len(long[1]), 0)
	part(0, 40_000, len(long[0]), 0)
	for _, want := range []uint64{101, 100} {
		if r := c.Await(want); r.Command != frame.CmdProduce {
			t.Fatalf("request %d: %v %+v", want, r.Command, r.Error())
		}
	}
	for i := range long {
		if got := fetch(t, c, id, uint32(i), 0); len(got.values) != 2 || got.values[0] != strings.Repeat(string(rune('a'+i)), 60_000) {
			t.Errorf("partition %d holds %d records", i, len(got.values))
		}
	}
	if held := w.Shard.Stats(); held.Refused != 0 {
		t.Errorf("%+v", held)
	}
}

// Bodies find no memory: they are dropped as they come, the producer is told BUSY, and small frames pass.
func TestBodiesWithoutMemoryAreDiscarded(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{UploadBytes: 100 << 10, ProduceWindow: 1 << 20, OutputHigh: 64 << 10, OutputPause: 256 << 10}})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	c.Chop = func(int) int { return 10_000 } // within one turn it would take no memory
	big := batchOf(batch.Options{}, strings.Repeat("x", 200_000))
	req := c.Produce(id, 0, frame.AcksDurable, big, 50_000)
	if e := wantError(t, c.Await(req), frame.ErrBusy); !e.Retriable || e.Outcome != frame.NotDone || e.DelayMillis == 0 {
		t.Errorf("%+v", e)
	}
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "small"))
	wantValues(t, fetch(t, c, id, 0, 0).values, "small")
}

// The window of HELLO is held: what goes beyond it is answered BUSY, and an answer gives its bytes back.
func TestProduceWindow(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{ProduceWindow: 1000}})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	b := batchOf(batch.Options{}, strings.Repeat("x", 500))
	c.Produce(id, 0, frame.AcksDurable, b, frame.MaxPayload)
	c.Produce(id, 0, frame.AcksDurable, b, frame.MaxPayload)
	wantError(t, next(t, c), frame.ErrBusy)
	w.Settle()
	if r := next(t, c); r.Command != frame.CmdProduce {
		t.Fatalf("%v", r.Command)
	}
	for range 5 {
		produce(t, c, id, 0, frame.AcksDurable, b)
		wantError(t, c.Await(c.Produce(id, 9, frame.AcksDurable, b, frame.MaxPayload)), frame.ErrUnknownPartition)
	}
	large := batchOf(batch.Options{}, strings.Repeat("x", 5000)) // larger than the window: alone
	produce(t, c, id, 0, frame.AcksDurable, large)
}

// Consecutive PUBLISH frames of one read become one batch; each is answered with its own offset, in the order of PRODUCE
// around them.
func TestPublishesBecomeOneBatch(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{})
	var p []byte
	publish := func(req uint64, partition uint32, acks frame.Acks, key, value string) {
		p = frame.AppendFrame(p, frame.CmdPublish, 0, req, &frame.Publish{Topic: id, Partition: partition, Acks: acks, HasKey: key != "", Key: []byte(key), Value: []byte(value)})
	}
	publish(101, 0, frame.AcksDurable, "k", "a")
	publish(102, 0, frame.AcksNone, "", "b")
	publish(103, 0, frame.AcksDurable, "", "c")
	publish(104, 1, frame.AcksDurable, "", "other")
	p = frame.AppendFrame(p, frame.CmdProduce, 0, 105, &frame.Produce{Topic: id, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, "d")})
	publish(106, 0, frame.AcksDurable, "", "e")
	publish(107, 7, frame.AcksDurable, "", "nowhere")
	c.Raw(p)
	offsets := map[uint64]uint64{101: 0, 103: 2, 104: 0, 105: 3, 106: 4}
	for req := uint64(101); req <= 107; req++ {
		if req == 102 {
			continue
		}
		r := c.Await(req)
		if req == 107 {
			wantError(t, r, frame.ErrUnknownPartition)
		} else if m := r.Produced(); m.BaseOffset != offsets[req] {
			t.Errorf("request %d is at %d, want %d", req, m.BaseOffset, offsets[req])
		}
	}
	got := fetch(t, c, id, 0, 0)
	wantValues(t, got.values, "a", "b", "c", "d", "e")
	if len(got.bases) != 3 {
		t.Errorf("batches at %v, want three", got.bases)
	}
}

func TestSequencesOfProducers(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{Producers: 3}})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	if pid>>32 != 1 {
		t.Errorf("producer id %#x does not carry the start number", pid)
	}
	send := func(pid uint64, epoch uint16, seq uint32, values ...string) sim.Reply {
		return c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq}, values...), frame.MaxPayload))
	}
	wantError(t, send(pid, 0, 5, "x"), frame.ErrUnknownProducer)
	for seq := range uint32(7) {
		if r := send(pid, 0, seq, "v"); r.Produced().BaseOffset != uint64(seq) {
			t.Fatalf("sequence %d is at %d", seq, r.Produced().BaseOffset)
		}
	}
	if e := wantError(t, send(pid, 0, 9, "gap"), frame.ErrSequence); e.First != 7 {
		t.Errorf("wants %d, says %d", 7, e.First)
	}
	for seq := uint32(2); seq < 7; seq++ { // the last five are known
		if r := send(pid, 0, seq, "v"); r.Produced().BaseOffset != uint64(seq) {
			t.Errorf("a repeat of %d is at %d", seq, r.Produced().BaseOffset)
		}
	}
	wantError(t, send(pid, 0, 1, "v"), frame.ErrSequence)
	wantError(t, send(pid, 0, 6, "v", "w"), frame.ErrSequence) // the same sequence, another batch
	wantError(t, send(pid, 1, 7, "x"), frame.ErrSequence)      // a new epoch begins at 0
	if r := send(pid, 1, 0, "new"); r.Produced().BaseOffset != 7 {
		t.Errorf("the new epoch is at %d", r.Produced().BaseOffset)
	}
	wantError(t, send(pid, 0, 7, "old"), frame.ErrProducerFenced)
	// A partition remembers three; the one idle for longest goes.
	for range 3 {
		other := producerID(t, c)
		if other == pid {
			t.Fatal("an id was given twice")
		}
		send(other, 0, 0, "o")
	}
	wantError(t, send(pid, 1, 1, "x"), frame.ErrUnknownProducer)
	w = restart(t, w, 2)
	if again := producerID(t, w.Connect()); again>>32 != 2 {
		t.Errorf("producer id %#x after the second start", again)
	}
}

// Order holds for idempotent producers: one batch is refused, the ones behind it are too.
func TestRule23LaterBatchesFollowARefusal(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{ProduceWindow: 700}})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	pid := producerID(t, c)
	b := func(seq uint32, n int) []byte {
		return batchOf(batch.Options{ProducerID: pid, BaseSequence: seq}, strings.Repeat("x", n))
	}
	first := c.Produce(id, 0, frame.AcksDurable, b(0, 400), frame.MaxPayload)
	second := c.Produce(id, 0, frame.AcksDurable, b(1, 400), frame.MaxPayload) // beyond the window
	third := c.Produce(id, 0, frame.AcksDurable, b(2, 1), frame.MaxPayload)    // fits
	wantError(t, c.Await(second), frame.ErrBusy)
	wantError(t, c.Await(third), frame.ErrSequence)
	if r := c.Await(first); r.Produced().BaseOffset != 0 {
		t.Error("the first one")
	}
}

// The journal fails: nothing more is acknowledged, what waited is told that its outcome is unknown, and reads go on.
func TestRule23FailedJournalLeavesTheOutcomeUnknown(t *testing.T) {
	dev := disk.NewSim(disk.SimOptions{Seed: 1})
	w := startOn(t, dev, sim.Options{Disk: sim.SmallDisk()})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	w.Settle()
	dev.Plan(disk.SimFault{Kind: disk.OpWrite, Prefix: "shard-00/journal", Err: 5})
	waiting := c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "b"), frame.MaxPayload)
	made := c.Send(frame.CmdCreateTopic, &frame.CreateTopic{Name: "u", Partitions: 1})
	for _, req := range []uint64{waiting, made} {
		if e := wantError(t, c.Await(req), frame.ErrFenced); e.Outcome != frame.OutcomeUnknown {
			t.Errorf("request %d: %+v", req, e)
		}
	}
	if e := wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "c"), frame.MaxPayload)), frame.ErrFenced); e.Outcome != frame.NotDone {
		t.Errorf("%+v", e)
	}
	wantError(t, c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"}), frame.ErrFenced)
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
	if info := describe(t, c, "t").Partitions[0]; info.Error != frame.ErrFenced {
		t.Errorf("%+v", info)
	}
}
