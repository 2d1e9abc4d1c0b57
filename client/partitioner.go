package client

import (
	"math/rand/v2"
	"sync/atomic"
)

// Partitioner chooses the partition of a record among n, from 0. It is called by every goroutine that produces.
type Partitioner func(r *Record, n int) int

// KeyHash sends records with equal keys to the same partition: murmur2 of the key as Kafka's clients compute it, modulo n,
// so that a migrated producer keeps its placement. Records without a key stay on one partition for a while and then move
// on, so that batches fill. It is the default.
func KeyHash() Partitioner {
	var keyless atomic.Uint64
	start := rand.Uint64()
	return func(r *Record, n int) int {
		if r.Key == nil {
			return int((start + keyless.Add(1)/stickyRecords) % uint64(n))
		}
		return int(murmur2(r.Key)&0x7fffffff) % n
	}
}

// Keyless records before KeyHash moves on: many enough for a batch of small records, few enough to spread.
const stickyRecords = 1000

// RoundRobin takes the partitions in turn, record by record.
func RoundRobin() Partitioner {
	var next atomic.Uint64
	return func(_ *Record, n int) int { return int((next.Add(1) - 1) % uint64(n)) }
}

// Random takes any partition.
func Random() Partitioner {
	return func(_ *Record, n int) int { return rand.IntN(n) }
}

// Explicit takes Record.Partition.
func Explicit() Partitioner {
	return func(r *Record, _ int) int { return int(r.Partition) }
}

// murmur2 is the 32-bit hash of that name with Kafka's seed.
func murmur2(p []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := seed ^ uint32(len(p))
	for len(p) >= 4 {
		k := uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
		p = p[4:]
	}
	switch len(p) {
	case 3:
		h ^= uint32(p[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(p[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(p[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
