package disk

import "slices"

const (
	pageBytes   = 4096
	sectorBytes = 512 // what a disk writes whole

	// simFileBytes bounds a simulated file, so that a wild position is an error and not all the memory.
	simFileBytes = 1 << 30
)

type simBytes [pageBytes]byte

// simPage is 4 KiB of a file. A nil *simBytes is a page of zeros: most of a young journal costs nothing.
type simPage struct {
	cur       *simBytes   // what a read sees
	old       []*simBytes // earlier versions that a crash may bring back, oldest first; the first is durable
	allocated bool        // counts against the capacity
	dirty     bool        // the next sync makes cur durable
}

// simFile is a file or, with dir, a directory.
type simFile struct {
	id      int
	dir     bool
	pages   []simPage
	dirty   []int // pages with dirty set
	size    int64
	durable int64 // size that no crash takes back
}

// SimPages is a free list of page memory. One thread.
type SimPages struct{ free []*simBytes }

// Reserve makes at least n pages ready, so that the next n cost no allocation.
func (p *SimPages) Reserve(n int) {
	for len(p.free) < n {
		p.free = append(p.free, new(simBytes))
	}
}

func (p *SimPages) get() *simBytes {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return new(simBytes)
}

func (p *SimPages) put(b *simBytes) {
	if b != nil {
		p.free = append(p.free, b)
	}
}

// read fills op.Data and returns how many bytes lie before the end of the file.
func (f *simFile) read(op *Op) int {
	at, total := int64(op.Pos), 0
	for _, piece := range op.Data {
		for len(piece) > 0 && at < f.size {
			in := int(at % pageBytes)
			n := min(len(piece), pageBytes-in, int(f.size-at))
			if i := int(at / pageBytes); i < len(f.pages) && f.pages[i].cur != nil {
				copy(piece[:n], f.pages[i].cur[in:])
			} else {
				clear(piece[:n])
			}
			piece, at, total = piece[n:], at+int64(n), total+n
		}
	}
	return total
}

// write puts data at pos. With durable no crash can take it back. lands, if not nil, is asked for each sector whether
// it is written at all.
func (f *simFile) write(mem *SimPages, pos Position, data [][]byte, durable bool, lands func() bool) int {
	at := int64(pos)
	for _, piece := range data {
		for len(piece) > 0 {
			in := int(at % pageBytes)
			n := min(len(piece), pageBytes-in)
			f.writePage(mem, int(at/pageBytes), in, piece[:n], durable, lands)
			piece, at = piece[n:], at+int64(n)
		}
	}
	f.size = max(f.size, at)
	if durable {
		f.durable = max(f.durable, at)
	}
	return int(at - int64(pos))
}

func (f *simFile) writePage(mem *SimPages, i, in int, data []byte, durable bool, lands func() bool) {
	f.grow(i + 1)
	p := &f.pages[i]
	if durable {
		p.cur = overwrite(mem, p.cur, in, data)
		if len(data) == pageBytes {
			p.forget(mem)
			return
		}
		for v := range p.old { // the sectors not written keep their doubtful versions
			p.old[v] = overwrite(mem, p.old[v], in, data)
		}
		return
	}
	p.old = append(p.old, copyPage(mem, p.cur))
	if lands == nil {
		p.cur = overwrite(mem, p.cur, in, data)
	} else {
		for s := 0; s < len(data); s += sectorBytes {
			if lands() {
				p.cur = overwrite(mem, p.cur, in+s, data[s:s+sectorBytes])
			}
		}
	}
	if !p.dirty {
		p.dirty = true
		f.dirty = append(f.dirty, i)
	}
}

// syncAll makes the file as it is now durable, but for what an earlier failed sync gave up.
func (f *simFile) syncAll(mem *SimPages) {
	for _, i := range f.dirty {
		f.pages[i].dirty = false
		f.pages[i].forget(mem)
	}
	f.dirty = f.dirty[:0]
	f.durable = f.size
}

// giveUp is a failed sync: the kernel calls the pages clean, reads go on to see them, and no later sync writes them.
func (f *simFile) giveUp() {
	for _, i := range f.dirty {
		f.pages[i].dirty = false
	}
	f.dirty = f.dirty[:0]
}

// truncate sets the size; both it and the zeros behind it can be taken back by a crash until the next sync. It returns
// the bytes of space that came free.
func (f *simFile) truncate(mem *SimPages, size int64) (freed int64) {
	for i := range f.pages {
		from := int64(i) * pageBytes
		if from >= size && f.pages[i].allocated {
			f.pages[i].allocated = false
			freed += pageBytes
		}
		if in := max(size-from, 0); in < pageBytes && f.pages[i].cur != nil {
			f.writePage(mem, i, int(in), zeroPage[in:], false, nil)
		}
	}
	f.size = size
	return freed
}

func (f *simFile) allocate(pos Position, size int64) {
	end := int64(pos) + size
	f.grow(int((end + pageBytes - 1) / pageBytes))
	for i := int64(pos) / pageBytes; i*pageBytes < end; i++ {
		f.pages[i].allocated = true
	}
	f.size = max(f.size, end)
}

// missing counts the pages of a range that have no space yet.
func (f *simFile) missing(pos Position, size int64) int64 {
	n := int64(0)
	for i := int64(pos) / pageBytes; i*pageBytes < int64(pos)+size; i++ {
		if i >= int64(len(f.pages)) || !f.pages[i].allocated {
			n++
		}
	}
	return n
}

// release gives all memory back and returns the bytes that were allocated.
func (f *simFile) release(mem *SimPages) int64 {
	n := f.space()
	for i := range f.pages {
		f.pages[i].forget(mem)
		mem.put(f.pages[i].cur)
	}
	f.pages, f.dirty, f.size, f.durable = nil, nil, 0, 0
	return n
}

// copy is f with memory of its own.
func (f *simFile) copy(mem *SimPages) *simFile {
	c := *f
	c.dirty = slices.Clone(f.dirty)
	c.pages = slices.Clone(f.pages)
	for i := range c.pages {
		p := &c.pages[i]
		p.cur = copyPage(mem, p.cur)
		p.old = slices.Clone(p.old)
		for v := range p.old {
			p.old[v] = copyPage(mem, p.old[v])
		}
	}
	return &c
}

// space is what f takes on the medium, bytes.
func (f *simFile) space() int64 {
	n := int64(0)
	for i := range f.pages {
		if f.pages[i].allocated {
			n += pageBytes
		}
	}
	return n
}

func (f *simFile) grow(pages int) {
	for len(f.pages) < pages {
		f.pages = append(f.pages, simPage{})
	}
}

// forget drops the earlier versions: what a read sees is durable.
func (p *simPage) forget(mem *SimPages) {
	for v, b := range p.old {
		mem.put(b)
		p.old[v] = nil
	}
	p.old = p.old[:0]
}

var zeroPage simBytes

func copyPage(mem *SimPages, b *simBytes) *simBytes {
	if b == nil {
		return nil
	}
	c := mem.get()
	*c = *b
	return c
}

// overwrite returns b with data at in; it stays nil while all is zero.
func overwrite(mem *SimPages, b *simBytes, in int, data []byte) *simBytes {
	if b == nil {
		if string(data) == string(zeroPage[:len(data)]) {
			return nil
		}
		b = mem.get()
		*b = zeroPage
	}
	copy(b[in:], data)
	return b
}
