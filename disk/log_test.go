package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
)

// logBench is a harness that remembers every batch it staged, for comparing with what is read.
type logBench struct {
	*harness
	opt  map[Key]LogOptions
	sent map[Key][]sentBatch
}

type sentBatch struct {
	head  batch.Header
	bytes []byte
	index uint64
}

var testKey = Key{7, 3}

func newLogBench(t testing.TB, seed uint64, cfg Config) *logBench {
	b := &logBench{harness: newHarness(t, seed, cfg), opt: make(map[Key]LogOptions), sent: make(map[Key][]sentBatch)}
	b.harness.logOptions = b.options
	return b
}

func (b *logBench) options(k Key) LogOptions {
	o, ok := b.opt[k]
	if !ok {
		o = LogOptions{Journaled: true, SegmentBytes: 1 << 20}
	}
	o.Tag = batch.PartitionTag(b.cfg.DirectoryID, k.Topic, k.Partition)
	return o
}

func (b *logBench) log(k Key) *Log { return b.s.NewLog(k, b.options(k)) }

// append stages a batch of one record of n bytes at the log end.
func (b *logBench) append(k Key, n int) error { return b.appendAt(k, b.log(k).LogEnd(), n) }

func (b *logBench) appendAt(k Key, base batch.Offset, n int) error {
	l := b.log(k)
	p := testBatch(b.cfg.DirectoryID, k, uint64(base), b.cfg.Start, n)
	head, err := batch.ParseHeader(p)
	if err != nil {
		b.t.Fatal(err)
	}
	chunks := [][]byte{p}
	if len(p) > 200 {
		chunks = [][]byte{p[:97], p[97:150], p[150:]}
	}
	next := l.NextIndex()
	index, err := l.Append(b.cfg.Start, &head, chunks)
	if err != nil {
		return err
	}
	if !l.opt.Journaled && l.NextIndex() > next { // a segment outside the journal is named by a trim that trims nothing
		part := b.m.part(k)
		part.staged = append(part.staged, entryText(&Entry{Kind: KindTrim, Trim: l.LogStart()}))
	}
	b.sent[k] = append(b.sent[k], sentBatch{head, p, index})
	if l.opt.Journaled {
		part := b.m.part(k)
		part.staged = append(part.staged, entryText(&Entry{Kind: KindAppend, Header: head}))
	}
	return nil
}

func (b *logBench) mustAppend(k Key, sizes ...int) {
	b.t.Helper()
	for _, n := range sizes {
		err := b.append(k, n)
		for i := 0; errors.Is(err, ErrBusy) && i < 1000; i++ {
			b.turn()
			b.now += 1e6
			err = b.append(k, n)
		}
		if err != nil {
			b.t.Fatalf("append of %d bytes: %v", n, err)
		}
	}
}

