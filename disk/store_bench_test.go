package disk

import (
	"testing"

	"github.com/slipringmq/slipring/loop/block"
)

// silentMachine does nothing: what is measured is the store's.
type silentMachine struct{ durable uint64 }

func (*silentMachine) Known(Key) Existence        { return Live }
func (*silentMachine) Restore(*Log, []byte) error { return nil }
func (*silentMachine) Replay(*Log, *Entry) error  { return nil }
func (*silentMachine) Damaged(*Log, Damage)       {}
func (m *silentMachine) Durable(_ *Log, i uint64) { m.durable = i }
func (m *silentMachine) Snapshot(_ *Log, dst []byte) (uint64, []byte) {
	return m.durable, append(dst, 1, 2, 3)
}
func (*silentMachine) Fenced(*Log, error) {}
func (*silentMachine) Failed(error)       {}
func (*silentMachine) Stalled(bool)       {}
func (*silentMachine) Gone(Key)           {}

func silentStore(t testing.TB, seed uint64) (*Store, *Sim, *Log) {
	cfg := smallConfig()
	cfg.JournalFileBytes, cfg.GroupBytes, cfg.StagedBytes, cfg.Start = 1<<20, 256<<10, 1<<20, 1
	dev := NewSim(SimOptions{Seed: seed})
	opt := func(Key) LogOptions { return LogOptions{Journaled: true} }
	s, _, err := Open(cfg, dev, block.NewPool(32<<20), new(silentMachine), opt)
	if err != nil {
		t.Fatal(err)
	}
	return s, dev, s.NewLog(Key{1, 0}, opt(Key{}))
}

// Staging entries and flushing groups allocates nothing once warm, over files that are given back too.
func TestGroupsAllocateNothing(t *testing.T) {
	if block.Invariants {
		t.Skip("checked builds keep books on the heap")
	}
	s, dev, l := silentStore(t, 61)
	payload := make([]byte, 300)
	now := int64(1e9)
	group := func() {
		for range 20 {
			if _, err := l.Note(testNote, 1, payload); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			now += 1000
			s.EndTurn(now)
			for dev.Step(now) {
			}
		}
	}
	for s.journal.at < 20*s.journal.perFile { // every file was made, checkpoints ran
		group()
	}
	dead := s.journal.durable.Dead
	if n := testing.AllocsPerRun(1000, group); n > 0 {
		t.Errorf("%v allocations for a group of 20 entries", n)
	}
	if s.journal.durable.Dead == dead {
		t.Error("no file was given back meanwhile: the test proves less than it says")
	}
}

// BenchmarkStage: one note of 330 bytes into the commit group's image: header, two CRCs' worth of bytes, one copy. The
// flush is a simulated device's and bounds nothing.
func BenchmarkStage(b *testing.B) {
	s, dev, l := silentStore(b, 62)
	payload := make([]byte, 330-entryHeaderBytes)
	now := int64(1e9)
	b.ReportAllocs()
	b.SetBytes(330)
	for b.Loop() {
		if _, err := l.Note(testNote, 1, payload); err != nil {
			b.StopTimer()
			for range 4 {
				now += 1000
				s.EndTurn(now)
				for dev.Step(now) {
				}
			}
			b.StartTimer()
		}
	}
}

// BenchmarkSealGroup: headers and CRCs of a full group of 256 KiB.
func BenchmarkSealGroup(b *testing.B) {
	m := &image{limit: 64, data: alignedHeap(64 * blockBytes)}
	payload := make([]byte, 300)
	for m.room() >= 300 {
		m.put(payload[:0], [3][]byte{payload}, false)
	}
	b.ReportAllocs()
	b.SetBytes(64 * blockBytes)
	for b.Loop() {
		m.seal(1, 2, 3, 4000, 256)
	}
}
