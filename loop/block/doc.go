// Package block is the memory that kernel and sockets see: aligned blocks mapped outside the Go heap, pooled per shard.
//
// Thread: a Pool and its blocks belong to one thread. Nothing here is safe for two.
// Memory: the pool never maps more than its limit; Get answers nil instead. A block is charged whole.
// Never here: what the bytes mean.
//
// Built with -race or -tags invariants, blocks come from the Go heap (the race detector is blind to mapped memory); with
// -tags invariants released bytes are overwritten, so that a late reader fails in tests.
package block
