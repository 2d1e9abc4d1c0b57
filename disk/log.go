package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/frame/batch"
)

// LogOptions are what a log is told about its partition. SetOptions may change all but Tag.
type LogOptions struct {
	SegmentBytes int64  // a segment that would grow beyond it is closed; 0: 256 MiB
	Journaled    bool   // sync durability: batches go through the journal
	SyncEvery    int64  // of a log that is not journaled: nanoseconds between flushes, 0 for none
	Tag          uint32 // every batch carries it (batch.PartitionTag)
	Owner        int32  // the shard's slot for this partition
}

const defaultSegmentBytes = 256 << 20

// Log is one partition on disk and its tail in memory. It belongs to its store's thread.
//
// A batch is staged (in the tail, LogEnd), then durable (DurableEnd), then placed (in its segment file), then cold (no
// longer in the tail). A journaled batch is durable by its journal entry, any other one once it is placed.
type Log struct {
	key   Key
	s     *Store
	share *logShare
	opt   LogOptions

	segments []*segment // by offset; the last one takes the appends unless it is closed
	tail     tail
	extents  []*extent // what of the tail is not placed, in order of address
	held     []held    // entries that wait for a direct write, in order
	trims    []staged  // log starts that are not durable yet
	waiters  []placeWaiter

	logStart, logEnd, durableEnd batch.Offset
	nextIndex, durableIndex      uint64
	lastTime                     int64

	readyN, durableN, placedN uint64 // ordinals: batches before them may be placed, are durable, are placed

	begun      placement // name of the last segment begun in this start
	newSegment bool      // the next append begins one, whatever the room in the last
	queued     bool      // in the placer's queue
	due        int64
	dirty      bool // in the list of interval logs to flush
	unsaved    bool // batches outside the journal that no snapshot names
	hints      [2]readHint
	nextHint   uint8
	swept      bool // leftovers of earlier starts were looked for
	replayed   bool // in the list of logs that replay gave bytes to
	replaying  bool // between the first entry redone and recovered

	fenced   error  // no more appends
	stuck    bool   // and nothing is placed any more: its files failed, or go
	dropping uint64 // index of the entry that drops the log
	removing bool   // the files of the dropped log are being removed
	removed  bool   // and are gone
	toRemove int    // segments of it that are not gone yet
	gone     func() // called when they are

	member member // the store's: what journal and checkpoint know of this log
}

// held is an entry that has its index and waits for a direct write before it.
type held struct {
	kind         Kind
	index, epoch uint64
	ordinal      uint64  // KindAppend, KindReference: of the batch
	extent       *extent // KindReference: its bytes
	payload      []byte  // all others
	bytes        int     // in the journal
}

// staged is a log start by the index of its entry.
type staged struct {
	index uint64
	start batch.Offset
}

func newLog(s *Store, k Key, o LogOptions) *Log {
	l := &Log{key: k, s: s, share: s.logs, nextIndex: 1}
	l.SetOptions(o)
	return l
}

// Key names the partition. Owner is what LogOptions said.
func (l *Log) Key() Key     { return l.key }
func (l *Log) Owner() int32 { return l.opt.Owner }

// LogStart is the first offset that may be read, LogEnd the next one to be staged, DurableEnd the first one that is not
// on stable media. NextIndex is that of the next journal entry.
func (l *Log) LogStart() batch.Offset   { return l.logStart }
func (l *Log) LogEnd() batch.Offset     { return l.logEnd }
func (l *Log) DurableEnd() batch.Offset { return l.durableEnd }
func (l *Log) NextIndex() uint64        { return l.nextIndex }

// Segments is the number of segments, Bytes their length together, padding included.
func (l *Log) Segments() int { return len(l.segments) }
func (l *Log) Bytes() int64 {
	n := Position(0)
	for _, g := range l.segments {
		n += g.length - g.start
	}
	return int64(n)
}

// SetOptions changes the options from the next append on. A log that becomes journaled, or no longer is, goes on in a new
// segment: in one file either all batches have entries or none has.
func (l *Log) SetOptions(o LogOptions) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.Journaled != l.opt.Journaled {
		l.newSegment = l.newSegment || len(l.segments) > 0
		if o.Journaled {
			l.SyncNow()
		}
	}
	l.opt = o
}

