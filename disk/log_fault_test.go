package disk

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
)

// A segment whose write fails is given up and its tail goes to a fresh file, once; nothing is lost, also not over a
// restart, and the partition goes on.
func TestFailedSegmentIsReplacedOnce(t *testing.T) {
	for _, kind := range []OpKind{OpWrite, OpCreate, OpSync, OpSyncDir} {
		for seed := range uint64(4) {
			b := newLogBench(t, seed, smallConfig())
			b.dev.Plan(SimFault{Kind: kind, Prefix: "topics/7", After: seed, Times: 1, Err: syscall.EIO})
			b.mustAppend(testKey, 100, 40_000, 100, 5000, 30_000, 10)
			b.settle()
			b.log(testKey).place(func(error) {})
			b.settle()
			if len(b.m.fenced) > 0 {
				t.Fatalf("kind %d, seed %d: fenced after one failure: %v", kind, seed, b.log(testKey).fenced)
			}
			if end := b.log(testKey).DurableEnd(); end != 6 {
				t.Fatalf("kind %d, seed %d: durable end %d, want 6", kind, seed, end)
			}
			b.check(testKey)
			b.mustAppend(testKey, 200, 20_000)
			b.settle()
			if seed%2 == 0 {
				b.crash()
			} else {
				b.close()
				b.open()
			}
			b.mustBeClean()
			b.lost(testKey, 8)
			b.check(testKey)
			b.mustAppend(testKey, 300)
			b.settle()
			b.close()
			b.open()
			b.mustBeClean()
			b.check(testKey)
		}
	}
}

// When the fresh file fails too that partition is fenced, alone: it answers ErrFenced, the others go on, what was durable
// is still read, and a restart on a healthy disk has all of it.
func TestSegmentThatFailsTwiceFencesItsPartition(t *testing.T) {
	b := newLogBench(t, 1, smallConfig())
	other := Key{8, 0}
	b.mustAppend(testKey, 100, 200)
	b.mustAppend(other, 100)
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Err: syscall.EIO})
	placed := errors.New("not called")
	b.log(testKey).place(func(err error) { placed = err })
	b.settle()
	if len(b.m.fenced) != 1 || b.m.fenced[0] != testKey {
		t.Fatalf("fenced: %v", b.m.fenced)
	}
	if !errors.Is(placed, syscall.EIO) {
		t.Errorf("place answered %v", placed)
	}
	if err := b.append(testKey, 10); !errors.Is(err, ErrFenced) {
		t.Errorf("append to a fenced log: %v", err)
	}
	b.check(testKey)
	b.mustAppend(other, 30_000)
	b.settle()
	b.check(other)
	b.dev.ClearPlans()
	b.crash()
	b.mustBeClean()
	b.check(testKey)
	b.check(other)
}

// An error of the device is not damage: it is handed on, and the next read may succeed.
func TestReadErrorIsHandedOn(t *testing.T) {
	b := coldFixture(t)
	b.dev.Plan(SimFault{Kind: OpRead, Prefix: b.log(testKey).segments[0].path("log"), Times: 1, Err: syscall.EIO})
	if _, err := b.read(testKey, &Read{MaxBytes: 1000}); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) {
		t.Fatalf("read: %v", err)
	}
	b.check(testKey)
}

// coldFixture is a log whose batches lie in closed segments only, with indexes beside them.
func coldFixture(t testing.TB) *logBench {
	cfg := smallConfig()
	cfg.IndexBytes = 1024
	b := newLogBench(t, 1, cfg)
	b.opt[testKey] = LogOptions{Journaled: true, SegmentBytes: 12 << 10}
	for range 4 {
		b.mustAppend(testKey, 300, 700, 1500, 20, 900)
		b.settle()
		b.log(testKey).SyncNow()
		b.settle()
	}
	b.close()
	b.open()
	b.mustBeClean()
	return b
}

