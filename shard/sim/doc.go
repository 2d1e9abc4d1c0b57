// Package sim runs one shard over a simulated disk, with clients that speak frames, virtual time and one seed: the very
// code that serves, with power cuts between any two completions. Given the same seed a run does the same, byte for byte.
//
// World is the shard and its surroundings, Client a connection to it; tests of package shard use both. Campaign is the
// search: a random workload, a cut, a recovery, and a check of everything that was promised, again and again.
//
// Thread: one. Nothing here waits, sleeps or looks at a clock.
package sim