// Append stages a stamped batch: body holds its bytes, header first, in any number of chunks; h is that header parsed.
// The bytes are copied. The base offset is at or above LogEnd. index is that of the journal entry which makes the batch
// durable; a log that is not journaled answers the last index given, and DurableEnd moves by itself.
//
// Errors, with nothing staged: ErrBusy, ask again later; ErrFenced and ErrFailed, for good.
// Cost: one copy into the tail and one into the journal's image, no allocation once warm.
func (l *Log) Append(epoch uint64, h *batch.Header, body [][]byte) (index uint64, err error) {
	n := int(h.TotalBytes())
	if err := l.admit(n); err != nil {
		return 0, err
	}
	direct := l.opt.Journaled && n >= l.s.cfg.DirectBytes
	fresh := l.needsSegment(n) || l.leavesGap(offsetOf(h.BaseOffset))
	padding := 0
	if direct || fresh {
		padding = int(alignUp(l.tail.end) - l.tail.end)
	}
	if !l.tail.room(l, padding+n) {
		return 0, ErrBusy
	}
	if fresh {
		l.beginSegment(batch.Offset(h.BaseOffset), epoch)
	} else if direct {
		l.padTail()
	}
	g := l.lastSegment()
	at := l.tail.end
	for _, p := range body {
		l.tail.write(p)
	}
	l.describe(g, h, at)
	switch {
	case !l.opt.Journaled:
		l.stagePlain()
		return l.nextIndex - 1, nil
	case direct:
		return l.stageDirect(g, epoch, at), nil
	}
	l.extendExtent(g, at)
	return l.stageBatch(KindAppend, epoch, nil), nil
}

// Room says whether a batch of n bytes, header included, would be admitted now. One that is written data first needs room
// in the journal for its reference only. Errors: those of Append.
func (l *Log) Room(n int) error { return l.admit(n) }

func (l *Log) admit(n int) error {
	switch {
	case l.fenced != nil || l.dropping != 0:
		return ErrFenced
	case l.share.closing:
		return ErrClosing
	}
	if !l.opt.Journaled {
		return nil
	}
	if n >= l.s.cfg.DirectBytes {
		if l.share.directBytes > 0 && l.share.directBytes+n > l.s.cfg.StagedBytes {
			return ErrBusy
		}
		n = referenceBytes
	}
	return l.s.Room(n)
}

// needsSegment: the last segment is closed, full, or not to be used any more.
func (l *Log) needsSegment(n int) bool {
	g := l.lastSegment()
	return g == nil || g.closed || l.newSegment ||
		g.length > g.start && int64(alignUp(g.length))+int64(n) > l.opt.SegmentBytes
}

// leavesGap: a batch at base would not follow the last one of its segment. Gaps lie between segments only, whose bounds
// the state names: inside of one a reader can tell what is missing from what never was.
func (l *Log) leavesGap(base batch.Offset) bool {
	g := l.lastSegment()
	return g != nil && g.end > g.first && base != g.end
}

func (l *Log) lastSegment() *segment {
	if n := len(l.segments); n > 0 {
		return l.segments[n-1]
	}
	return nil
}

// beginSegment closes the last segment and adds one. Its file is made when something is to be written to it, and before
// any entry refers to it; a segment outside the journal is named by an entry of its own, so that recovery finds it.
func (l *Log) beginSegment(base batch.Offset, epoch uint64) *segment {
	l.padTail()
	if old := l.lastSegment(); old != nil {
		old.closed = true
		old.finish()
	}
	g := &segment{log: l, base: base, epoch: l.segmentName(epoch, base), first: base, end: base, address: l.tail.end, plain: !l.opt.Journaled}
	g.index.complete = true
	g.file.fresh = true
	l.segments = append(l.segments, g)
	l.newSegment = false
	if g.plain && !l.replaying {
		g.note = l.noteSegment(g, epoch)
	}
	return g
}

// describe makes the batch at a part of log and segment.
func (l *Log) describe(g *segment, h *batch.Header, at address) {
	d := described{
		base: h.BaseOffset, next: h.NextOffset(), time: h.AppendTime,
		at: at, bytes: uint32(h.TotalBytes()),
	}
	if l.opt.Journaled {
		d.index = l.nextIndex
	}
	l.tail.batches.push(d)
	g.take(&d, l.indexEvery())
	l.logEnd, l.lastTime = batch.Offset(d.next), d.time
}

// take takes a batch into the segment's bounds and index.
func (g *segment) take(d *described, every Position) {
	pos := g.position(d.at)
	if g.end == g.first {
		g.first = batch.Offset(d.base)
	}
	g.end, g.maxTime = batch.Offset(d.next), max(g.maxTime, d.time)
	g.length = pos + Position(d.bytes)
	g.index.add(indexEntry{batch.Offset(d.base), d.time, pos}, every)
}