func TestMissingFilesAreNamed(t *testing.T) {
	b := coldFixture(t)
	var index, segment string
	for _, p := range b.dev.Paths() {
		switch {
		case strings.HasSuffix(p, ".index") && index == "":
			index = p
		case strings.HasSuffix(p, ".log") && segment == "":
			segment = p
		}
	}
	if !b.dev.Unlink(index) {
		t.Fatal("no index file")
	}
	b.check(testKey)
	b.forget()
	if !b.dev.Unlink(segment) {
		t.Fatal("no segment")
	}
	_, err := b.read(testKey, &Read{MaxBytes: 1000})
	var d *DamageError
	if !errors.As(err, &d) || !errors.Is(err, ErrDamaged) || d.From != 0 || d.To <= d.From || d.File != segment {
		t.Fatalf("read of a missing file: %v", err)
	}
	if _, err := b.read(testKey, &Read{From: Cursor{Offset: d.To}, MaxBytes: 1000}); err != nil {
		t.Fatalf("the next segment cannot be read: %v", err)
	}
}

// forget drops what memory knows of closed segments, as a restart would.
func (b *logBench) forget() {
	l := b.log(testKey)
	l.hints = [2]readHint{}
	for _, g := range l.segments {
		b.s.logs.indexes.remove(g)
		g.index = sparseIndex{written: true}
		if g.file.state == fileOpen {
			g.close()
		}
	}
	for b.dev.InFlight() > 0 {
		if err := b.dev.Wait(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Every byte of a segment and of its index is flipped, two ways. A reader never gets a wrong byte: it gets all, or damage
// that names the batch; and what lies behind the damage can be read.
func TestFlippedBytesNeverReachAReader(t *testing.T) {
	b := coldFixture(t)
	g := b.log(testKey).segments[0]
	want, err := b.readAll(testKey, g.first, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{"log", "index"} {
		path := g.path(ext)
		file := b.dev.Peek(path)
		step := 1
		if testing.Short() {
			step = 37
		}
		for at := 0; at < len(file) && at < int(g.length)+64; at += step {
			for _, flip := range []byte{0xfe, 0x7f} {
				b.dev.Poke(path, int64(at), []byte{file[at] ^ flip})
				b.forget()
				got, err := b.readAll(testKey, g.first, 1<<20)
				b.dev.Poke(path, int64(at), file[at:at+1])
				if !bytes.HasPrefix(want, got) {
					t.Fatalf("%s byte %d ^ %#x: a reader got wrong bytes", ext, at, flip)
				}
				if ext == "index" && err != nil {
					t.Fatalf("index byte %d ^ %#x hides its segment: %v", at, flip, err)
				}
				if err == nil && len(got) == len(want) {
					if ext == "log" && at < int(g.length)-1 && file[at] != 0 {
						t.Fatalf("segment byte %d ^ %#x was not noticed", at, flip)
					}
					continue
				}
				var d *DamageError
				if !errors.As(err, &d) || d.To <= d.From || d.From != endOf(b, got) {
					t.Fatalf("%s byte %d ^ %#x: %v behind offset %d", ext, at, flip, err, endOf(b, got))
				}
			}
		}
	}
	b.forget()
	if got, err := b.readAll(testKey, g.first, 1<<20); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the fixture changed: %v", err)
	}
}

// endOf is the offset behind the batches in p.
func endOf(b *logBench, p []byte) batch.Offset {
	end := b.log(testKey).LogStart()
	for len(p) > 0 {
		h, _, rest, err := batch.Next(p)
		if err != nil {
			b.t.Fatal(err)
		}
		end, p = offsetOf(h.NextOffset()), rest
	}
	return end
}

// A reader that goes on at DamageError.To loses the damaged batches and no others but those before the next index entry.
func TestReadingGoesOnBehindDamage(t *testing.T) {
	b := coldFixture(t)
	g := b.log(testKey).segments[0]
	h := b.sent[testKey][1] // the second batch, at the first one's end
	b.dev.Flip(g.path("log"), b.sent[testKey][0].head.TotalBytes()+batch.HeaderBytes+5, 3)
	r := &Read{MaxBytes: 1 << 20}
	first, err := b.read(testKey, r)
	if err != nil || r.Next.Offset != offsetOf(h.head.BaseOffset) {
		t.Fatalf("read up to %+v: %v", r.Next, err)
	}
	_, err = b.read(testKey, &Read{From: r.Next, MaxBytes: 1 << 20})
	var d *DamageError
	if !errors.As(err, &d) || d.From != offsetOf(h.head.BaseOffset) || d.To > d.From+2 {
		t.Fatalf("damage: %v", err)
	}
	rest, err := b.readAll(testKey, d.To, 1<<20)
	if err != nil || len(first) == 0 || len(rest) == 0 {
		t.Fatalf("behind the damage: %d bytes, %v", len(rest), err)
	}
}

// While a direct write hangs, what its partition holds back behind it counts as staged: appends and notes are refused at
// the bound, for the whole shard, and go on when the write has landed.
func TestEntriesHeldBackAreBounded(t *testing.T) {
	b := newLogBench(t, 1, smallConfig())
	b.mustAppend(testKey, 100)
	b.settle()
	b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Times: 1, StallNanos: 10e9})
	b.mustAppend(testKey, 20_000)
	held := 0
	for b.append(testKey, 1000) == nil && held < 10_000 {
		held++
		b.turn()
	}
	if most := b.cfg.StagedBytes / 1000; held < most/2 || held > most {
		t.Errorf("%d batches of 1000 bytes are held back, staged bound %d bytes", held, b.cfg.StagedBytes)
	}
	for b.tryNote(testKey, "a note") == nil && held < 20_000 {
		held++
	}
	if held >= 20_000 {
		t.Error("notes are held back without bound")
	}
	if err := b.s.Room(1000); err != ErrBusy {
		t.Errorf("room of the shard: %v", err)
	}
	b.now += 11e9
	b.settle()
	if n := b.s.logs.heldBytes; n != 0 {
		t.Errorf("%d bytes count as held back, and nothing is", n)
	}
	b.mustAppend(testKey, 1000)
	b.settle()
	b.check(testKey)
}

// A partition that is fenced or dropped with direct writes that never landed leaves nothing behind in the shard's bounds:
// others may write as much data first as before.
func TestFencedPartitionGivesItsBoundsBack(t *testing.T) {
	for _, drop := range []bool{false, true} {
		b := newLogBench(t, 1, smallConfig())
		b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Err: syscall.EIO})
		b.mustAppend(testKey, 100, 40_000, 100, 50_000, 20_000, 100)
		b.settle()
		if len(b.m.fenced) != 1 {
			t.Fatalf("fenced: %v", b.m.fenced)
		}
		if drop {
			if _, err := b.log(testKey).Drop(1); err != nil {
				t.Fatal(err)
			}
			b.settle()
		}
		if sh := b.s.logs; sh.directBytes != 0 || sh.heldBytes != 0 {
			t.Errorf("drop %v: %d bytes count as under way, %d as held back", drop, sh.directBytes, sh.heldBytes)
		}
	}
}

// A partition that was told to go while a direct write was under way goes, also when that write then fails for good; so
// does one that is told afterwards, and a restart finds nothing of either.
func TestDropOutlivesTheFence(t *testing.T) {
	for _, before := range []bool{true, false} {
		b := newLogBench(t, 1, smallConfig())
		b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", Err: syscall.EIO})
		b.mustAppend(testKey, 100, 40_000, 100)
		b.tryNote(testKey, "never staged")
		if !before {
			b.settle()
		}
		if _, err := b.log(testKey).Drop(1); err != nil {
			t.Fatal(err)
		}
		b.settle()
		l := b.s.Log(testKey)
		if len(b.m.fenced) != 1 || l == nil || !l.removed {
			t.Fatalf("before %v: fenced %v, log %v is not removed", before, b.m.fenced, l)
		}
		b.m.exist[testKey] = Deleted
		b.crash()
		b.mustBeClean()
		if len(b.report.Damages) > 0 || b.m.parts[testKey] != nil {
			t.Errorf("before %v: %v", before, b.report)
		}
	}
}
