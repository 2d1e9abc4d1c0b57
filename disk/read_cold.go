package disk

import (
	"errors"
	"hash/crc32"
	"math"
	"syscall"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// maxColdBytes is the most that one cold read gives: a block of 1 MiB less what alignment may take of it.
const maxColdBytes = block.Size1M - blockBytes

// readHint remembers where a reader that goes through a log will go on: without it each read would walk from an index
// entry again. crc is that of the body's bytes given so far, when at.Skip is above 0; head is that batch's header.
type readHint struct {
	at      Cursor
	segment *segment
	pos     Position // of the batch
	epoch   uint64
	head    batch.Header
	crc     uint32
}

// coldRead is one Read or Seek that needs the medium. It goes: segment, index, walk to the batch, the rest of the batch
// if the first piece did not hold it, answer. Pooled; its ops and their functions are made once.
type coldRead struct {
	log     *Log
	segment *segment
	read    *Read
	seek    *Seek
	opened  func(error) // a scan that waits for the file

	starting, ended bool // inside Log.Read; answered there

	target batch.Offset
	skip   int64

	walk    Position     // where the walk begins or goes on
	next    batch.Offset // least offset of the batch there
	epoch   uint64
	exactly bool // that batch has exactly the offset next: an index entry said so

	head   batch.Header // of the batch found
	headAt Position
	crc    uint32 // of its body before skip
	summed bool   // crc is known
	inside bool   // mem begins at or before the bytes wanted, not at a header

	fillAt   Position
	fillWant int
	mem      *block.Block
	from     Position // of the first byte of mem
	n        int      // bytes there
	ops      [block.Size1M / pieceBytes]Op
	pending  int
	err      error
}

func (l *Log) newColdRead() *coldRead {
	c := pop(&l.share.freeReads)
	if c.ops[0].Done == nil {
		for i := range c.ops {
			c.ops[i].Kind, c.ops[i].Class, c.ops[i].Data = OpRead, ClassCold, make([][]byte, 1)
			c.ops[i].Done = c.took
		}
	}
	c.log, c.starting, c.ended, c.summed, c.inside, c.exactly = l, true, false, false, false, false
	return c
}

// begin runs c up to its first I/O. True: it was answered already.
func (c *coldRead) begin() (ready bool) {
	c.locate()
	c.starting = false
	if c.ended {
		c.recycle()
		return true
	}
	return false
}

// locate finds the segment of the target.
func (c *coldRead) locate() {
	for _, g := range c.log.segments {
		if g.end > c.target && g.end > g.first {
			c.enter(g)
			return
		}
	}
	c.fail(ErrOutOfRange)
}

func (c *coldRead) enter(g *segment) {
	c.segment = g
	g.reads++
	if c.target < g.first {
		c.target, c.skip = g.first, 0 // a gap: the first batch behind it is meant
	}
	if c.seek == nil && (c.fromHint() || c.fromTail()) {
		return
	}
	if !g.index.complete {
		g.loadIndex(c)
		return
	}
	c.indexReady(nil)
}

// fromHint goes on where an earlier read ended.
func (c *coldRead) fromHint() bool {
	for i := range c.log.hints {
		h := &c.log.hints[i]
		if h.segment != c.segment || h.at != (Cursor{c.target, c.skip}) {
			continue
		}
		if c.skip == 0 {
			c.startAt(h.pos, c.target, h.epoch)
			return true
		}
		c.head, c.headAt, c.crc, c.summed = h.head, h.pos, h.crc, true
		c.reach()
		return true
	}
	return false
}

// fromTail knows the place of a batch that was written data first and that only its segment has.
func (c *coldRead) fromTail() bool {
	q := &c.log.tail.batches
	o := q.find(c.target)
	if o == q.last || !q.at(o).absent || offsetOf(q.at(o).base) > c.target {
		return false
	}
	c.startAt(c.segment.position(q.at(o).at), offsetOf(q.at(o).base), 0)
	return true
}

// indexReady goes on from the index entry at or before what is looked for.
func (c *coldRead) indexReady(err error) {
	g := c.segment
	if err != nil {
		c.fail(c.fileError(err))
		return
	}
	c.log.share.indexes.use(g)
	var e indexEntry
	var ok bool
	if c.seek != nil {
		e, ok = g.index.before(c.seek.Time)
	} else {
		e, ok = g.index.floor(c.target)
	}
	if !ok {
		e = indexEntry{offset: g.first, position: g.start}
	}
	c.exactly = ok && g.index.fromFile
	c.startAt(e.position, e.offset, 0)
}

// startAt reads from the batch at pos on.
func (c *coldRead) startAt(pos Position, next batch.Offset, epoch uint64) {
	c.walk, c.next, c.epoch = pos, next, epoch
	c.get(pos, pieceBytes)
}

// get opens the file if it must and fills memory from pos on.
func (c *coldRead) get(pos Position, want int) {
	c.fillAt, c.fillWant = pos, want
	if c.segment.openForRead(c) {
		c.fill()
	}
}

// fileOpened goes on when the segment's file is open, or cannot be.
func (c *coldRead) fileOpened(err error) {
	switch {
	case c.opened != nil:
		c.opened(err)
	case err != nil:
		c.fail(c.fileError(err))
	default:
		c.fill()
	}
}

// fileError makes a missing file damage and leaves other errors as they are.
func (c *coldRead) fileError(err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return c.cutOff(c.segment.start, c.segment.first, errNoFile)
	}
	return err
}

