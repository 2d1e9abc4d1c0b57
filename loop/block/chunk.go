package block

// chunk is 1 MiB of memory, carved into blocks of one size.
type chunk struct {
	memory     []byte
	index      int32
	class      int
	blocks     *blockArray
	next, prev *chunk // among the open chunks of its size
}

// blockArray holds the headers of one chunk's blocks and the stack of those that are free.
type blockArray struct {
	headers []Block
	stack   []uint16
}

func newBlockArray(p *Pool, size int) *blockArray {
	n := chunkBytes / size
	a := &blockArray{headers: make([]Block, n), stack: make([]uint16, 0, n)}
	for i := range a.headers {
		a.headers[i] = Block{pool: p, slot: uint16(i)}
	}
	return a
}

// carve gives the chunk headers for a size; all blocks are free then.
func (c *chunk) carve(class int, blocks *blockArray) {
	c.class, c.blocks = class, blocks
	size := classBytes[class]
	blocks.stack = blocks.stack[:0]
	for i := len(blocks.headers) - 1; i >= 0; i-- {
		b := &blocks.headers[i]
		b.Data = c.memory[i*size : (i+1)*size : (i+1)*size]
		b.home = c.index
		blocks.stack = append(blocks.stack, uint16(i))
	}
}

func (c *chunk) free() int { return len(c.blocks.stack) }

func (c *chunk) unused() bool { return len(c.blocks.stack) == len(c.blocks.headers) }

// take pops the block that was given back last: its bytes are the likeliest to be in the cache.
func (c *chunk) take() *Block {
	n := len(c.blocks.stack) - 1
	i := c.blocks.stack[n]
	c.blocks.stack = c.blocks.stack[:n]
	return &c.blocks.headers[i]
}

func (c *chunk) give(b *Block) {
	c.blocks.stack = append(c.blocks.stack, b.slot)
}

// list is the open chunks of one size; the first is used first.
type list struct {
	first  *chunk
	length int
}

func (l *list) push(c *chunk) {
	c.prev, c.next = nil, l.first
	if l.first != nil {
		l.first.prev = c
	}
	l.first = c
	l.length++
}

func (l *list) remove(c *chunk) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
	l.length--
}
