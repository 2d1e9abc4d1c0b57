package block

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// chunkBytes is what the pool maps at a time; nothing contiguous is larger.
const chunkBytes = Size1M

const classes = 4

var classBytes = [classes]int{Size4K, Size64K, Size256K, Size1M}

// Pool hands out blocks of one shard. Memory is mapped in chunks of 1 MiB; a chunk serves one size while any of its
// blocks is out and may change size afterwards. Chunks stay mapped until Close.
type Pool struct {
	limit  int
	chunks []*chunk
	places []place                // of chunks, by address
	idle   []*chunk               // mapped, serve no size now
	open   [classes]list          // chunks with free blocks
	spare  [classes][]*blockArray // headers of chunks that changed their size, kept for the next one
	whole  int                    // open chunks with no block out
	inUse  int

	registered    bool
	registeredMax int
	registrar     Registrar

	// Refused, if set, is called once, when the ring first refuses to pin memory as the pool grows: the chunks from there
	// on are used unregistered.
	Refused func(err error)
}

// Stats of a pool, bytes: what it may map, has mapped, and has given out.
type Stats struct {
	Limit, Mapped, InUse int
}

// Registrar is the part of a ring that can pin memory, so that requests on it skip the page lookup.
type Registrar interface {
	// RegisterSparse makes room for n buffers.
	RegisterSparse(n int) error
	// UpdateBuffer places p at index i.
	UpdateBuffer(i int, p []byte) error
}

// NewPool makes a pool that maps at most limitBytes, in whole MiB rounded down. Nothing is mapped yet.
func NewPool(limitBytes int) *Pool {
	return &Pool{limit: limitBytes / chunkBytes * chunkBytes}
}

// Get returns a block of exactly size bytes, one of the sizes, with one holder; nil when the limit is reached or the
// kernel refuses memory. Cost: a few loads once the pool is warm; else one mmap.
func (p *Pool) Get(size int) *Block {
	class := classOf(size)
	c := p.open[class].first
	if c == nil {
		if c = p.openChunk(class); c == nil {
			return nil
		}
	}
	if c.unused() {
		p.whole--
	}
	b := c.take()
	if c.free() == 0 {
		p.open[class].remove(c)
	}
	p.inUse += size
	b.refs = 1
	return b
}

// GetFor is Get with the smallest size that holds n bytes, at most 1 MiB.
func (p *Pool) GetFor(n int) *Block {
	for _, size := range classBytes {
		if n <= size {
			return p.Get(size)
		}
	}
	return nil
}

// Room is what Get can still give in blocks of 1 MiB, bytes; a lower bound for smaller sizes.
func (p *Pool) Room() int {
	return p.limit - (len(p.chunks)-len(p.idle)-p.whole)*chunkBytes
}

// Stats tells what is mapped and what is out.
func (p *Pool) Stats() Stats {
	return Stats{Limit: p.limit, Mapped: len(p.chunks) * chunkBytes, InUse: p.inUse}
}

// Register makes the ring pin this pool's memory, now and as it grows. An error (a small memlock limit) leaves the pool
// as it was: unregistered blocks work, a little slower, and the caller warns once.
func (p *Pool) Register(r Registrar) error {
	if err := r.RegisterSparse(p.limit / chunkBytes); err != nil {
		return err
	}
	p.registrar, p.registered = r, true
	for i, c := range p.chunks {
		if err := r.UpdateBuffer(i, c.memory); err != nil {
			p.registered = i > 0
			return err
		}
		p.registeredMax = i + 1
	}
	return nil
}

// RegisteredAt tells the buffer index under which the ring knows all of data, -1 when it does not. Requests name the
// address inside it. Cost: a binary search over the chunks.
func (p *Pool) RegisteredAt(data []byte) int {
	if !p.registered {
		return -1
	}
	at := addressOf(data)
	i, exact := slices.BinarySearchFunc(p.places, at, func(x place, at uintptr) int { return cmp.Compare(x.at, at) })
	if !exact {
		i--
	}
	if i < 0 || p.places[i].index >= p.registeredMax || at+uintptr(len(data)) > p.places[i].at+chunkBytes {
		return -1
	}
	return p.places[i].index
}

// place is where a chunk lies.
type place struct {
	at    uintptr
	index int
}

func addressOf(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

// Close unmaps everything. Blocks that are still out are a bug of the caller and an error; their chunks stay mapped.
func (p *Pool) Close() error {
	if p.inUse != 0 {
		return fmt.Errorf("block: pool closed with %d bytes still out", p.inUse)
	}
	var errs []error
	for _, c := range p.chunks {
		errs = append(errs, unmapMemory(c.memory))
	}
	*p = Pool{}
	return errors.Join(errs...)
}

// openChunk finds or maps a chunk for a size.
func (p *Pool) openChunk(class int) *chunk {
	if len(p.idle) == 0 && p.whole > 0 && len(p.chunks)*chunkBytes >= p.limit {
		p.closeWhole()
	}
	var c *chunk
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
	} else if c = p.mapChunk(); c == nil {
		return nil
	}
	p.whole++
	var blocks *blockArray
	if n := len(p.spare[class]); n > 0 {
		blocks, p.spare[class] = p.spare[class][n-1], p.spare[class][:n-1]
	} else {
		blocks = newBlockArray(p, classBytes[class])
	}
	c.carve(class, blocks)
	p.open[class].push(c)
	return c
}

func (p *Pool) mapChunk() *chunk {
	if (len(p.chunks)+1)*chunkBytes > p.limit {
		return nil
	}
	memory, err := mapMemory(chunkBytes)
	if err != nil {
		return nil
	}
	c := &chunk{memory: memory, index: int32(len(p.chunks))}
	p.chunks = append(p.chunks, c)
	at := addressOf(memory)
	i, _ := slices.BinarySearchFunc(p.places, at, func(x place, at uintptr) int { return cmp.Compare(x.at, at) })
	p.places = slices.Insert(p.places, i, place{at, int(c.index)})
	if p.registered && p.registeredMax == int(c.index) {
		if err := p.registrar.UpdateBuffer(int(c.index), memory); err == nil {
			p.registeredMax++
		} else if p.Refused != nil {
			p.Refused(err)
			p.Refused = nil
		}
	}
	return c
}

// put takes back a block without holders. The last block of a chunk frees it for other sizes, unless it is the only
// open one of its size: a load of one block at a time would carve it again and again.
func (p *Pool) put(b *Block) {
	Poison(b.Data)
	c := p.chunks[b.home]
	p.inUse -= len(b.Data)
	c.give(b)
	open := &p.open[c.class]
	if c.free() == 1 {
		open.push(c)
	}
	if c.unused() {
		p.whole++
		if open.length > 1 {
			p.closeChunk(c)
		}
	}
}

// closeChunk makes an unused chunk free for any size.
func (p *Pool) closeChunk(c *chunk) {
	p.open[c.class].remove(c)
	p.spare[c.class] = append(p.spare[c.class], c.blocks)
	c.blocks = nil
	p.whole--
	p.idle = append(p.idle, c)
}

// closeWhole takes an unused chunk from the size that keeps it.
func (p *Pool) closeWhole() {
	for class := range p.open {
		for c := p.open[class].first; c != nil; c = c.next {
			if c.unused() {
				p.closeChunk(c)
				return
			}
		}
	}
}

func classOf(size int) int {
	switch size {
	case Size4K:
		return 0
	case Size64K:
		return 1
	case Size256K:
		return 2
	case Size1M:
		return 3
	}
	panic(fmt.Sprintf("block: no blocks of %d bytes", size))
}
