package disk

import (
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// Log state, version 1: what a snapshot holds of a log, as of its durable index. Little-endian, its CRC is the state
// record's. Golden bytes: testdata/logstate_v1.hex.
//
//	at  size  field
//	 0     1  version, 1
//	 1     3  reserved, zero
//	 4     4  number of segments
//	 8     8  index of the last durable entry
//	16     8  log start
//	24     8  durable end
//	32     8  append time of the last batch, Unix ms
//	40        segments of 88 bytes, by offset:
//	           0  8  base offset, in the name
//	           8  8  epoch, in the name
//	          16  8  first offset
//	          24  8  end offset
//	          32  8  position of the first batch, bytes
//	          40  8  length, bytes
//	          48  8  placed: bytes below are on stable media
//	          56  8  append time of the last batch, Unix ms
//	          64  8  shift: bytes by which the segment before was shifted down into this one, if it replaces it
//	          72  1  flags: 1 closed, 2 outside the journal, 4 replaces the segment before
//	          73 15  reserved, zero
const (
	stateVersion      = 1
	stateHeaderBytes  = 40
	stateSegmentBytes = 88

	segmentClosed, segmentPlain, segmentReplaces = 1, 2, 4
)

// appendState appends the durable part of the log to dst.
func (l *Log) appendState(dst []byte) []byte {
	start := len(dst)
	l.unsaved = !l.placed()
	dst = append(dst, make([]byte, stateHeaderBytes)...)
	n := 0
	for _, g := range l.segments {
		begun := g.first >= l.durableEnd && g.end > g.first // nothing of it is durable
		if begun && !l.named(g) {
			break // like all behind it
		}
		if g.end > g.first || g.moved != nil {
			dst = l.appendSegment(dst, g, begun)
			n++
		}
	}
	p := dst[start:]
	p[0] = stateVersion
	le.PutUint32(p[4:], uint32(n))
	le.PutUint64(p[8:], l.durableIndex)
	le.PutUint64(p[16:], uint64(l.logStart))
	le.PutUint64(p[24:], uint64(l.durableEnd))
	le.PutUint64(p[32:], uint64(l.lastTime))
	return dst
}

// named says whether replay skips the entry that names g, which is outside the journal: then the snapshot must name it,
// or what lands in it next is never found.
func (l *Log) named(g *segment) bool {
	return g.plain && g.replaces == nil && g.note <= l.durableIndex && !fault.On(fault.Rule13ForgetSegments)
}

// appendSegment describes g up to the durable end. One that was begun only is empty there.
func (l *Log) appendSegment(dst []byte, g *segment, begun bool) []byte {
	first, end, length, maxTime, flags := g.first, g.end, g.length, g.maxTime, byte(0)
	if begun {
		first, end, length, maxTime = l.durableEnd, l.durableEnd, g.start, 0
	} else if end > l.durableEnd {
		end = l.durableEnd
		if l.durableN < l.tail.batches.last {
			length = g.position(l.tail.batches.at(l.durableN).at)
		}
	} else if g.closed {
		flags |= segmentClosed
	}
	placed := min(g.placed, alignUp(length))
	if g.plain {
		flags |= segmentPlain
	}
	if g.replaces != nil {
		flags |= segmentReplaces
	}
	var p [stateSegmentBytes]byte
	for i, v := range [...]uint64{
		uint64(g.base), g.epoch, uint64(first), uint64(end), uint64(g.start), uint64(length),
		uint64(placed), uint64(maxTime), uint64(g.shift),
	} {
		le.PutUint64(p[8*i:], v)
	}
	p[72] = flags
	return append(dst, p[:]...)
}

// restoreState is appendState read back into a new log; rest is what follows it.
func (l *Log) restoreState(p []byte) (rest []byte, err error) {
	if len(p) < stateHeaderBytes || p[0] != stateVersion || [3]byte(p[1:4]) != [3]byte{} {
		return nil, errEntry
	}
	n := int(le.Uint32(p[4:]))
	if n > (len(p)-stateHeaderBytes)/stateSegmentBytes {
		return nil, errEntry
	}
	l.durableIndex = le.Uint64(p[8:])
	l.nextIndex = l.durableIndex + 1
	l.logStart, l.durableEnd = batch.Offset(le.Uint64(p[16:])), batch.Offset(le.Uint64(p[24:]))
	l.lastTime = int64(le.Uint64(p[32:]))
	l.logEnd = l.durableEnd
	if l.logStart > l.logEnd {
		return nil, errEntry
	}
	p = p[stateHeaderBytes:]
	l.segments = make([]*segment, 0, n)
	for range n {
		if err := l.restoreSegment(p[:stateSegmentBytes]); err != nil {
			return nil, err
		}
		p = p[stateSegmentBytes:]
	}
	return p, nil
}

func (l *Log) restoreSegment(p []byte) error {
	var v [9]uint64
	for i := range v {
		v[i] = le.Uint64(p[8*i:])
	}
	flags := p[72]
	g := &segment{
		log: l, base: batch.Offset(v[0]), epoch: v[1], first: batch.Offset(v[2]), end: batch.Offset(v[3]),
		start: Position(v[4]), length: Position(v[5]), placed: Position(v[6]), maxTime: int64(v[7]), shift: Position(v[8]),
		closed: flags&segmentClosed != 0, plain: flags&segmentPlain != 0, address: l.tail.end,
	}
	before := l.lastSegment()
	switch {
	case flags&^(segmentClosed|segmentPlain|segmentReplaces) != 0, [15]byte(p[73:]) != [15]byte{}:
		return errEntry
	case g.first > g.end, g.end > l.durableEnd, before != nil && g.first < before.end:
		return errEntry
	case g.start < 0, g.start > g.length, g.length > maxSegmentBytes, g.placed < 0, g.placed > alignUp(g.length), g.placed%blockBytes != 0:
		return errEntry
	case flags&segmentReplaces != 0 && (before == nil || g.shift < 0 || g.shift > maxSegmentBytes):
		return errEntry
	}
	if flags&segmentReplaces != 0 {
		g.replaces, before.moved = before, g
	}
	g.scan = g.plain && !g.closed
	g.refilled = g.placed
	g.file.named = g.placed > 0
	l.segments = append(l.segments, g)
	l.tail.end = g.addressOf(alignUp(g.length))
	return nil
}
