package disk

import (
	"errors"
	"syscall"

	"github.com/slipringmq/slipring/loop/block"
)

// maxOpenSegments bounds the descriptors of a shard's segments; the least recently used one that rests is closed.
const maxOpenSegments = 256

type fileState uint8

const (
	fileClosed fileState = iota
	fileOpening
	fileOpen
	fileClosing
	fileRemoved
)

// segmentFile is the open file of a segment, opened when it is needed.
type segmentFile struct {
	state   fileState
	handle  File
	fresh   bool // of this start: made, not opened
	named   bool // its name is durable
	writers bool // something waits to be written
	readers []*coldRead
	users   int // ops that use the handle now
	failed  error

	allocated  Position // space reserved ahead, bytes from the start
	allocating bool

	older, newer *segment // among the open files, by use
}

// openForWrite says whether the file can be written now: open, and its name durable, so that nothing ever refers to a
// file that a power cut takes away. If it cannot, fileReady follows.
func (g *segment) openForWrite() bool {
	f := &g.file
	switch {
	case f.failed != nil:
		return false
	case f.state == fileOpen && f.named:
		g.log.share.files.touch(g)
		return true
	}
	f.writers = true
	g.open()
	return false
}

// openForRead is the same for a cold read, which is resumed later if the answer is false.
func (g *segment) openForRead(c *coldRead) bool {
	f := &g.file
	if f.state == fileOpen {
		g.log.share.files.touch(g)
		return true
	}
	f.readers = append(f.readers, c)
	g.open()
	return false
}

func (g *segment) open() {
	if g.file.state != fileClosed {
		return
	}
	g.file.state = fileOpening
	if g.file.fresh {
		g.submitName(OpCreate, g.created)
	} else {
		g.submitName(OpOpen, g.opened)
	}
}

// submitName runs an op on the file's name. It allocates: names are opened and made rarely.
func (g *segment) submitName(kind OpKind, done func(*Op)) {
	g.log.share.dev.Submit(&Op{Kind: kind, Class: ClassTail, Path: g.path("log"), Done: done})
}

func (g *segment) created(op *Op) {
	g.file.fresh = false
	switch {
	case errors.Is(op.Err, syscall.EEXIST): // made before something staged was dropped, or before a crash in replay
		g.submitName(OpOpen, g.opened)
	case op.Err != nil:
		g.openFailed(op.Err)
	default:
		g.file.handle = op.File
		g.makeDurable()
	}
}

func (g *segment) opened(op *Op) {
	switch {
	case errors.Is(op.Err, syscall.ENOENT) && g.file.writers && (g.placed == 0 || g.log.replaying || g.end <= g.log.logStart):
		// Replay may meet a file that a later entry of the same journal trims away; it went before the crash, and what
		// replay put into the tail goes after it.
		g.missing = g.placed > 0
		g.submitName(OpCreate, g.created)
	case op.Err != nil:
		g.openFailed(op.Err)
	default:
		g.file.handle = op.File
		if g.file.named {
			g.ready()
		} else {
			g.makeDurable()
		}
	}
}

// makeDurable flushes the new file, then its name.
func (g *segment) makeDurable() {
	dev := g.log.share.dev
	dev.Submit(&Op{Kind: OpSync, Class: ClassTail, File: g.file.handle, Done: func(op *Op) {
		if op.Err != nil {
			g.abandonHandle(op.Err)
			return
		}
		dev.Submit(&Op{Kind: OpSyncDir, Class: ClassTail, Path: directory(g.log.key), Done: func(op *Op) {
			if op.Err != nil {
				g.abandonHandle(op.Err)
				return
			}
			g.file.named = true
			g.ready()
			g.log.sweep()
		}})
	}})
}

// abandonHandle closes a file that could not be made durable.
func (g *segment) abandonHandle(err error) {
	g.log.share.dev.Submit(&Op{Kind: OpClose, Class: ClassTail, File: g.file.handle, Done: func(*Op) { g.openFailed(err) }})
	g.file.handle = 0
}

// ready hands the open file to those who waited for it.
func (g *segment) ready() {
	f := &g.file
	f.state = fileOpen
	g.log.share.files.add(g)
	g.resumeReaders(nil)
	if f.writers {
		f.writers = false
		g.log.fileReady(g)
	}
	g.tidy()
}