// Note stages an entry of the shard's own: kind is KindShard or above, payload at most 64 KiB, copied.
// Errors, with nothing staged: ErrTooLarge; ErrBusy, ask again later; ErrFenced, ErrClosing, ErrFailed.
func (l *Log) Note(kind Kind, epoch uint64, payload []byte) (index uint64, err error) {
	switch {
	case len(payload) > maxNoteBytes:
		return 0, ErrTooLarge
	case kind < KindShard:
		return 0, fmt.Errorf("disk: note of kind %d, which is not the shard's", kind)
	}
	if err := l.s.roomForNote(len(payload)); err != nil {
		return 0, err
	}
	return l.stageNote(kind, epoch, payload)
}

// stageNote gives an entry without a batch its index and stages or holds it.
func (l *Log) stageNote(kind Kind, epoch uint64, payload []byte) (uint64, error) {
	if l.fenced != nil || l.dropping != 0 {
		return 0, ErrFenced
	}
	index := l.nextIndex
	l.nextIndex++
	if len(l.held) > 0 {
		l.hold(held{kind: kind, index: index, epoch: epoch, payload: append([]byte(nil), payload...), bytes: entryHeaderBytes + len(payload)})
		return index, nil
	}
	l.s.stage(l, kind, index, epoch, payload)
	return index, nil
}

// stageBatch gives the batch described last its index and stages its entry, unless a direct write must land first.
func (l *Log) stageBatch(kind Kind, epoch uint64, e *extent) uint64 {
	index := l.nextIndex
	l.nextIndex++
	h := held{kind: kind, index: index, epoch: epoch, ordinal: l.tail.batches.last - 1, extent: e}
	if l.mustHold(&h) {
		h.bytes = entryHeaderBytes + referenceBytes
		if kind == KindAppend {
			h.bytes = entryHeaderBytes + placementBytes + int(l.tail.batches.at(h.ordinal).bytes)
		}
		l.hold(h)
	} else {
		l.stageHeld(&h)
	}
	return index
}

// isDurable is called by the store when the group with index, and all before it, is flushed.
func (l *Log) isDurable(index uint64) {
	l.durableIndex = max(l.durableIndex, index)
	for l.readyN < l.tail.batches.last && l.tail.batches.at(l.readyN).index <= l.durableIndex {
		l.readyN++
	}
	trimmed := false
	for len(l.trims) > 0 && l.trims[0].index <= index {
		l.logStart = max(l.logStart, l.trims[0].start)
		l.trims = l.trims[:copy(l.trims, l.trims[1:])]
		trimmed = true
	}
	l.settle()
	if trimmed {
		l.removeBelow()
	}
	if l.dropping != 0 && l.dropping <= index {
		l.removeAll()
	}
}

// settle moves what follows from ready: the placed extents, the durable end, and the work of the placer.
func (l *Log) settle() {
	placed, durable := l.placedN, l.durableN
	l.advance()
	for l.durableN < l.tail.batches.last {
		d := l.tail.batches.at(l.durableN)
		if d.index > l.durableIndex || d.index == 0 && !l.plainDurable(d) {
			break
		}
		l.durableEnd = batch.Offset(d.next)
		l.durableN++
	}
	if l.placedN > placed || l.durableN > durable {
		l.cool()
	}
	l.share.placer.offer(l)
	l.wakeWaiters() // last: a snapshot taken by one of them must find all of the above
}

// plainDurable: a batch outside the journal is durable once it is placed and the entry that names its segment is durable.
func (l *Log) plainDurable(d *described) bool {
	return l.durableN < l.placedN && l.segmentAt(d.at).note <= l.durableIndex
}

// segmentAt returns the segment of a batch in the tail.
func (l *Log) segmentAt(a address) *segment {
	for i := len(l.segments) - 1; i > 0; i-- {
		if g := l.segments[i]; g.addressOf(g.start) <= a {
			return g
		}
	}
	return l.segments[0]
}

// fence stops appends. What is staged in the journal is still placed, and what memory and media hold is still read.
func (l *Log) fence(err error) {
	if l.fenced == nil {
		l.fenced = err
		l.dropHeld()
	}
}

// giveUp is fence for a log whose files take no more.
func (l *Log) giveUp(err error) {
	l.fence(err)
	l.stuck = true
	l.wakeWaiters()
}

// placedIndex is the index up to which the segments hold all batches.
func (l *Log) placedIndex() uint64 {
	for o := l.placedN; o < l.tail.batches.last; o++ {
		if index := l.tail.batches.at(o).index; index != 0 {
			return min(index-1, l.durableIndex)
		}
	}
	return l.durableIndex
}
