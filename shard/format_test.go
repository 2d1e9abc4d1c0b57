package shard

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// golden reads testdata/name: comments after #, hex in between. These bytes lie on the disks of brokers.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	p, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

func sampleSettings() frame.Settings {
	set := frame.DefaultSettings()
	set.Durability, set.RetentionRecords, set.RetentionAcked = frame.DurabilityInterval, 77, true
	return set
}

func sampleProducers() (t producers) {
	t.apply(&batch.Header{ProducerID: 1<<32 + 9, ProducerEpoch: 3, BaseSequence: 0xfffffffe, Count: 2, BaseOffset: 40, AppendTime: 1000}, 10)
	t.apply(&batch.Header{ProducerID: 1<<32 + 8, BaseSequence: 5, Count: 1, BaseOffset: 42, AppendTime: 1001}, 10)
	t.apply(&batch.Header{ProducerID: 1<<32 + 9, ProducerEpoch: 3, BaseSequence: 0, Count: 1, BaseOffset: 43, AppendTime: 1002}, 10)
	return t
}

func bare() *Shard { return New(Config{}, nil) }

func TestPartitionSnapshotGolden(t *testing.T) {
	want := golden(t, "partition_v1.hex")
	var p partition
	if err := p.restore(want, 10); err != nil {
		t.Fatal(err)
	}
	if p.start != 7 || p.durable != 44 || p.ceiling != 1_000_000 || p.time != 1002 {
		t.Errorf("%+v", p)
	}
	q := p.producers.lookup(1<<32 + 9)
	if q == nil || q.applied.n != 2 || q.applied.epoch != 3 || q.applied.last[1] != (sent{0, 1, 43, 1002}) || q.staged != q.applied || q.applied.expected() != 1 {
		t.Errorf("%+v", q)
	}
	if got := p.appendState(nil); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
	p = partition{start: 7, durable: 44, ceiling: 1_000_000, time: 1002, producers: sampleProducers()}
	if got := p.appendState(nil); !bytes.Equal(got, want) {
		t.Errorf("from values\n%x, want\n%x", got, want)
	}
	for n := 1; n < len(want); n++ {
		if new(partition).restore(want[:n], 10) == nil {
			t.Errorf("%d of %d bytes were taken", n, len(want))
		}
	}
}

func TestMetaSnapshotGolden(t *testing.T) {
	want := golden(t, "meta_v1.hex")
	s := bare()
	s.topics.add(s.newTopic(3, "orders.eu", 2, sampleSettings()))
	s.topics.add(s.newTopic(9, "a", 1, frame.DefaultSettings()))
	s.topics.bury(4, 5)
	s.topics.nextID, s.meta.given = 12, 2<<32+100
	if got := s.snapshotMeta(nil); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
	again := bare()
	if err := again.restoreMeta(want); err != nil {
		t.Fatal(err)
	}
	if x := again.topics.byName["orders.eu"]; x == nil || x.id != 3 || len(x.partitions) != 2 || x.settings != sampleSettings() {
		t.Errorf("%+v", x)
	}
	if got := again.snapshotMeta(nil); !bytes.Equal(got, want) {
		t.Errorf("again\n%x, want\n%x", got, want)
	}
	for n := range want {
		if bare().restoreMeta(want[:n]) == nil {
			t.Errorf("%d of %d bytes were taken", n, len(want))
		}
	}
}

// Every entry of meta, one after the other, each as a kind and its payload's length before it.
func TestMetaEntriesGolden(t *testing.T) {
	p := golden(t, "meta_entries_v1.hex")
	s := bare()
	for index := uint64(1); len(p) > 0; index++ {
		kind, n := disk.Kind(p[0]), int(le.Uint16(p[1:]))
		if err := s.replayMeta(&disk.Entry{Index: index, Kind: kind, Payload: p[3 : 3+n]}); err != nil {
			t.Fatal(err)
		}
		p = p[3+n:]
		switch index {
		case 1:
			if x := s.topics.byName["orders.eu"]; x == nil || x.id != 3 || len(x.partitions) != 2 || x.settings != frame.DefaultSettings() {
				t.Errorf("create: %+v", x)
			}
		case 2:
			if x := s.topics.byID[3]; x.settings != sampleSettings() {
				t.Errorf("alter: %+v", x.settings)
			}
		case 3:
			if s.meta.given != 1<<32+65 {
				t.Errorf("producers: %#x", s.meta.given)
			}
		case 4:
			if x := s.topics.tomb(3); len(s.topics.byID) != 0 || x == nil || x.count != 2 {
				t.Errorf("delete: %+v", x)
			}
		case 5:
			if s.topics.tomb(3) != nil || s.topics.nextID != 4 {
				t.Error("forget")
			}
		}
	}
	if s.meta.index != 5 {
		t.Errorf("%d entries", s.meta.index)
	}
}

// Snapshots and entries have CRCs, and still no byte of them is believed without a check.
func FuzzStoredState(f *testing.F) {
	f.Add(uint8(0), golden(f, "partition_v1.hex"))
	f.Add(uint8(1), golden(f, "meta_v1.hex"))
	for p := golden(f, "meta_entries_v1.hex"); len(p) > 0; {
		n := int(le.Uint16(p[1:]))
		f.Add(p[0], p[3:3+n])
		p = p[3+n:]
	}
	f.Fuzz(func(t *testing.T, kind uint8, p []byte) {
		switch s := bare(); kind {
		case 0:
			var x partition
			if x.restore(p, 100) == nil && len(p) > 0 {
				var again partition
				if err := again.restore(x.appendState(nil), 100); err != nil {
					t.Fatalf("what was restored does not restore: %v", err)
				}
			}
		case 1:
			if s.restoreMeta(p) == nil {
				if err := bare().restoreMeta(s.snapshotMeta(nil)); err != nil {
					t.Fatalf("what was restored does not restore: %v", err)
				}
			}
		default:
			_ = s.replayMeta(&disk.Entry{Index: 1, Kind: disk.Kind(kind), Payload: p})
		}
	})
}
