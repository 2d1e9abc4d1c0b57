package disk

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// damageFixture is two partitions of several closed segments each. In testKey one gap lies between two batches, which the
// state records as one between segments.
func damageFixture(t *testing.T) *logBench {
	cfg := smallConfig()
	cfg.IndexBytes = 1024
	b := newLogBench(t, 1, cfg)
	for _, k := range []Key{testKey, {8, 0}} {
		b.opt[k] = LogOptions{Journaled: true, SegmentBytes: 12 << 10}
		for range 7 {
			b.mustAppend(k, 300, 700, 1500, 20, 3900)
			b.settle()
		}
		if err := b.appendAt(k, b.log(k).LogEnd()+5, 200); err != nil {
			t.Fatal(err)
		}
		b.mustAppend(k, 6000, 3000, 2000)
		b.settle()
		b.log(k).SyncNow()
		b.settle()
	}
	b.close()
	b.open()
	b.mustBeClean()
	b.check(testKey)
	return b
}

// The segment that took appends when the power went is cut while it is down: what the journal gives back is read, and what
// lay in the file before it is damage, also where the replayed tail begins behind it.
func TestNoDamageOfTheActiveSegmentIsPassedOver(t *testing.T) {
	for _, cut := range []int{0, 5, 100, 214, 215} {
		cfg := smallConfig()
		cfg.IndexBytes, cfg.HotBytes, cfg.JournalFileBytes = 1, 8<<20, 128<<10
		b := newLogBench(t, 1, cfg)
		for range 130 { // more than the journal holds
			b.mustAppend(testKey, 300, 700, 1500, 3900, 20)
			b.settle()
		}
		b.dev = b.dev.Kill()
		b.pool = block.NewPool(32 << 20)
		file := b.logFiles(testKey)[0]
		p := b.dev.Peek(file)
		var entries []indexEntry
		for _, x := range b.sent[testKey] {
			if at := bytes.Index(p, x.bytes); at >= 0 {
				entries = append(entries, indexEntry{offsetOf(x.head.BaseOffset), x.head.AppendTime, Position(at)})
			}
		}
		clear(p[cut*blockBytes:]) // a hole, as replay leaves it when it writes behind the new end
		b.replaceFile(file, p)
		b.open()
		g := b.log(testKey).segments[0]
		g.index.cut(0)
		g.index.merge(entries) // a whole index, which leads a read right to the batch before the tail
		if end := b.log(testKey).LogEnd(); end != offsetOf(b.sent[testKey][len(b.sent[testKey])-1].head.NextOffset()) {
			t.Fatalf("cut at %d: log end %d", cut, end)
		}
		what := fmt.Sprintf("active segment cut at block %d", cut)
		lost := b.readEvery(t, what, testKey, true)
		if again := b.readEvery(t, what, testKey, false); again != lost {
			t.Fatalf("%s: %d batches lost, then %d", what, lost, again)
		}
		b.close()
	}
}

// readEvery reads one offset after the other, each as a reader that comes from elsewhere. A batch that is given must be the
// one that was appended, and no offset that has a record may be passed without damage that covers it. It returns how many
// batches were lost to damage.
func (b *logBench) readEvery(t *testing.T, what string, k Key, fresh bool) (lost int) {
	t.Helper()
	for _, want := range b.sent[k] {
		at, end := offsetOf(want.head.BaseOffset), offsetOf(want.head.NextOffset())
		if fresh {
			b.log(k).hints = [2]readHint{}
		}
		got, err := b.read(k, &Read{From: Cursor{Offset: at}, MaxBytes: 1 << 20})
		var d *DamageError
		switch {
		case err == nil:
			if !bytes.HasPrefix(got, want.bytes) {
				t.Fatalf("%s: the read at %d gives other bytes", what, at)
			}
			b.mustFollow(t, what, k, at, got)
		case !errors.As(err, &d), d.From > at, d.To < end, d.File == "":
			t.Fatalf("%s: the read at %d: %v", what, at, err)
		default:
			lost++
		}
		s := &Seek{Time: want.head.AppendTime}
		if b.seek(k, s); s.Err == nil && s.Found < want.head.AppendTime && s.Offset < b.log(k).LogEnd() {
			t.Fatalf("%s: seek of %d found %d", what, want.head.AppendTime, s.Found)
		}
	}
	return lost
}

