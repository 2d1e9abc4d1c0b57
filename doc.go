// Package slipring is the assembled broker as a library: Open joins loop and shard on pinned threads and gives a broker
// that the daemon, tests and Go programs run.
//
// Thread: each shard is one goroutine locked to one thread (host.go); Broker's methods may be called from anywhere.
// Memory: blocks are mapped per shard within Config.MemoryLimit; the Go heap keeps only tables.
// Never here: rules of topics and partitions (shard), bytes of the wire (frame) or of the disk (disk).
package slipring
