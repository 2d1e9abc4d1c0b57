package shard_test

import (
	"syscall"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
	"github.com/slipringmq/slipring/shard/sim"
)

// The hot paths, from a complete frame to the bytes of its answer, journal and segments included: no heap allocation for a
// frame or a batch once everything has grown.

// sink is a network that counts and drops: simulated clients allocate.
type sink struct{ bytes, frames int }

func (s *sink) Send(_ uint64, p []byte) { s.bytes, s.frames = s.bytes+len(p), s.frames+1 }
func (s *sink) Queued(uint64) int       { return 0 }
func (s *sink) Pause(uint64)            {}
func (s *sink) Resume(uint64)           {}
func (s *sink) Close(uint64)            {}
func (s *sink) Abort(uint64)            {}

// void is a disk that does everything at once and keeps nothing: what it is given is served from memory here, and
// what the simulated disk allocates would hide the rest.
type void struct {
	ops   []*disk.Op
	files disk.File
}

func (v *void) Submit(op *disk.Op) { v.ops = append(v.ops, op) }
func (v *void) InFlight() int      { return len(v.ops) }
func (v *void) Alignment() int     { return 4096 }

func (v *void) Wait() error {
	if len(v.ops) == 0 {
		return nil
	}
	op := v.ops[0]
	v.ops = v.ops[:copy(v.ops, v.ops[1:])]
	op.N = 0
	for _, p := range op.Data {
		op.N += len(p)
	}
	switch op.Kind {
	case disk.OpCreate:
		v.files++
		op.File = v.files
	case disk.OpOpen, disk.OpRead:
		op.Err = syscall.ENOENT
	}
	op.Done(op)
	return nil
}

// hot is a shard that serves connection 1, and a clock.
type hot struct {
	s   *shard.Shard
	dev *void
	net *sink
	now int64
}

func newHot(t *testing.T, set frame.Settings) *hot {
	t.Helper()
	h := &hot{dev: &void{}, net: &sink{}, now: 1}
	h.s = shard.New(shard.Config{Start: 1, DirectoryID: sim.DirectoryID, Disk: disk.Config{HotBytes: 1 << 20}}, h.net)
	h.s.StartTurn(h.now, sim.Begin)
	if _, err := h.s.Open(h.dev, sim.NewPool(256<<20)); err != nil {
		t.Fatal(err)
	}
	h.s.Opened(1, "test")
	h.send(frame.CmdHello, 1, &frame.Hello{MinVersion: 1, MaxVersion: 1})
	h.send(frame.CmdCreateTopic, 2, &frame.CreateTopic{Name: "t", Partitions: 4, Settings: set})
	h.settle()
	return h
}

func (h *hot) send(cmd frame.Command, id uint64, m sim.Message) {
	h.s.Received(1, frame.AppendFrame(nil, cmd, 0, id, m))
}

// turn is one turn in which the disk completes everything.
func (h *hot) turn() {
	h.now += 100_000
	h.s.StartTurn(h.now, sim.Begin)
	for h.dev.InFlight() > 0 {
		_ = h.dev.Wait()
	}
	h.s.EndTurn(h.now, sim.Begin)
}

func (h *hot) settle() {
	for range 20 {
		h.turn()
	}
}

// produceFrame is one PRODUCE of n records to partition 0 of topic 1.
func produceFrame(acks frame.Acks, n int) []byte {
	values := make([]string, n)
	for i := range values {
		values[i] = "sixty-four bytes of payload, more or less, as a small record has"
	}
	return frame.AppendFrame(nil, frame.CmdProduce, 0, 7, &frame.Produce{Topic: 1, Acks: acks, Batch: batchOf(batch.Options{}, values...)})
}

// perRound is how many allocations step makes once it is warm.
func perRound(step func()) float64 {
	for range 2000 {
		step()
	}
	return testing.AllocsPerRun(2000, step)
}

func TestProduceAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		set  frame.Settings
		acks frame.Acks
	}{
		{"durable", frame.Settings{}, frame.AcksDurable},
		{"leader", frame.Settings{}, frame.AcksLeader},
		{"interval", durability(frame.DurabilityInterval), frame.AcksLeader},
		{"none", frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone}, frame.AcksLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHot(t, c.set)
			p := produceFrame(c.acks, 10)
			before := h.s.Stats()
			allocs := perRound(func() {
				for range 20 {
					h.s.Received(1, p)
				}
				h.turn()
			})
			if allocs > 0 {
				t.Errorf("%v allocations for 20 batches", allocs)
			}
			after := h.s.Stats()
			if acks := after.Acks - before.Acks; acks < 70_000 || after.Refused != before.Refused {
				t.Errorf("%d acknowledged, %d refused: %+v", acks, after.Refused, after)
			}
		})
	}
}

func TestPublishAllocatesNothing(t *testing.T) {
	h := newHot(t, frame.Settings{})
	var p []byte
	for range 50 {
		p = frame.AppendFrame(p, frame.CmdPublish, 0, 9, &frame.Publish{Topic: 1, Partition: 2, Acks: frame.AcksDurable, Value: []byte("hello")})
	}
	if allocs := perRound(func() {
		h.s.Received(1, p)
		h.turn()
	}); allocs > 0 {
		t.Errorf("%v allocations for 50 records", allocs)
	}
	if st := h.s.Stats(); st.Records < 200_000 || st.Batches > st.Records/50 {
		t.Errorf("%d records in %d batches", st.Records, st.Batches)
	}
}

// A frame cut by the end of a read goes through blocks.
func TestSplitFramesAllocateNothing(t *testing.T) {
	h := newHot(t, frame.Settings{})
	p := produceFrame(frame.AcksDurable, 100)
	if allocs := perRound(func() {
		for at := 0; at < len(p); at += 1500 {
			h.s.Received(1, p[at:min(at+1500, len(p))])
		}
		h.turn()
	}); allocs > 0 {
		t.Errorf("%v allocations for a batch in pieces", allocs)
	}
	if st := h.s.Stats(); st.Acks < 3900 {
		t.Errorf("%d acknowledged: %+v", st.Acks, st)
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	h := newHot(t, frame.Settings{})
	h.s.Received(1, produceFrame(frame.AcksDurable, 100))
	h.settle()
	fetch := frame.AppendFrame(nil, frame.CmdFetch, 0, 8, &frame.Fetch{MinBytes: 1, MaxWaitMillis: 60_000, MaxBytes: 1 << 20, Partitions: []frame.FetchPartition{{Topic: 1, MaxBytes: 1 << 20}}})
	sent := h.net.bytes
	if allocs := perRound(func() {
		h.s.Received(1, fetch)
		h.turn()
	}); allocs > 0 {
		t.Errorf("%v allocations for a fetch", allocs)
	}
	if n := h.net.bytes - sent; n < 4000*6000 {
		t.Errorf("%d bytes were sent", n)
	}
}

// One producer, one waiting fetch and one subscription at the log end, batch after batch.
func TestDeliverAllocatesNothing(t *testing.T) {
	for _, storage := range []frame.Storage{frame.StorageLog, frame.StorageNone} {
		t.Run(storage.String(), func(t *testing.T) {
			h := newHot(t, frame.Settings{Mask: frame.SetStorage, Storage: storage})
			h.send(frame.CmdSubscribe, 30, &frame.Subscribe{Name: "t", Partition: frame.AllPartitions, Records: 1 << 40, Bytes: 1 << 50})
			p := produceFrame(frame.AcksNone, 10)
			before := h.s.Stats()
			if allocs := perRound(func() {
				for range 10 {
					h.s.Received(1, p)
				}
				h.turn()
			}); allocs > 0 {
				t.Errorf("%v allocations for 10 batches delivered", allocs)
			}
			if n := h.s.Stats().Deliveries - before.Deliveries; n < 3900 {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}