func (g *segment) openFailed(err error) {
	f := &g.file
	f.state = fileClosed
	g.resumeReaders(err)
	if f.writers {
		f.writers = false
		g.log.writeFailed(g, err)
		g.log.replaceWhenQuiet(g)
	}
	g.tidy()
}

func (g *segment) resumeReaders(err error) {
	readers := g.file.readers
	g.file.readers = nil
	for _, c := range readers {
		c.fileOpened(err)
	}
}

// release ends one use of the handle.
func (g *segment) release() {
	g.file.users--
	g.tidy()
}

// tidy closes the file of a segment that is to be removed, and removes it, once nobody uses it.
func (g *segment) tidy() {
	f := &g.file
	if !g.doomed || f.users > 0 || g.reads > 0 {
		return
	}
	switch f.state {
	case fileOpen:
		g.close()
	case fileClosed:
		f.state = fileRemoved
		g.remove()
	}
}

func (g *segment) close() {
	g.log.share.files.remove(g)
	g.file.state = fileClosing
	g.log.share.dev.Submit(&Op{Kind: OpClose, Class: ClassCold, File: g.file.handle, Done: func(*Op) {
		g.file.state, g.file.handle = fileClosed, 0
		switch {
		case g.doomed:
			g.tidy()
		case g.file.writers || len(g.file.readers) > 0:
			g.open()
		}
		g.log.share.files.closed()
	}})
}

// allocateStep is how much space is reserved ahead for a partition with bulk traffic.
const allocateStep = 16 << 20

// reserve takes space ahead of the writes of a busy log, which has filled a block of 1 MiB. It may fail: the writes then
// find their own. A file's length says nothing, so what is reserved and not used does no harm.
func (g *segment) reserve(to Position) {
	f, l := &g.file, g.log
	n := len(l.tail.blocks)
	busy := n > 0 && len(l.tail.blocks[n-1].mem.Data) == block.Size1M
	if !busy || f.allocating || to+allocateStep/4 < f.allocated || g.closed {
		return
	}
	from := max(f.allocated, to)
	size := min(allocateStep, alignDown(Position(l.opt.SegmentBytes))-from)
	if size <= 0 {
		return
	}
	f.allocating = true
	f.users++
	l.share.dev.Submit(&Op{Kind: OpAllocate, Class: ClassTail, File: f.handle, Pos: from, Size: int64(size), Done: func(*Op) {
		f.allocated, f.allocating = from+size, false
		g.release()
		if f.failed != nil {
			l.replaceWhenQuiet(g)
		}
	}})
}

// openFiles are the open segments of a shard, least recently used first.
type openFiles struct {
	oldest, newest *segment
	count          int
	closing        int
	whenClosed     func()
}

func (o *openFiles) add(g *segment) {
	o.link(g)
	o.count++
	for old := o.oldest; old != nil && o.count > maxOpenSegments; {
		next := old.file.newer
		if old.file.users == 0 && old.reads == 0 && old != g {
			old.close()
		}
		old = next
	}
}

func (o *openFiles) link(g *segment) {
	g.file.older = o.newest
	if o.newest != nil {
		o.newest.file.newer = g
	} else {
		o.oldest = g
	}
	o.newest = g
}

func (o *openFiles) unlink(g *segment) {
	f := &g.file
	if f.older != nil {
		f.older.file.newer = f.newer
	} else {
		o.oldest = f.newer
	}
	if f.newer != nil {
		f.newer.file.older = f.older
	} else {
		o.newest = f.older
	}
	f.older, f.newer = nil, nil
}

func (o *openFiles) touch(g *segment) {
	if o.newest != g {
		o.unlink(g)
		o.link(g)
	}
}

func (o *openFiles) remove(g *segment) {
	o.unlink(g)
	o.count--
	o.closing++
}

func (o *openFiles) closed() {
	o.closing--
	if o.closing == 0 && o.count == 0 && o.whenClosed != nil {
		done := o.whenClosed
		o.whenClosed = nil
		done()
	}
}

// closeAll closes every open segment; nothing may use one any more. done follows when all are closed.
func (o *openFiles) closeAll(done func()) {
	if o.count == 0 && o.closing == 0 {
		done()
		return
	}
	o.whenClosed = done
	for o.oldest != nil {
		o.oldest.close()
	}
}