// fill reads a block's worth, in requests of 256 KiB that are under way together.
func (c *coldRead) fill() {
	size := block.Size256K
	if int(c.fillAt-alignDown(c.fillAt))+c.fillWant > size {
		size = block.Size1M
	}
	if c.mem == nil || len(c.mem.Data) != size {
		c.dropMemory()
		if c.mem = c.log.share.memory(size); c.mem == nil {
			c.fail(ErrBusy)
			return
		}
	}
	c.from, c.n, c.err, c.pending = alignDown(c.fillAt), 0, nil, 1
	left := int(min(alignUp(c.limit())-c.from, Position(size)))
	for i := 0; i*pieceBytes < left; i++ {
		op := &c.ops[i]
		op.File, op.Pos = c.segment.file.handle, c.from+Position(i*pieceBytes)
		op.Data[0] = c.mem.Data[i*pieceBytes : min((i+1)*pieceBytes, left)]
		c.segment.file.users++
		c.pending++
		c.log.share.dev.Submit(op)
	}
	c.filled()
}

// limit is the end of what may be read from the file. A batch written data first may lie behind what is not placed yet.
func (c *coldRead) limit() Position {
	if c.log.tail.batches.last > c.log.tail.batches.first && c.log.hasAbsent(c.target) {
		return c.segment.length
	}
	return c.segment.placedEnd()
}

func (l *Log) hasAbsent(offset batch.Offset) bool {
	q := &l.tail.batches
	o := q.find(offset)
	return o < q.last && q.at(o).absent
}

func (c *coldRead) took(op *Op) {
	c.segment.file.users--
	if op.Err != nil {
		c.err = op.Err
	} else if op.N > 0 {
		c.n = max(c.n, int(op.Pos-c.from)+op.N) // bytes that are not there are stale and do not check
	}
	if op.N < len(op.Data[0]) {
		clear(op.Data[0][op.N:])
	}
	c.filled()
}

func (c *coldRead) filled() {
	c.pending--
	switch {
	case c.pending > 0:
	case c.err != nil:
		c.fail(c.err)
	case c.inside:
		c.deliver()
	default:
		c.search()
	}
}

func (c *coldRead) walker(at Position) walker {
	return walker{
		tag: c.log.opt.Tag, epoch: c.epoch, next: c.next, exact: true, end: c.segment.end, limit: c.limit(),
		pos: c.from, p: c.mem.Data[:c.n], at: int(at - c.from),
	}
}

// search walks to the batch that is looked for.
func (c *coldRead) search() {
	c.log.share.stats.ColdReads++
	w := c.walker(c.walk)
	for {
		h, found, err := w.step()
		if c.atTail(w.position()) {
			if to := c.log.nextInTail(w.next); c.target < to && w.next < to { // batches before it were in the file once
				c.fail(c.cutOff(w.position(), w.next, errGap))
				return
			}
			c.takeTail()
			return
		}
		if c.exactly && (found == walkDamaged || found == walkBatch && offsetOf(h.BaseOffset) != c.next) {
			c.distrust()
			return
		}
		c.exactly = false
		switch {
		case found == walkDamaged && err == errGap && c.seek == nil && c.target >= offsetOf(h.BaseOffset):
			w.leap(&h) // what is missing lies before what is looked for
			continue
		case found == walkDamaged && err == errGap:
			d := c.damage(w.position(), w.next, err)
			d.To = offsetOf(h.BaseOffset)
			c.fail(d)
			return
		case found == walkDamaged:
			c.fail(c.damage(w.position(), w.next, err))
			return
		case found == walkEnd:
			c.missed(w.next)
			return
		case found == walkMore:
			c.goOn(&w)
			return
		case c.isFound(&h) && c.read != nil && offsetOf(h.BaseOffset) >= c.read.Limit: // behind a gap that reaches it
			c.finish(nil)
			return
		case c.isFound(&h):
			c.head, c.headAt, c.epoch = h, w.position(), h.Epoch
			c.reach()
			return
		}
		w.pass(&h)
	}
}

