package disk

import (
	"errors"
	"syscall"

	"github.com/slipringmq/slipring/loop/block"
)

// finish ends the life of a segment that takes no more batches and is placed whole: its index is written beside it, and
// from then on it counts among those that may be forgotten.
func (g *segment) finish() {
	l := g.log
	if !g.closed || g.doomed || g.file.failed != nil || l.replaying || !g.index.complete || l.unplacedIn(g) {
		return
	}
	if !g.index.written && len(g.index.entries) > 0 {
		g.writeIndex()
	}
	l.share.indexes.use(g)
}

// writeIndex stores the index. Nothing depends on it: errors leave a segment that is scanned when needed.
func (g *segment) writeIndex() {
	g.index.written = true
	sh := g.log.share
	mem := sh.memory(sizeFor(indexHeaderBytes + indexEntryBytes*len(g.index.entries)))
	if mem == nil {
		return
	}
	n := encodeIndex(mem.Data, g, g.log.opt.Tag)
	g.reads++
	f := &indexFile{segment: g, mem: mem}
	f.op = Op{Kind: OpCreate, Class: ClassCold, Path: g.path("index"), Done: func(op *Op) {
		if errors.Is(op.Err, syscall.EEXIST) {
			f.open(func(bool) { f.write(n) })
			return
		}
		f.write(n)
	}}
	sh.dev.Submit(&f.op)
}

// indexFile is one visit to an index file: open, one transfer, close. It allocates; visits are rare.
type indexFile struct {
	segment *segment
	mem     *block.Block
	op      Op
}

func (f *indexFile) open(then func(ok bool)) {
	f.op = Op{Kind: OpOpen, Class: ClassCold, Path: f.segment.path("index"), Done: func(op *Op) { then(op.Err == nil) }}
	f.segment.log.share.dev.Submit(&f.op)
}

func (f *indexFile) write(n int) {
	if f.op.Err != nil {
		f.close(func() {})
		return
	}
	f.op = Op{Kind: OpWrite, Class: ClassCold, Sync: true, File: f.op.File, Data: [][]byte{f.mem.Data[:n]}, Done: func(*Op) {
		f.close(func() {})
	}}
	f.segment.log.share.dev.Submit(&f.op)
}

func (f *indexFile) read(then func(p []byte)) {
	f.op = Op{Kind: OpRead, Class: ClassCold, File: f.op.File, Data: [][]byte{f.mem.Data}, Done: func(op *Op) {
		n := op.N
		if op.Err != nil {
			n = 0
		}
		then(f.mem.Data[:n])
	}}
	f.segment.log.share.dev.Submit(&f.op)
}

// close ends the visit, whether the file is open or not.
func (f *indexFile) close(then func()) {
	g, file := f.segment, f.op.File
	end := func(*Op) {
		f.mem.Release()
		g.reads--
		g.tidy()
		then()
	}
	if file == 0 {
		end(nil)
		return
	}
	f.op = Op{Kind: OpClose, Class: ClassCold, File: file, Done: end}
	g.log.share.dev.Submit(&f.op)
}

// loadIndex gets the index of g for c, which is resumed when it is there: from its file if the segment is closed, else
// by a scan of the segment.
func (g *segment) loadIndex(c *coldRead) {
	x := &g.index
	x.waiters = append(x.waiters, c)
	if x.loading {
		return
	}
	x.loading = true
	mem := g.log.share.memory(block.Size1M)
	if mem == nil {
		g.indexLoaded(nil, ErrBusy)
		return
	}
	f := &indexFile{segment: g, mem: mem}
	g.reads++
	if !g.closed || x.bad {
		g.scanIndex(f)
		return
	}
	f.open(func(ok bool) {
		if !ok {
			f.op.File = 0
			g.scanIndex(f)
			return
		}
		f.read(func(p []byte) {
			entries, ok := decodeIndex(p, g, g.log.opt.Tag)
			if !ok {
				g.scanIndex(f)
				return
			}
			g.log.share.stats.IndexLoads++
			g.index.written, g.index.fromFile = true, true
			f.close(func() { g.indexLoaded(entries, nil) })
		})
	})
}

// scanIndex rebuilds the index from the segment, in f's memory.
func (g *segment) scanIndex(f *indexFile) {
	g.log.share.stats.IndexScans++
	s := &scan{segment: g, limit: g.placedEnd(), mem: f.mem, every: g.log.indexEvery(), lookOn: true}
	if first := g.index.entries; len(first) > 0 {
		s.limit = min(s.limit, first[0].position)
	}
	g.index.written, g.index.bad = false, false
	s.done = func(err error) {
		f.close(func() {
			g.indexLoaded(s.entries, err)
			if err == nil && s.damaged == nil {
				g.finish()
			}
		})
	}
	s.start()
}

// placedEnd bounds what may be read from the file.
func (g *segment) placedEnd() Position {
	if g.closed && g.placed >= alignDown(g.length) {
		return min(g.length, alignUp(g.placed))
	}
	return min(g.length, g.placed)
}

func (g *segment) indexLoaded(entries []indexEntry, err error) {
	x := &g.index
	x.loading = false
	if err == nil {
		x.merge(entries)
		g.log.share.indexes.use(g)
	}
	waiters := x.waiters
	x.waiters = nil
	for _, c := range waiters {
		c.indexReady(err)
	}
}