// read does one Read to its end and returns what it gave, copied.
func (b *logBench) read(k Key, r *Read) ([]byte, error) {
	b.t.Helper()
	done := false
	r.Done = func(*Read) { done = true }
	if r.Limit == 0 {
		r.Limit = b.log(k).LogEnd()
	}
	if !b.log(k).Read(r) {
		for i := 0; !done; i++ {
			if b.dev.InFlight() == 0 || i > 100_000 {
				b.t.Fatalf("read at %v waits for nothing", r.From)
			}
			if err := b.dev.Wait(); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	out := bytes.Join(r.Data, nil)
	r.Release()
	return out, r.Err
}

// readAll reads from start to the log end in pieces of maxBytes.
func (b *logBench) readAll(k Key, start batch.Offset, maxBytes int) ([]byte, error) {
	b.t.Helper()
	var out []byte
	r := &Read{From: Cursor{Offset: start}, MaxBytes: maxBytes}
	records := 0
	for r.From.Offset < b.log(k).LogEnd() {
		p, err := b.read(k, r)
		if err != nil {
			return out, err
		}
		if len(p) == 0 || r.Next == r.From {
			return out, fmt.Errorf("read at %+v gives nothing, log end %d", r.From, b.log(k).LogEnd())
		}
		if len(p) > max(maxBytes, batch.HeaderBytes) {
			b.t.Fatalf("%d bytes for at most %d", len(p), maxBytes)
		}
		out = append(out, p...)
		records += r.Records
		r.From = r.Next
	}
	return out, nil
}

// check reads the whole log with several piece sizes and compares with what was sent, as far as it reached the log.
func (b *logBench) check(k Key) {
	b.t.Helper()
	l := b.log(k)
	var want []byte
	for _, s := range b.sent[k] {
		if offsetOf(s.head.NextOffset()) > l.LogStart() && offsetOf(s.head.NextOffset()) <= l.LogEnd() {
			want = append(want, s.bytes...)
		}
	}
	for _, size := range []int{64, 1000, 40_000, 1 << 20} {
		if size < 1000 && len(want) > 100_000 {
			continue
		}
		got, err := b.readAll(k, l.LogStart(), size)
		if err != nil || !bytes.Equal(got, want) {
			b.t.Fatalf("%s: read %d bytes in pieces of %d, want %d; first difference at %d: %v",
				k, len(got), size, len(want), firstDifference(got, want), err)
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// lost forgets what was sent and is not there: every batch that was durable must still be there.
func (b *logBench) lost(k Key, durable batch.Offset) {
	b.t.Helper()
	if end := b.log(k).LogEnd(); end < durable {
		b.t.Fatalf("%s: log ends at %d, %d was durable", k, end, durable)
	}
	l := b.log(k)
	end := l.LogEnd()
	b.sent[k] = slices.DeleteFunc(b.sent[k], func(s sentBatch) bool {
		base := offsetOf(s.head.BaseOffset)
		return base >= end || base >= durable && !l.opt.Journaled && !l.segmentHolds(base)
	})
}

// segmentHolds says whether a segment's bounds include o. Outside the journal a crash may take a batch that was not
// durable and leave one behind it that lies in the next segment: the bounds then show the gap.
func (l *Log) segmentHolds(o batch.Offset) bool {
	return slices.ContainsFunc(l.segments, func(g *segment) bool { return g.first <= o && o < g.end })
}

// Every way a batch can lie: hot, placed, cold, small, direct, over blocks, over segments.
func TestLogReadsWhatWasAppended(t *testing.T) {
	b := newLogBench(t, 1, smallConfig())
	b.mustAppend(testKey, 10, 300, 5000, 3, 70_000, 20, 20, 200_000, 1)
	b.check(testKey)
	b.settle()
	b.check(testKey)
	if end := b.log(testKey).DurableEnd(); end != 9 {
		t.Fatalf("durable end %d, want 9", end)
	}
	for range 40 {
		b.mustAppend(testKey, 900, 15_000, 30_000, 100)
	}
	b.settle()
	b.check(testKey)
	if n := b.log(testKey).Segments(); n < 2 {
		t.Fatalf("%d segments; the test wants several", n)
	}
	b.close()
}

func TestLogRecoversAfterClose(t *testing.T) {
	b := newLogBench(t, 2, smallConfig())
	b.mustAppend(testKey, 10, 300, 5000, 3, 70_000, 20, 20, 200_000, 1)
	b.settle()
	b.close()
	b.open()
	b.mustBeClean()
	b.check(testKey)
	b.mustAppend(testKey, 40, 50_000, 1)
	b.check(testKey)
	b.settle()
	b.close()
	b.open()
	b.mustBeClean()
	b.check(testKey)
}

// Power cuts at every phase of a random workload on several partitions: what was durable is there, unchanged, and what
// is there was sent.
func TestLogKeepsDurableBatchesThroughPowerCuts(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for seed := range uint64(runs) {
		b := newLogBench(t, seed, smallConfig())
		rng := rand.New(rand.NewPCG(seed, 7))
		keys := []Key{{1, 0}, {1, 1}, {2, 0}}
		for range 4 {
			for range 1 + rng.IntN(30) {
				k := keys[rng.IntN(len(keys))]
				n := rng.IntN(3000)
				if rng.IntN(6) == 0 {
					n = rng.IntN(60_000)
				}
				if err := b.append(k, n); err != nil && !errors.Is(err, ErrBusy) {
					t.Fatalf("seed %d: %v (%v)", seed, err, b.log(k).fenced)
				}
				if l := b.log(k); rng.IntN(20) == 0 && l.DurableEnd() > l.LogStart() {
					b.trim(k, l.LogStart()+(l.DurableEnd()-l.LogStart())/2)
				}
				for range rng.IntN(3) {
					b.dev.Step(b.now)
				}
				if rng.IntN(3) == 0 {
					b.turn()
				}
			}
			durable := make(map[Key]batch.Offset)
			for _, k := range keys {
				durable[k] = b.log(k).DurableEnd()
			}
			b.crash()
			if b.report.Damaged() {
				t.Fatalf("seed %d: %s", seed, b.report)
			}
			for _, k := range keys {
				b.lost(k, durable[k])
				b.check(k)
			}
		}
	}
}

func (b *logBench) trim(k Key, start batch.Offset) {
	b.t.Helper()
	if _, err := b.log(k).Trim(b.cfg.Start, start); err != nil {
		b.t.Fatalf("trim to %d: %v", start, err)
	}
	part := b.m.part(k)
	part.staged = append(part.staged, entryText(&Entry{Kind: KindTrim, Trim: start}))
}
