package disk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/slipringmq/slipring/loop/block"
)

// rescue keeps what no checkpoint can cover: entries of fenced logs that cannot be placed in a segment, or cannot be
// applied because one before them is lost. They are written out of the generation that is to die to a file of their own,
// shard-NN/rescue-<generation>, for the next start and its operator. A fenced log gets no new entries, so there is one
// such file at most for each generation that was live when it was fenced, and the ring is free again whatever they take.
//
// The file holds the entries as they stood in the journal, back to back, and zeros up to a block. It counts once its
// generation is dead; before that it may be in part, and the journal still has all of it.
//
// One op is in flight at a time. Cost: one read of the generation's file, and only if a log is fenced.
type rescue struct {
	c    *checkpoint
	logs []*Log

	place, end uint64 // next block to read; places of the generation end here
	stream     entryStream
	out        []byte // entries that are not written
	file       File
	pos        Position
	left       uint64 // generation whose file an attempt that failed has left in part, 0 none

	ready bool // done, or failed
	err   error
	next  func()
	op    Op
	mem   *block.Block
	buf   []byte
}

// rescuePath names the file of a generation.
func rescuePath(shard int, generation uint64) string {
	return fmt.Sprintf("%s/%s%016x", shardDir(shard), rescuePrefix, generation)
}

const rescuePrefix = "rescue-"

