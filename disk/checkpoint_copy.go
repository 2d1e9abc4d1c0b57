package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/loop/block"
)

// copier copies the entries of fenced logs out of the generation that is to die: what cannot be placed in a segment, or
// cannot be applied because an entry before it is lost, is kept in the journal for the next start and its operator.
type copier struct {
	c    *checkpoint
	logs []*Log

	place, end uint64 // next block to read; places of the generation end here
	reading    bool
	busy       bool
	op         Op
	mem        *block.Block
	buf        []byte
	stream     entryStream
	err        error
}

func (p *copier) init(c *checkpoint) {
	p.c = c
	p.op.Data = make([][]byte, 1)
	p.op.Done = p.read
	p.stream.emit = p.entry
	p.stream.bad = func(uint64) {} // recovery has reported it
}

func (p *copier) reset() { p.logs = p.logs[:0] }

func (p *copier) add(l *Log) { p.logs = append(p.logs, l) }

// begin reads the generation's file when there is something to copy.
func (p *copier) begin(c *checkpoint) {
	perFile := c.s.journal.perFile
	p.err, p.reading = nil, len(p.logs) > 0 && c.generation > 0
	if !p.reading {
		return
	}
	p.place, p.end = c.generation*perFile, (c.generation+1)*perFile
	p.stream.buf, p.stream.next = p.stream.buf[:0], 0
	if p.mem = c.s.pool.Get(block.Size64K); p.mem != nil {
		p.buf = p.mem.Data
	} else {
		p.buf = alignedHeap(block.Size64K)
	}
}

// step says when all is copied and flushed.
func (p *copier) step() (done bool, err error) {
	switch {
	case p.busy:
		return false, nil
	case p.err != nil:
		p.finish()
		return false, fmt.Errorf("disk: copy of fenced entries out of journal generation %d: %w", p.c.generation, p.err)
	case p.reading && p.over():
		p.finish()
	case p.reading:
		p.submit()
		return false, nil
	}
	for _, l := range p.logs {
		if l.member.waiting(l) {
			return false, nil
		}
	}
	return true, nil
}

// over: the generation is read, and the entry that runs over its end too.
func (p *copier) over() bool {
	return p.place >= p.end && !p.stream.pending() || p.place >= p.end+maxGroupBlocks || p.place >= p.c.s.journal.at
}

func (p *copier) finish() {
	p.reading = false
	if p.mem != nil {
		p.mem.Release()
	}
	p.mem, p.buf = nil, nil
}

func (p *copier) submit() {
	j := p.c.s.journal
	n := min(uint64(len(p.buf)/blockBytes), j.perFile-p.place%j.perFile)
	p.op.Kind, p.op.Class, p.op.Err = OpRead, ClassCold, nil
	p.op.File = j.files[j.fileOf(p.place/j.perFile)].file
	p.op.Pos = Position(p.place % j.perFile * blockBytes)
	p.op.Data[0] = p.buf[:n*blockBytes]
	p.busy = true
	j.dev.Submit(&p.op)
}

func (p *copier) read(op *Op) {
	p.busy = false
	op.Data[0] = nil
	if p.err = op.Err; p.err != nil {
		return
	}
	j := p.c.s.journal
	for b := 0; b < op.N/blockBytes && !p.over(); b++ {
		raw := p.buf[b*blockBytes : (b+1)*blockBytes]
		h, ok := parseBlock(raw, j.seed)
		if ok && h.Generation == p.place/j.perFile && uint64(h.Number) == p.place%j.perFile && h.Start == p.c.s.resumes.startAt(p.place) {
			p.stream.feed(&h, raw[blockHeaderBytes:], p.place)
		}
		p.place++
	}
	if op.N < blockBytes {
		p.place = p.end + maxGroupBlocks
	}
}

// entry stages a copy with the same index and epoch; replay skips it where it has seen the original.
func (p *copier) entry(e entryHeader, place uint64) {
	l := p.c.s.table[e.Key]
	if l == nil || place >= p.end || e.Index <= l.member.placed {
		return
	}
	for _, f := range p.logs {
		if f == l {
			p.c.s.journal.stage(l, e.Key, e.Kind, e.Index, e.Epoch, [3][]byte{e.Payload})
			return
		}
	}
}

// settle: the entries in generations up to the one that dies are elsewhere now.
func (p *copier) settle(generation uint64) {
	if generation == 0 {
		return
	}
	for _, l := range p.logs {
		b := &l.member
		if b.firstGen = 0; b.lastGen > generation {
			b.firstGen = generation + 1
		}
	}
	p.logs = p.logs[:0]
}