// mustFollow checks that p holds what was sent from at on, none left out.
func (b *logBench) mustFollow(t *testing.T, what string, k Key, at batch.Offset, p []byte) {
	t.Helper()
	for _, s := range b.sent[k] {
		if offsetOf(s.head.BaseOffset) < at || len(p) == 0 {
			continue
		}
		if !bytes.HasPrefix(p, s.bytes) {
			t.Fatalf("%s: a read from %d leaves out or changes the batch at %d", what, at, s.head.BaseOffset)
		}
		p = p[len(s.bytes):]
	}
}

func (b *logBench) seek(k Key, s *Seek) {
	done := false
	s.Done = func(*Seek) { done = true }
	if b.log(k).Seek(s) {
		return
	}
	for !done {
		if err := b.dev.Wait(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// logFiles are the segment files of k.
func (b *logBench) logFiles(k Key) (files []string) {
	for _, p := range b.dev.Paths() {
		if strings.HasPrefix(p, directory(k)+"/") && strings.HasSuffix(p, ".log") {
			files = append(files, p)
		}
	}
	return files
}

// replaceFile puts a file of the bytes p in the place of another.
func (b *logBench) replaceFile(path string, p []byte) {
	b.dev.Unlink(path)
	f := b.dev.node(false)
	f.write(b.dev.opt.Pages, 0, [][]byte{p}, true, nil)
	b.dev.names.seen[path], b.dev.names.durable[path] = f, f
}

// Whatever becomes of a segment file, a reader gets the right bytes or damage that covers the offset; it is never led
// past records without a word, neither by the file nor by the index beside it. With index, that is lost as well.
func TestNoDamageOfASegmentIsPassedOver(t *testing.T) {
	for _, index := range []bool{true, false} {
		b := damageFixture(t)
		files := b.logFiles(testKey)
		if len(files) < 4 {
			t.Fatalf("%d segments", len(files))
		}
		foreign := b.dev.Peek(b.logFiles(Key{8, 0})[1])
		kept := make(map[string][]byte)
		for _, p := range files {
			kept[p] = b.dev.Peek(p)
		}
		if !index {
			for _, p := range b.dev.Paths() {
				if strings.HasSuffix(p, ".index") {
					b.dev.Unlink(p)
				}
			}
		}
		try := func(must bool, what string, harm func()) {
			b.forget()
			harm()
			what = fmt.Sprintf("%s, index %v", what, index)
			lost := b.readEvery(t, what, testKey, true)
			if again := b.readEvery(t, what, testKey, false); again != lost || must && lost == 0 {
				t.Fatalf("%s: %d batches lost, then %d", what, lost, again)
			}
			b.forget()
			for _, p := range files {
				b.replaceFile(p, kept[p])
			}
		}
		try(false, "nothing", func() {})
		for i, p := range files {
			try(true, "removed "+p, func() { b.dev.Unlink(p) })
			try(true, "foreign "+p, func() { b.replaceFile(p, foreign) })
			for _, q := range files[i+1:] {
				try(true, "swapped "+p+" "+q, func() { b.replaceFile(p, kept[q]); b.replaceFile(q, kept[p]) })
				try(true, "copied "+p+" to "+q, func() { b.replaceFile(q, kept[p]) })
			}
			for at := 0; at < len(kept[p]); at += blockBytes {
				try(!zeros(kept[p][at:]), fmt.Sprintf("cut at %d: %s", at, p), func() { b.replaceFile(p, kept[p][:at]) })
				try(!zeros(kept[p][at:at+blockBytes]), fmt.Sprintf("zeros at %d: %s", at, p), func() { b.dev.Poke(p, int64(at), make([]byte, blockBytes)) })
				for to := 0; to < len(kept[p]); to += blockBytes {
					try(false, fmt.Sprintf("block %d at %d: %s", at, to, p), func() { b.dev.Poke(p, int64(to), kept[p][at:at+blockBytes]) })
				}
			}
		}
	}
}
