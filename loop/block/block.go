package block

import "fmt"

// Sizes of blocks, bytes. Every block starts at a multiple of Align.
const (
	Size4K   = 4 << 10
	Size64K  = 64 << 10
	Size256K = 256 << 10
	Size1M   = 1 << 20

	Align = 4096
)

// Block is one piece of mapped memory. It returns to its pool when its last holder releases it.
// The content of a fresh block is whatever was there before.
type Block struct {
	Data []byte // the whole block; len is one of the sizes

	pool *Pool
	refs int32
	home int32  // index of its chunk in the pool
	slot uint16 // its place in the chunk
}

// Retain adds a holder: the kernel for one request, a socket for one send.
func (b *Block) Retain() {
	if b.refs <= 0 {
		panic(fmt.Sprintf("block: Retain of a released block (%d bytes, refs %d)", len(b.Data), b.refs))
	}
	b.refs++
}

// Release drops one holder; the last one gives the block back. One release too many is a bug and panics.
func (b *Block) Release() {
	b.refs--
	if b.refs > 0 {
		return
	}
	if b.refs < 0 {
		panic(fmt.Sprintf("block: released twice (%d bytes)", len(b.Data)))
	}
	b.pool.put(b)
}

// Refs is the number of holders, for checks.
func (b *Block) Refs() int { return int(b.refs) }
