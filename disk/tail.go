package disk

import (
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// tail is what a log holds in memory: the batches that are not placed yet, and placed ones while HotBytes allows.
// Blocks hold the bytes exactly as the segment file will; batches is one pointer-free descriptor for each of them.
type tail struct {
	blocks  []*tailBlock // in order of address; the last one is being filled
	batches batches
	end     address // where the next byte goes
	level   int     // of the next block in tailSizes
}

// tailSizes is how blocks grow with the partition's traffic.
var tailSizes = [...]int{block.Size4K, block.Size64K, block.Size1M}

// tailBlock is one block of a tail. The tail holds one reference, each write and each read in flight another.
type tailBlock struct {
	mem          *block.Block
	log          *Log
	from         address
	hot          bool // placed whole, and in the shard's list of such blocks
	older, newer *tailBlock
}

func (b *tailBlock) to() address { return b.from + address(len(b.mem.Data)) }

// described is one batch in the tail.
type described struct {
	base, next uint64 // offsets
	index      uint64 // of its journal entry; 0: not in the journal
	time       int64  // append time, Unix ms
	at         address
	bytes      uint32
	absent     bool // the medium has it and the tail does not: a reference replayed
}

func (d *described) end() address { return d.at + address(d.bytes) }

// batches is a ring of descriptors, addressed by ordinal: how many batches this log has described before.
type batches struct {
	ring        []described // length 0 or a power of two
	first, last uint64      // ordinals held, last exclusive
}

func (q *batches) at(ordinal uint64) *described { return &q.ring[ordinal&uint64(len(q.ring)-1)] }

func (q *batches) push(d described) {
	if q.last-q.first == uint64(len(q.ring)) {
		q.grow()
	}
	q.last++
	*q.at(q.last - 1) = d
}

func (q *batches) grow() {
	old := *q
	q.ring = make([]described, max(2*len(old.ring), 8))
	for o := old.first; o < old.last; o++ {
		*q.at(o) = *old.at(o)
	}
}

// drop forgets everything and the memory, for a log that is idle.
func (q *batches) drop() {
	q.first = q.last
	if len(q.ring) > 64 {
		q.ring = nil
	}
}

// find returns the ordinal of the batch that holds offset, or the next one behind it; last if there is none.
func (q *batches) find(offset batch.Offset) uint64 {
	lo, hi := q.first, q.last
	for lo < hi {
		if m := (lo + hi) / 2; q.at(m).next > uint64(offset) {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// since returns the ordinal of the first batch appended at time or later.
func (q *batches) since(time int64) uint64 {
	lo, hi := q.first, q.last
	for lo < hi {
		if m := (lo + hi) / 2; q.at(m).time >= time {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// room makes sure that n bytes can be written at the end. False: there is no memory, and nothing changed.
// A batch that goes through the journal lies in two blocks at most: an entry is staged in three parts.
func (t *tail) room(l *Log, n int) bool {
	have, wasHot := 0, false
	if last := t.current(); last != nil {
		have = int(last.to() - t.end)
		wasHot = last.hot
		l.share.cool(last) // it must not go while it is filled
	}
	from, level, added := t.end+address(have), t.level, 0
	for have < n {
		mem := l.share.memory(max(tailSizes[level], sizeFor(n-have)))
		if mem == nil {
			mem = l.share.memory(sizeFor(n - have))
		}
		if mem == nil {
			t.giveBack(l, added, wasHot)
			return false
		}
		t.blocks = append(t.blocks, l.share.newBlock(l, mem, from))
		have, from = have+len(mem.Data), from+address(len(mem.Data))
		if level < len(tailSizes)-1 && !(l.replaying && level > 0) { // replay has many tails and little memory
			level++
		}
		added++
	}
	t.level = level
	return true
}

// current is the block that the next byte goes to; nil when that begins a new one.
func (t *tail) current() *tailBlock {
	if n := len(t.blocks); n > 0 && t.blocks[n-1].to() > t.end {
		return t.blocks[n-1]
	}
	return nil
}

// giveBack undoes a room that found no memory.
func (t *tail) giveBack(l *Log, added int, hot bool) {
	kept := len(t.blocks) - added
	for _, b := range t.blocks[kept:] {
		l.share.freeBlock(b)
	}
	clear(t.blocks[kept:])
	t.blocks = t.blocks[:kept]
	if hot {
		l.share.hot.add(t.blocks[kept-1])
	}
}

// sizeFor is the least block that holds n bytes, or the greatest there is.
func sizeFor(n int) int {
	for _, size := range [...]int{block.Size4K, block.Size64K, block.Size256K} {
		if n <= size {
			return size
		}
	}
	return block.Size1M
}

// write copies p to the end; room was made before.
func (t *tail) write(p []byte) {
	i := t.block(t.end)
	for len(p) > 0 {
		b := t.blocks[i]
		n := copy(b.mem.Data[t.end-b.from:], p)
		p, t.end = p[n:], t.end+address(n)
		i++
	}
}

// pad fills the block of the end with zeros.
func (t *tail) pad() {
	to := alignUp(t.end)
	if t.end < to {
		b := t.blocks[t.block(t.end)] // blocks end at multiples of 4096, so it holds all of the rest
		clear(b.mem.Data[t.end-b.from : to-b.from])
		t.end = to
	}
}

// block returns the index of the block that holds a, or of the first one behind it.
func (t *tail) block(a address) int {
	lo, hi := 0, len(t.blocks)
	for lo < hi {
		if m := (lo + hi) / 2; t.blocks[m].to() > a {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

// pieces appends the bytes of [from, to) to dst and their blocks, each retained once, to held.
func (t *tail) pieces(from, to address, dst [][]byte, held []*block.Block) ([][]byte, []*block.Block) {
	for i := t.block(from); from < to; i++ {
		b := t.blocks[i]
		end := min(to, b.to())
		dst = appendPiece(dst, b.mem.Data[from-b.from:end-b.from])
		if len(held) == 0 || held[len(held)-1] != b.mem {
			b.mem.Retain()
			held = append(held, b.mem)
		}
		from = end
	}
	return dst, held
}

// appendPiece adds p to dst, or to its last piece when p goes on where that ends in memory.
func appendPiece(dst [][]byte, p []byte) [][]byte {
	if len(p) == 0 {
		return dst
	}
	if n := len(dst) - 1; n >= 0 {
		if last := dst[n]; cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0] {
			dst[n] = last[:len(last)+len(p)]
			return dst
		}
	}
	return append(dst, p)
}
