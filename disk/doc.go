// Package disk keeps what a shard must remember: it appends to the journal and to segments, makes both durable with
// direct I/O, and finds everything again after a crash.
//
// Device is the narrow interface to kernel and medium. NewUring is the real one, on the shard's io_uring; NewSim is in
// memory, with a seed, and as bad as a disk may be. Lock, Probe and the manifest guard the data directory as a whole.
// Store is what one shard keeps: one journal, one state log, a Log per partition.
//
// Thread: every call comes from the thread of one shard; no call waits, but for Open, Lock and Probe at the start.
// Memory: blocks given to the kernel are mapped outside the Go heap (package loop/block).
// Assumes: a flushed write survives power loss; an unflushed one may land, tear at any 512-byte sector, or vanish, in
// any order; a name is durable once its directory was synced. The crash tests hold us to exactly that.
// Never here: connections, frames, time of day (the caller passes it).
package disk