// atTail says whether the walk has come to the first batch of the tail that may be meant: what is looked for lies in a
// gap before it, or there. That batch may lie in the file in part only.
func (c *coldRead) atTail(pos Position) bool {
	q := &c.log.tail.batches
	o := q.first
	if c.seek == nil {
		o = q.find(c.target)
	}
	if o == q.last || q.at(o).absent {
		return false
	}
	d := q.at(o)
	return c.log.segmentAt(d.at) == c.segment && pos >= c.segment.position(d.at)
}

// takeTail answers from memory.
func (c *coldRead) takeTail() {
	if c.seek != nil {
		c.log.seekTail(c.seek)
	} else {
		c.log.readHot(c.read, c.log.tail.batches.find(c.target))
	}
	c.dropMemory()
	c.finish(nil)
}

// distrust forgets an index from a file that does not fit its segment, and looks again with one made by a scan.
func (c *coldRead) distrust() {
	x := &c.segment.index
	if x.fromFile {
		x.entries, x.complete, x.fromFile, x.bad = nil, false, false, true
	}
	c.exactly = false
	if x.complete {
		c.indexReady(nil)
		return
	}
	c.segment.loadIndex(c)
}

// goOn reads the next piece, unless this one was the last of the file.
func (c *coldRead) goOn(w *walker) {
	if c.n == 0 || alignDown(w.position()) == c.from {
		c.fail(c.cutOff(w.position(), w.next, errEnd))
		return
	}
	c.startAt(w.position(), w.next, w.epoch)
}

func (c *coldRead) isFound(h *batch.Header) bool {
	if c.seek != nil {
		return h.AppendTime >= c.seek.Time
	}
	return offsetOf(h.NextOffset()) > c.target
}

// missed: the segment ended before what is looked for, and next is what would have followed. Times may lie in the next
// one; an offset below the segment's end must have been here.
func (c *coldRead) missed(next batch.Offset) {
	q := &c.log.tail.batches
	if o := q.find(next); c.seek != nil && (next >= c.segment.end || o < q.last && offsetOf(q.at(o).base) <= next) {
		c.seekOn()
		return
	}
	c.fail(c.cutOff(c.limit(), next, errEnd))
}

// cutOff is the damage of a file that ends before its segment does: from there on the segment has only what the tail has.
func (c *coldRead) cutOff(pos Position, from batch.Offset, err error) *DamageError {
	d := c.damage(pos, from, err)
	d.To = max(min(c.segment.end, c.log.nextInTail(d.From)), d.From+1)
	return d
}

// reach gets the bytes wanted of the batch found into memory.
func (c *coldRead) reach() {
	if c.seek != nil {
		c.seek.Offset, c.seek.Found = offsetOf(c.head.BaseOffset), c.head.AppendTime
		c.finish(nil)
		return
	}
	if offsetOf(c.head.BaseOffset) > c.target {
		c.skip = 0
	}
	at := c.headAt + Position(c.skip)
	if c.mem != nil && at >= c.from && at+Position(c.wanted()) <= c.from+Position(c.n) {
		c.deliver()
		return
	}
	c.inside = true
	c.get(at, c.wanted())
}

// wanted is how much of the batch found the answer takes.
func (c *coldRead) wanted() int {
	rest := c.head.TotalBytes() - c.skip
	return int(max(min(rest, int64(max(c.read.MaxBytes, batch.HeaderBytes)), maxColdBytes), 0))
}

// deliver fills the Read from memory: the batch found, whole or in part, and what follows it whole.
func (c *coldRead) deliver() {
	r, h := c.read, &c.head
	take, total := int64(c.wanted()), h.TotalBytes()
	at := int(c.headAt + Position(c.skip) - c.from)
	if at < 0 || at+int(take) > c.n {
		c.fail(c.cutOff(c.headAt, offsetOf(h.BaseOffset), errEnd))
		return
	}
	p := c.mem.Data[at : at+int(take)]
	if !c.check(p) {
		c.fail(c.damage(c.headAt, offsetOf(h.BaseOffset), errBody))
		return
	}
	r.Data = appendPiece(r.Data, p)
	if c.skip+take < total {
		r.Next = Cursor{max(r.From.Offset, offsetOf(h.BaseOffset)), c.skip + take}
		c.leaveHint(c.headAt, h.Epoch)
		c.finish(nil)
		return
	}
	r.Records = int(h.Count)
	r.Next = Cursor{Offset: offsetOf(h.NextOffset())}
	c.more(r.MaxBytes - int(take))
}

