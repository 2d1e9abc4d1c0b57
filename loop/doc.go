// Package loop moves bytes between sockets and a Handler, in turns, on one pinned thread: completions in, the handler's
// work, everything out with one system call.
//
// Thread: a loop belongs to the thread that made it; only Wake and Stop may come from elsewhere.
// Memory: received bytes lie in buffers that the kernel picks from and that go back every turn; output is copied into
// blocks of the shard's pool while the socket has not taken it. An idle connection holds neither.
// Assumes: the handler bounds what it queues (see Handler.Drained) and never blocks.
// Never here: topics, frames, files. Disk requests share the ring, not this package.
package loop
