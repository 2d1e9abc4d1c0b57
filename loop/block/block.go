// Package block is the memory that kernel and sockets see: aligned blocks mapped outside the Go heap, pooled per shard.
//
// Thread: a Pool and its blocks belong to one thread. Nothing here is safe for two.
// Memory: the pool never maps more than its limit; Get answers nil instead.
// Never here: what the bytes mean.
package block

// Sizes of blocks, bytes. A block is aligned to 4096 or to its size, whichever is less... see Pool.
const (
	Size4K   = 4 << 10
	Size64K  = 64 << 10
	Size256K = 256 << 10
	Size1M   = 1 << 20
)

// Block is one piece of mapped memory. It returns to its pool when its last holder releases it.
type Block struct {
	Data []byte // the whole block; len is one of the sizes

	pool *Pool
	refs int32
}