// check sums up the body as far as it was given, and compares when the batch ends. The sum is not known when a reader
// comes from elsewhere into the middle of a batch.
func (c *coldRead) check(p []byte) bool {
	h := &c.head
	if c.skip == 0 {
		again, err := batch.ParseHeader(p)
		if err != nil || again != *h {
			return false
		}
		c.crc, c.summed = 0, true
		p = p[batch.HeaderBytes:]
	}
	if !c.summed {
		return true
	}
	c.crc = crc32.Update(c.crc, castagnoli, p)
	return c.skip+int64(c.wanted()) < h.TotalBytes() || c.crc == h.BodyCRC
}

// more adds the whole batches that follow in memory, while they fit. Anything that does not check ends the answer here;
// the next read meets it first and says so.
func (c *coldRead) more(left int) {
	r := c.read
	w := c.walker(c.headAt + Position(c.head.TotalBytes()))
	w.next, w.epoch = r.Next.Offset, c.head.Epoch
	end := min(r.Limit, c.log.nextInTail(r.Next.Offset)) // in the file its place may be zeros still, and pass for padding
	for r.Next.Offset < end {
		h, found, _ := w.step()
		if found != walkBatch || !w.whole(&h) || int(h.TotalBytes()) > left ||
			offsetOf(h.BaseOffset) >= end || !w.bodyFits(&h) {
			break
		}
		n := int(h.TotalBytes())
		r.Data = appendPiece(r.Data, w.p[w.at:w.at+n])
		r.Records += int(h.Count)
		r.Next = Cursor{Offset: offsetOf(h.NextOffset())}
		left -= n
		w.pass(&h)
	}
	c.leaveHint(w.position(), w.epoch)
	c.finish(nil)
}

// nextInTail is the base offset of the first batch at or after offset that lies in the tail; beyond all offsets when none
// does. What is below it is in the file.
func (l *Log) nextInTail(offset batch.Offset) batch.Offset {
	q := &l.tail.batches
	for o := q.find(offset); o < q.last; o++ {
		if d := q.at(o); !d.absent {
			return offsetOf(d.base)
		}
	}
	return math.MaxInt64
}

// leaveHint notes where the reader will go on; pos is that of its next batch, or of this one.
func (c *coldRead) leaveHint(pos Position, epoch uint64) {
	l := c.log
	h := &l.hints[0]
	for i := range l.hints { // the reader's own, else the one that is not the latest
		if l.hints[i].segment == c.segment && l.hints[i].at == c.read.From {
			h = &l.hints[i]
			break
		}
		if i != int(l.nextHint) {
			h = &l.hints[i]
		}
	}
	for i := range l.hints {
		if h == &l.hints[i] {
			l.nextHint = uint8(i)
		}
	}
	*h = readHint{at: c.read.Next, segment: c.segment, pos: pos, epoch: epoch, head: c.head, crc: c.crc}
}

// damage builds the error that names what cannot be read.
func (c *coldRead) damage(pos Position, from batch.Offset, err error) *DamageError {
	g := c.segment
	c.log.share.stats.Damages++
	from = max(from, g.first)
	return &DamageError{
		Key: c.log.key, From: from, To: max(g.index.after(pos, g.end), from+1),
		File: g.path("log"), Position: pos, Err: err,
	}
}

func (c *coldRead) fail(err error) {
	if c.read != nil {
		clear(c.read.Data)
		c.read.Data, c.read.Records, c.read.Next = c.read.Data[:0], 0, c.read.From
	}
	c.finish(err)
}

// finish answers. The memory goes to the Read, which releases it.
func (c *coldRead) finish(err error) {
	if c.read != nil {
		c.read.Err = err
		if len(c.read.Data) > 0 && c.mem != nil {
			c.read.held = append(c.read.held, c.mem)
			c.mem = nil
		}
	} else {
		c.seek.Err = err
	}
	c.dropMemory()
	if g := c.segment; g != nil {
		c.segment = nil
		g.reads--
		g.tidy()
	}
	c.ended = true
	if c.starting {
		return // begin answers
	}
	read, seek := c.read, c.seek
	c.recycle()
	if read != nil {
		read.Done(read)
	} else {
		seek.Done(seek)
	}
}

func (c *coldRead) recycle() {
	sh := c.log.share
	c.log, c.read, c.seek = nil, nil, nil
	sh.freeReads = append(sh.freeReads, c)
}

func (c *coldRead) dropMemory() {
	if c.mem != nil {
		c.mem.Release()
		c.mem = nil
	}
}
