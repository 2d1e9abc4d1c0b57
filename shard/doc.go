// Package shard is the one place where the rules live: topics, partitions, what an acknowledgement means, who may read
// what. It turns bytes of connections into records of logs and back.
//
// It is a deterministic state machine. Inputs are bytes from a connection, completions of the store, and a turn with the
// time; outputs go through Network and disk.Store, called per batch. The same inputs give the same outputs, byte for byte,
// so the package runs unchanged under the simulator in shard/sim.
//
// Thread: every call comes from the thread of one shard; no call waits but Open.
// Memory: what a client makes the shard remember is bounded by Limits; bytes of unfinished frames lie in pool blocks. Once
// warm, produce, fetch and deliver allocate nothing.
// Assumes: StartTurn tells the time before anything else in a turn, EndTurn closes it. Completions of the store come
// between the two.
// Never here: clocks, goroutines, locks, channels, map order, random numbers, sockets, files.
package shard
