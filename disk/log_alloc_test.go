package disk

import (
	"syscall"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// nullDevice completes every op at the next Wait and keeps nothing: what allocates is then the log's.
type nullDevice struct {
	queue []*Op
	made  map[string]bool
	read  func(op *Op) // nil: files are empty
}

func (d *nullDevice) Submit(op *Op) { op.begin(); d.queue = append(d.queue, op) }
func (d *nullDevice) InFlight() int { return len(d.queue) }
func (d *nullDevice) Alignment() int {
	return blockBytes
}

func (d *nullDevice) Wait() error {
	n := len(d.queue)
	for i := range n {
		op, err := d.queue[i], error(nil)
		switch op.Kind {
		case OpCreate:
			op.File, d.made[op.Path] = 1, true
		case OpOpen:
			if op.File = 1; !d.made[op.Path] {
				err = syscall.ENOENT
			}
		case OpRead:
			if d.read != nil {
				op.N = op.bytes()
				d.read(op)
			}
		case OpWrite:
			op.N = op.bytes()
		}
		op.finish(err)
	}
	d.queue = d.queue[:copy(d.queue, d.queue[n:])]
	return nil
}

// deafMachine hears nothing.
type deafMachine struct{ *testMachine }

func (deafMachine) Durable(*Log, uint64) {}

func (deafMachine) Snapshot(_ *Log, dst []byte) (uint64, []byte) { return 0, dst }

func allocBench(tb testing.TB, journaled bool) (*Log, *nullDevice) {
	dev := &nullDevice{made: make(map[string]bool)}
	o := LogOptions{Journaled: journaled, Tag: batch.PartitionTag([16]byte{}, testKey.Topic, testKey.Partition)}
	cfg := Config{Start: 1, HotBytes: 4 << 20}
	s, _, err := Open(cfg, dev, block.NewPool(64<<20), deafMachine{newTestMachine()}, func(Key) LogOptions { return o })
	if err != nil {
		tb.Fatal(err)
	}
	l := s.NewLog(testKey, o)
	return l, dev
}

// Appends, their durability, placing in pieces, direct writes, eviction and hot reads allocate nothing once warm.
func TestAppendPlaceAndReadHotAllocateNothing(t *testing.T) {
	for _, c := range []struct {
		name      string
		journaled bool
		bytes     int
	}{{"plain", false, 30_000}, {"journaled", true, 3000}, {"direct", true, 200_000}} {
		t.Run(c.name, func(t *testing.T) { appendAllocs(t, c.journaled, c.bytes) })
	}
}

func appendAllocs(t *testing.T, journaled bool, bytes int) {
	l, dev := allocBench(t, journaled)
	b := testBatch([16]byte{}, testKey, 0, 1, bytes)
	r := &Read{MaxBytes: 256 << 10}
	now := int64(1)
	turn := func() {
		for range 20 {
			batch.Stamp(b, uint64(l.LogEnd()), 1, 5, l.opt.Tag)
			h, _ := batch.ParseHeader(b)
			body := [1][]byte{b}
			if _, err := l.Append(1, &h, body[:]); err != nil {
				t.Fatal(err)
			}
		}
		r.From, r.Limit = Cursor{Offset: l.LogEnd() - 3}, l.LogEnd()
		if !l.Read(r) || r.Records == 0 {
			t.Fatal("the last batches are not hot")
		}
		r.Release()
		for i := 0; i < 4 || dev.InFlight() > 0; i++ {
			now += 1e5
			l.s.EndTurn(now)
			if err := dev.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 200 {
		turn()
	}
	if n := testing.AllocsPerRun(50, turn); n > 0.5 {
		t.Errorf("%.1f allocations for 20 batches of %d bytes", n, bytes)
	}
	if l.share.stats.PlacedBytes+l.share.stats.DirectBytes < 10<<20 || l.tail.batches.first == 0 {
		t.Fatalf("placed %d bytes, evicted %d batches: the test shows nothing", l.share.stats.PlacedBytes, l.tail.batches.first)
	}
}

// A warm cold read allocates nothing either: the op, its memory and its walk are pooled.
func TestColdReadsAllocateNothing(t *testing.T) {
	b := coldFixture(t)
	l := b.log(testKey)
	p := []byte(b.dev.Peek(l.segments[0].path("log")))
	dev := &nullDevice{read: func(op *Op) {
		clear(op.Data[0])
		if int(op.Pos) < len(p) {
			copy(op.Data[0], p[op.Pos:])
		}
	}}
	b.check(testKey) // opens the file and loads the index
	l.share.dev = dev
	done := 0
	r := &Read{MaxBytes: 3000, Limit: l.LogEnd(), Done: func(*Read) { done++ }}
	read := func() {
		r.From = Cursor{}
		if l.Read(r) {
			t.Fatal("not cold")
		}
		for dev.InFlight() > 0 {
			if err := dev.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		if r.Err != nil || r.Records == 0 {
			t.Fatalf("read %d records, %v", r.Records, r.Err)
		}
		r.Release()
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%.1f allocations a cold read", n)
	}
}

// BenchmarkAppendSmall: 330-byte batches to one log outside the journal, on a device that costs nothing: the copy, the
// descriptor and the placing. No journal, no disk.
func BenchmarkAppendSmall(b *testing.B) {
	l, dev := allocBench(b, false)
	p := testBatch([16]byte{}, testKey, 0, 1, 220)
	h, _ := batch.ParseHeader(p)
	now := int64(0)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		h.BaseOffset = uint64(l.LogEnd())
		body := [1][]byte{p}
		if _, err := l.Append(1, &h, body[:]); err != nil {
			b.Fatal(err)
		}
		if now++; now%64 == 0 {
			l.s.EndTurn(now * 1e4)
			if err := dev.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkReadHot: 64 KiB of 330-byte batches from the tail, in cache.
func BenchmarkReadHot(b *testing.B) {
	l, _ := allocBench(b, false)
	p := testBatch([16]byte{}, testKey, 0, 1, 220)
	for range 1000 {
		batch.Stamp(p, uint64(l.LogEnd()), 1, 5, l.opt.Tag)
		h, _ := batch.ParseHeader(p)
		if _, err := l.Append(1, &h, [][]byte{p}); err != nil {
			b.Fatal(err)
		}
	}
	r := &Read{MaxBytes: 64 << 10, Limit: l.LogEnd()}
	b.ReportAllocs()
	for b.Loop() {
		r.From = Cursor{Offset: 10}
		if !l.Read(r) {
			b.Fatal("not hot")
		}
		r.Release()
	}
}
