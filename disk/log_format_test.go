package disk

import (
	"bytes"
	"slices"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

func goldenSegment() *segment {
	g := &segment{
		log:  &Log{key: Key{7, 3}},
		base: 0x0102, epoch: 0x030000, first: 0x0102, end: 0x0109, length: 0x9010, placed: 0x9000, closed: true,
		maxTime: 0x0a0b,
	}
	g.index.entries = []indexEntry{{0x0102, 0x0a01, 0}, {0x0105, 0x0a05, 0x4000}, {0x0108, 0x0a0b, 0x9000}}
	return g
}

const goldenTag = 0x11223344

func TestIndexGolden(t *testing.T) {
	golden := append(goldenBytes(t, "index_v1.hex"), make([]byte, blockBytes)...)[:blockBytes]
	g := goldenSegment()
	p := bytes.Repeat([]byte{0xaa}, 2*blockBytes)
	if n := encodeIndex(p, g, goldenTag); n != blockBytes || !bytes.Equal(p[:n], golden) {
		t.Errorf("encoded\n%x, want\n%x", p[:128], golden[:128])
	}
	entries, ok := decodeIndex(golden, g, goldenTag)
	if !ok || !slices.Equal(entries, g.index.entries) {
		t.Errorf("decoded %v, %v", entries, ok)
	}
	for i := range indexHeaderBytes + 3*indexEntryBytes {
		golden[i] ^= 0x10
		if _, ok := decodeIndex(golden, g, goldenTag); ok {
			t.Errorf("byte %d flipped and believed", i)
		}
		golden[i] ^= 0x10
	}
}

func TestPlacementGolden(t *testing.T) {
	golden := goldenBytes(t, "placement_v1.hex")
	want := placement{base: 0x0102030405060708, epoch: 0x1112131415161718, position: 0x21222324}
	var p [placementBytes]byte
	want.put(p[:])
	if !bytes.Equal(p[:], golden) {
		t.Errorf("encoded %x, want %x", p, golden)
	}
	if got, rest, err := parsePlacement(golden); err != nil || got != want || len(rest) != 0 {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func TestLogStateGolden(t *testing.T) {
	golden := goldenBytes(t, "logstate_v1.hex")
	var l Log
	rest, err := l.restoreState(append(golden, "more"...))
	if err != nil || string(rest) != "more" {
		t.Fatalf("restore: %v, rest %q", err, rest)
	}
	if l.logStart != 0x21 || l.durableEnd != 0x31 || l.logEnd != 0x31 || l.durableIndex != 0x11 || l.nextIndex != 0x12 || l.lastTime != 0x41 {
		t.Errorf("restored %d %d %d %d %d", l.logStart, l.durableEnd, l.durableIndex, l.nextIndex, l.lastTime)
	}
	if len(l.segments) != 2 || !l.segments[0].closed || !l.segments[1].plain || l.segments[1].replaces != l.segments[0] {
		t.Fatalf("segments: %+v", l.segments)
	}
	if got := l.appendState(nil); !bytes.Equal(got, golden) {
		t.Errorf("encoded\n%x, want\n%x", got, golden)
	}
}

// A segment as it lies on the medium: two batches, padding to the block, one more batch. The golden file has the batches
// without the padding.
func TestSegmentGolden(t *testing.T) {
	golden := goldenBytes(t, "segment_v1.hex")
	b := newLogBench(t, 1, smallConfig())
	b.mustAppend(testKey, 3, 9)
	b.settle()
	b.log(testKey).SyncNow()
	b.mustAppend(testKey, 5)
	b.settle()
	b.log(testKey).SyncNow()
	b.settle()
	first := int(b.sent[testKey][0].head.TotalBytes() + b.sent[testKey][1].head.TotalBytes())
	want := make([]byte, 2*blockBytes)
	copy(want, golden[:first])
	copy(want[blockBytes:], golden[first:])
	path := b.log(testKey).segments[0].path("log")
	if want := "topics/7/3/00000000000000000000-0000000000010000.log"; path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	if got := b.dev.Peek(path); !bytes.Equal(got, want) {
		t.Errorf("segment of %d bytes, want %d; they differ from byte %d on", len(got), len(want), firstDifference(got, want))
	}
	b.close()
	b.open()
	if got, err := b.readAll(testKey, 0, 1<<20); err != nil || !bytes.Equal(got, golden) {
		t.Errorf("read %x, %v", got, err)
	}
}

// FuzzIndex: whatever an index file holds, what is believed of it is in order and inside the segment.
func FuzzIndex(f *testing.F) {
	g := goldenSegment()
	p := make([]byte, blockBytes)
	encodeIndex(p, g, goldenTag)
	f.Add(p[:indexHeaderBytes+3*indexEntryBytes])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		entries, ok := decodeIndex(p, g, goldenTag)
		for i, e := range entries {
			if !ok || e.offset < g.first || e.offset >= g.end || e.position >= g.length ||
				i > 0 && (e.offset <= entries[i-1].offset || e.position <= entries[i-1].position) {
				t.Fatalf("entry %d: %+v, %v", i, e, ok)
			}
		}
	})
}

// FuzzSegment: a walk over any bytes ends, hands out only batches that check, in order, and never looks outside.
func FuzzSegment(f *testing.F) {
	k := testKey
	one := testBatch([16]byte{}, k, 5, 1, 20)
	two := testBatch([16]byte{}, k, 6, 1, 30)
	padded := append(append(bytes.Clone(one), make([]byte, blockBytes-len(one))...), two...)
	f.Add(one, 4096)
	f.Add(padded, len(padded))
	f.Add(append(bytes.Clone(one), two...), len(one)+len(two))
	f.Add(append(bytes.Clone(one), one...), 1<<20)
	tag := batch.PartitionTag([16]byte{}, k.Topic, k.Partition)
	f.Fuzz(func(t *testing.T, p []byte, limit int) {
		w := walker{tag: tag, next: 5, limit: Position(min(limit, 1<<20)), p: p}
		for steps := 0; ; steps++ {
			h, found, err := w.step()
			if found != walkBatch {
				if found == walkDamaged && err == nil {
					t.Fatal("damage without a reason")
				}
				return
			}
			if h.PartitionTag != tag || offsetOf(h.BaseOffset) < w.next || steps > len(p) {
				t.Fatalf("handed out %+v", h)
			}
			if again, err := batch.ParseHeader(p[w.at:]); err != nil || again != h {
				t.Fatalf("header at %d: %v", w.at, err)
			}
			w.pass(&h)
		}
	})
}

// FuzzLogState: a state that restores is one that can be encoded again, byte for byte.
func FuzzLogState(f *testing.F) {
	f.Add(goldenBytes(f, "logstate_v1.hex"))
	f.Add(make([]byte, stateHeaderBytes))
	f.Fuzz(func(t *testing.T, p []byte) {
		var l Log
		rest, err := l.restoreState(p)
		if err != nil {
			return
		}
		for i, g := range l.segments {
			if g.first > g.end || g.length < g.start || i > 0 && g.first < l.segments[i-1].end {
				t.Fatalf("segment %d: %+v", i, g)
			}
		}
		used := len(p) - len(rest)
		if used > stateHeaderBytes+len(l.segments)*stateSegmentBytes {
			t.Fatalf("%d bytes used", used)
		}
	})
}

// FuzzRedo: no payload of an entry, checked or not, makes a log do more than refuse it.
func FuzzRedo(f *testing.F) {
	b := testBatch([16]byte{}, testKey, 0, 1, 20)
	var head [placementBytes]byte
	placement{0, 1 << epochShift, 0}.put(head[:])
	f.Add(byte(KindAppend), uint64(1), append(head[:], b...))
	f.Add(byte(KindReference), uint64(1), append(le.AppendUint64(head[:], uint64(len(b))), b[:batch.HeaderBytes]...))
	f.Add(byte(KindTrim), uint64(1), make([]byte, trimBytes))
	f.Add(byte(KindTrim), uint64(1), make([]byte, trimBytes+placementBytes))
	f.Fuzz(func(t *testing.T, kind byte, index uint64, payload []byte) {
		s := &Store{cfg: Config{}.withDefaults(), dev: NewSim(SimOptions{}), pool: block.NewPool(8 << 20)}
		s.logs = newLogShare(s)
		s.machine = newTestMachine()
		l := newLog(s, testKey, LogOptions{Journaled: true, Tag: batch.PartitionTag([16]byte{}, testKey.Topic, testKey.Partition)})
		e := Entry{Key: testKey, Index: index, Kind: Kind(kind)}
		end := l.logEnd
		if err := l.redo(&e, payload); err != nil && l.logEnd != end {
			t.Fatalf("refused with %v, and the log end moved", err)
		}
	})
}