// parseRescueName reads rescue-<generation>.
func parseRescueName(name string) (generation uint64, ok bool) {
	hex, ok := strings.CutPrefix(name, rescuePrefix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	generation, err := strconv.ParseUint(hex, 16, 64)
	return generation, err == nil
}

func (p *rescue) init(c *checkpoint) {
	p.c = c
	p.op.Data = make([][]byte, 1)
	p.op.Done = func(op *Op) {
		op.Data[0] = nil
		p.next()
	}
	p.stream.emit = p.entry
	p.stream.bad = func(uint64) {} // recovery has reported it
}

func (p *rescue) reset() {
	for _, l := range p.logs {
		l.member.rescued = false
	}
	clear(p.logs)
	p.logs = p.logs[:0]
}

func (p *rescue) add(l *Log) {
	l.member.rescued = true
	p.logs = append(p.logs, l)
}

// begin removes what an attempt that failed has left, and reads the generation's file when a log wants something of it.
func (p *rescue) begin() {
	p.err, p.ready = nil, false
	if p.left == 0 {
		p.start()
		return
	}
	p.submit(OpRemove, rescuePath(p.c.s.cfg.Shard, p.left), func() {
		if p.op.Err != nil && !errors.Is(p.op.Err, syscall.ENOENT) {
			p.finish(p.op.Err)
			return
		}
		p.syncDirectory(func() {
			p.left = 0
			p.start()
		})
	})
}

func (p *rescue) start() {
	if p.ready = len(p.logs) == 0 || p.c.generation == 0; p.ready {
		return
	}
	perFile := p.c.s.journal.perFile
	p.place, p.end = p.c.generation*perFile, (p.c.generation+1)*perFile
	p.stream.buf, p.stream.next = p.stream.buf[:0], 0
	p.out, p.pos = p.out[:0], 0
	if p.mem = p.c.s.pool.Get(block.Size256K); p.mem != nil {
		p.buf = p.mem.Data
	} else {
		p.buf = alignedHeap(block.Size64K)
	}
	p.read()
}

// over: the generation is read, and the entry that runs over its end too.
func (p *rescue) over() bool {
	return p.place >= p.end && !p.stream.pending() || p.place >= p.end+maxGroupBlocks || p.place >= p.c.s.journal.at
}

func (p *rescue) submit(kind OpKind, path string, next func()) {
	op := &p.op
	op.Kind, op.Class, op.Sync, op.Err, op.N = kind, ClassCold, true, nil, 0
	op.File, op.Path = p.file, path
	p.next = next
	p.c.s.dev.Submit(op)
}

func (p *rescue) syncDirectory(next func()) {
	p.submit(OpSyncDir, shardDir(p.c.s.cfg.Shard), func() {
		if p.op.Err != nil {
			p.finish(p.op.Err)
			return
		}
		next()
	})
}

func (p *rescue) read() {
	j := p.c.s.journal
	n := min(uint64(len(p.buf)/blockBytes), j.perFile-p.place%j.perFile)
	p.op.Data[0] = p.buf[:n*blockBytes]
	p.op.Pos = Position(p.place % j.perFile * blockBytes)
	file := p.file
	p.file = j.files[j.fileOf(p.place/j.perFile)].file
	p.submit(OpRead, "", p.took)
	p.file = file
}

func (p *rescue) took() {
	if p.op.Err != nil {
		p.finish(p.op.Err)
		return
	}
	j := p.c.s.journal
	for b := 0; b < p.op.N/blockBytes && !p.over(); b++ {
		raw := p.buf[b*blockBytes : (b+1)*blockBytes]
		h, ok := parseBlock(raw, j.seed)
		if ok && h.Generation == p.place/j.perFile && uint64(h.Number) == p.place%j.perFile && h.Start == p.c.s.resumes.startAt(p.place) {
			p.stream.feed(&h, raw[blockHeaderBytes:], p.place)
		}
		p.place++
	}
	if p.op.N < blockBytes {
		p.place = p.end + maxGroupBlocks
	}
	p.drain()
}

// entry takes an entry that a fenced log needs.
func (p *rescue) entry(e entryHeader, place uint64) {
	l := p.c.s.table[e.Key]
	if l == nil || !l.member.rescued || place >= p.end || e.Index <= l.member.placed {
		return
	}
	var header [entryHeaderBytes]byte
	putEntryHeader(header[:], e.Key, e.Kind, e.Index, e.Epoch, [3][]byte{e.Payload})
	p.out = append(append(p.out, header[:]...), e.Payload...)
}

// drain writes whole buffers, and at the end the rest; then it reads on, or ends.
func (p *rescue) drain() {
	switch {
	case len(p.out) < len(p.buf) && !p.over():
		p.read()
	case len(p.out) == 0 && p.file == 0:
		p.finish(nil) // the generation holds nothing of them
	case len(p.out) == 0:
		p.syncDirectory(func() {
			p.left = 0
			p.finish(nil)
		})
	case p.file == 0:
		p.create()
	default:
		p.write()
	}
}

func (p *rescue) create() {
	p.left = p.c.generation
	p.submit(OpCreate, rescuePath(p.c.s.cfg.Shard, p.left), func() {
		if p.op.Err != nil {
			p.finish(p.op.Err)
			return
		}
		p.file = p.op.File
		p.write()
	})
}

func (p *rescue) write() {
	n := copy(p.buf, p.out)
	p.out = p.out[:copy(p.out, p.out[n:])]
	whole := alignUp(n)
	clear(p.buf[n:whole])
	p.op.Data[0], p.op.Pos = p.buf[:whole], p.pos
	p.pos += Position(whole)
	p.submit(OpWrite, "", func() {
		if p.op.Err != nil {
			p.finish(p.op.Err)
			return
		}
		p.drain()
	})
}

// finish closes the file and gives the memory back.
func (p *rescue) finish(err error) {
	if err != nil {
		p.err = fmt.Errorf("disk: %s: entries of fenced partitions: %w", rescuePath(p.c.s.cfg.Shard, p.c.generation), err)
	}
	if p.file != 0 {
		p.submit(OpClose, "", func() {
			p.file = 0
			p.finish(nil)
		})
		return
	}
	if p.mem != nil {
		p.mem.Release()
	}
	p.mem, p.buf, p.ready = nil, nil, true
	if cap(p.out) > maxPayloadBytes {
		p.out = nil
	}
}

// settle: what the logs need of generations up to the one that dies is elsewhere now.
func (p *rescue) settle(generation uint64) {
	if generation == 0 {
		return
	}
	for _, l := range p.logs {
		b := &l.member
		if b.firstGen = 0; b.lastGen > generation {
			b.firstGen = generation + 1
		}
	}
}
