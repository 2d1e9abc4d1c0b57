package disk

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// BenchmarkRecovery: a start after kill -9 over a journal of the default size, 8 files of 128 MiB, that was filled as fast
// as the disk takes it. MB/s is live journal by the time of Open: scan, replay into tails, and the placing that goes on
// meanwhile. Real disk, direct I/O, memory that was used before. The machine keeps nothing: a shard's replay comes on top.
func BenchmarkRecovery(b *testing.B) {
	for _, c := range []struct{ partitions, bytes int }{{8, 16 << 10}, {500, 4 << 10}} {
		b.Run(fmt.Sprintf("%d partitions, batches of %d", c.partitions, c.bytes), func(b *testing.B) { benchRecovery(b, c.partitions, c.bytes) })
	}
}

// indexMachine keeps nothing but each log's index.
type indexMachine map[Key]uint64

func (indexMachine) Known(Key) Existence                            { return Live }
func (indexMachine) Restore(*Log, []byte) error                     { return nil }
func (m indexMachine) Replay(l *Log, e *Entry) error                { m[l.Key()] = e.Index; return nil }
func (indexMachine) Damaged(*Log, Damage)                           {}
func (m indexMachine) Durable(l *Log, i uint64)                     { m[l.Key()] = i }
func (m indexMachine) Snapshot(l *Log, dst []byte) (uint64, []byte) { return m[l.Key()], dst }
func (indexMachine) Fenced(*Log, error)                             {}
func (indexMachine) Failed(error)                                   {}
func (indexMachine) Stalled(bool)                                   {}
func (indexMachine) Gone(Key)                                       {}

func benchRecovery(b *testing.B, partitions, size int) {
	if testing.Short() {
		b.Skip("writes some GiB")
	}
	runtime.LockOSThread()
	dev := newTestUring(b, b.TempDir(), UringOptions{})
	cfg := Config{Start: 1, JournalFiles: 8, JournalFileBytes: 128 << 20}
	opt := func(k Key) LogOptions {
		return LogOptions{Journaled: true, Tag: batch.PartitionTag(cfg.DirectoryID, k.Topic, k.Partition)}
	}
	pool := block.NewPool(3 << 30)
	s, _, err := Open(cfg, dev, pool, make(indexMachine), opt)
	if err != nil {
		b.Fatal(err)
	}
	body := testBatch(cfg.DirectoryID, Key{1, 0}, 0, 1, size)
	fill := time.Now()
	most := int64(0)
	for i := 0; s.journal.durable.Dead < 10 || s.Stats().JournalUsed < 190<<20; i++ {
		if s.journal.durable.Dead > 5 {
			most = max(most, s.Stats().JournalUsed)
		}
		k := Key{1, uint32(i % partitions)}
		l := s.NewLog(k, opt(k))
		batch.Stamp(body, uint64(l.LogEnd()), 1, 1000, opt(k).Tag)
		head, err := batch.ParseHeader(body)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err = l.Append(1, &head, [][]byte{body}); err == nil {
				break
			}
			turnOnDisk(b, s, dev)
		}
	}
	b.Logf("filled in %v, at most %d MiB live", time.Since(fill), most>>20)
	for dev.InFlight() > 0 {
		if err := dev.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	live := s.Stats().JournalUsed
	s.abandon()
	pool.Reclaim()
	b.ResetTimer()
	for b.Loop() {
		cfg.Start++
		s, r, err := Open(cfg, dev, pool, make(indexMachine), opt)
		if err != nil || r.Damaged() {
			b.Fatal(err, r)
		}
		b.StopTimer()
		b.Log(r.BytesRead>>20, "MiB read,", r.Entries, "entries", live>>20, "MiB live")
		s.abandon()
		pool.Reclaim()
		b.StartTimer()
	}
	b.ReportMetric(float64(live)/1e6*float64(b.N)/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(live)/1e6, "MB-live")
}

// turnOnDisk is one turn of a store on a real device.
func turnOnDisk(b *testing.B, s *Store, dev *Uring) {
	s.EndTurn(time.Now().UnixNano())
	if err := dev.Wait(); err != nil {
		b.Fatal(err)
	}
	if s.journal.failed != nil {
		b.Fatal(s.journal.failed)
	}
}
