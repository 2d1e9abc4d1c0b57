// Package uring is an io_uring with one owner: entries are filled in place, one io_uring_enter submits them and waits,
// completions are handed to a function per kind. Sockets and disk of a shard share one Ring.
//
// Thread: New, and every method but Wake, belong to one locked OS thread; where the kernel can (Linux 6.1) it refuses
// any other.
// Memory: what a request points to is the caller's and stays untouched until its completion; nothing here copies it.
// Assumes: Linux 5.11 or newer (wait with a timeout). Newer features are asked for one by one.
// Never here: sockets' and files' meaning.
package uring
