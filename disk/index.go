package disk

import (
	"hash/crc32"
	"slices"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// Index file, version 1: <base>-<epoch>.index beside a closed segment, little-endian, zeros up to a block. It is advice:
// whatever it says is checked against the segment, and without it the segment is scanned. Golden bytes: testdata/index_v1.hex.
//
//	at  size  field
//	 0     4  crc32c (Castagnoli) of [4, 48 + 24 × entries)
//	 4     1  version, 1
//	 5     3  reserved, zero
//	 8     8  base offset in the name
//	16     8  epoch in the name
//	24     8  length of the segment, bytes
//	32     8  end offset
//	40     4  partition tag
//	44     4  number of entries
//	48        entries: base offset of a batch u64, its append time i64 (Unix ms), its position u64
const (
	indexVersion     = 1
	indexHeaderBytes = 48
	indexEntryBytes  = 24

	// maxIndexEntries is what one block holds; larger segments get wider steps.
	maxIndexEntries = (block.Size1M - indexHeaderBytes) / indexEntryBytes

	// maxLoadedIndexes bounds the indexes of closed segments in memory, whole shard.
	maxLoadedIndexes = 64
)

// indexEntry says where a batch begins.
type indexEntry struct {
	offset   batch.Offset
	time     int64
	position Position
}

// sparseIndex is a segment's index in memory: pointer-free entries by offset. While it is not complete it holds only
// what was appended since the start, and what lies before must be loaded.
type sparseIndex struct {
	entries  []indexEntry
	complete bool
	loading  bool
	written  bool // the file exists or was tried
	fromFile bool // entries are a file's word
	bad      bool // the file does not fit the segment
	waiters  []*coldRead

	older, newer *segment // among the loaded ones, by use
	listed       bool
}

// indexEvery is the distance between entries, bytes: wider for segments so large that a block could not hold them.
func (l *Log) indexEvery() Position {
	return max(Position(l.s.cfg.IndexBytes), Position(l.opt.SegmentBytes)/(maxIndexEntries-1024))
}

// add takes a batch in, if the last entry is far enough away.
func (x *sparseIndex) add(e indexEntry, every Position) {
	n := len(x.entries)
	if n == 0 || e.position-x.entries[n-1].position >= every && n < maxIndexEntries {
		x.entries = append(x.entries, e)
	}
}

// cut drops the entries from offset on.
func (x *sparseIndex) cut(end batch.Offset) {
	n := len(x.entries)
	for n > 0 && x.entries[n-1].offset >= end {
		n--
	}
	x.entries = x.entries[:n]
}

// takeFrom moves the entries from offset on out of another segment's index.
func (x *sparseIndex) takeFrom(o *sparseIndex, first batch.Offset, shift Position) {
	for _, e := range o.entries {
		if e.offset >= first {
			e.position -= shift
			x.entries = append(x.entries, e)
		}
	}
	o.cut(first)
}

// floor returns the last entry at or below offset.
func (x *sparseIndex) floor(offset batch.Offset) (indexEntry, bool) {
	i, found := slices.BinarySearchFunc(x.entries, offset, func(e indexEntry, o batch.Offset) int {
		switch {
		case e.offset < o:
			return -1
		case e.offset > o:
			return 1
		}
		return 0
	})
	if found {
		return x.entries[i], true
	}
	if i == 0 {
		return indexEntry{}, false
	}
	return x.entries[i-1], true
}

// before returns the last entry whose append time is below time: the first batch at time or later lies behind it.
func (x *sparseIndex) before(time int64) (indexEntry, bool) {
	for i := len(x.entries) - 1; i >= 0; i-- {
		if x.entries[i].time < time {
			return x.entries[i], true
		}
	}
	return indexEntry{}, false
}

// after returns the offset of the first entry behind a position; end if there is none.
func (x *sparseIndex) after(p Position, end batch.Offset) batch.Offset {
	for i := range x.entries {
		if x.entries[i].position > p {
			return x.entries[i].offset
		}
	}
	return end
}

// merge puts what was loaded before what was appended since.
func (x *sparseIndex) merge(loaded []indexEntry) {
	if len(x.entries) > 0 {
		first := x.entries[0].offset
		for len(loaded) > 0 && loaded[len(loaded)-1].offset >= first {
			loaded = loaded[:len(loaded)-1]
		}
	}
	x.entries = append(loaded, x.entries...)
	x.complete = true
}

// encodeIndex writes g's index into dst and returns the bytes used, whole blocks. dst holds maxIndexEntries.
func encodeIndex(dst []byte, g *segment, tag uint32) int {
	entries := g.index.entries[:min(len(g.index.entries), maxIndexEntries)]
	n := indexHeaderBytes + indexEntryBytes*len(entries)
	clear(dst[:alignUp(n)])
	dst[4] = indexVersion
	le.PutUint64(dst[8:], uint64(g.base))
	le.PutUint64(dst[16:], g.epoch)
	le.PutUint64(dst[24:], uint64(g.length))
	le.PutUint64(dst[32:], uint64(g.end))
	le.PutUint32(dst[40:], tag)
	le.PutUint32(dst[44:], uint32(len(entries)))
	for i, e := range entries {
		p := dst[indexHeaderBytes+i*indexEntryBytes:]
		le.PutUint64(p, uint64(e.offset))
		le.PutUint64(p[8:], uint64(e.time))
		le.PutUint64(p[16:], uint64(e.position))
	}
	le.PutUint32(dst, crc32.Checksum(dst[4:n], castagnoli))
	return alignUp(n)
}

// decodeIndex returns the entries of p when they are those of g; false for everything else, and then the segment is
// scanned. Entries are in order and inside the segment.
func decodeIndex(p []byte, g *segment, tag uint32) ([]indexEntry, bool) {
	if len(p) < indexHeaderBytes || p[4] != indexVersion || [3]byte(p[5:8]) != [3]byte{} {
		return nil, false
	}
	count := int(le.Uint32(p[44:]))
	if count == 0 || count > (len(p)-indexHeaderBytes)/indexEntryBytes {
		return nil, false
	}
	n := indexHeaderBytes + indexEntryBytes*count
	switch {
	case crc32.Checksum(p[4:n], castagnoli) != le.Uint32(p),
		le.Uint64(p[8:]) != uint64(g.base), le.Uint64(p[16:]) != g.epoch,
		le.Uint64(p[24:]) != uint64(g.length), le.Uint64(p[32:]) != uint64(g.end), le.Uint32(p[40:]) != tag:
		return nil, false
	}
	entries := make([]indexEntry, count)
	for i := range entries {
		q := p[indexHeaderBytes+i*indexEntryBytes:]
		e := indexEntry{batch.Offset(le.Uint64(q)), int64(le.Uint64(q[8:])), Position(le.Uint64(q[16:]))}
		if e.offset < g.first || e.offset >= g.end || e.position < g.start || e.position >= g.length ||
			i > 0 && (e.offset <= entries[i-1].offset || e.position <= entries[i-1].position) {
			return nil, false
		}
		entries[i] = e
	}
	return entries, true
}

// loadedIndexes are the complete indexes of closed segments, least recently used first.
type loadedIndexes struct {
	oldest, newest *segment
	count          int
}

// use notes that g's index was needed, and forgets the one that was not needed for longest.
func (o *loadedIndexes) use(g *segment) {
	if !g.closed || o.newest == g {
		return
	}
	o.remove(g)
	x := &g.index
	x.listed, x.older = true, o.newest
	if o.newest != nil {
		o.newest.index.newer = g
	} else {
		o.oldest = g
	}
	o.newest = g
	if o.count++; o.count > maxLoadedIndexes {
		old := o.oldest
		o.remove(old)
		old.index.entries, old.index.complete, old.index.fromFile = nil, false, false
	}
}

func (o *loadedIndexes) remove(g *segment) {
	x := &g.index
	if !x.listed {
		return
	}
	if x.older != nil {
		x.older.index.newer = x.newer
	} else {
		o.oldest = x.newer
	}
	if x.newer != nil {
		x.newer.index.older = x.older
	} else {
		o.newest = x.older
	}
	x.listed, x.older, x.newer = false, nil, nil
	o.count--
}
