package slipring

import (
	"fmt"
)

// Journals: a ring of journalFiles files of at least journalFileMin each; together at most journalMax by default, since a
// start reads what is live of them.
const (
	journalFiles   = 8
	journalFileMin = 1 << 20
	journalMax     = 1 << 30
	memoryMin      = 128 << 20
)

// sizes is how one shard divides its share of memory and how large its journal is, bytes.
type sizes struct {
	limit       int64 // everything
	pool        int64 // blocks, outside the Go heap
	heap        int64 // soft limit of the Go heap
	hot         int64 // placed tails that stay readable from memory
	journalFile int64 // of each file of the ring, when the directory is new
}

// divideMemory applies the defaults that depend on the host and refuses what does not fit.
func divideMemory(cfg Config) (sizes, error) {
	s := sizes{limit: cfg.MemoryLimit}
	if s.limit == 0 {
		s.limit = memoryAllowed() / 2
	}
	if s.limit < memoryMin {
		return s, fmt.Errorf("memory.limit: %d bytes; at least %d are needed", s.limit, memoryMin)
	}
	s.pool = s.limit / 4 * 3
	s.heap = s.limit - s.pool
	s.hot = min(s.pool/2, 1<<30)
	// One upload may hold a quarter of what is there: with less, a single record could starve every other connection.
	if cfg.MaxRecordBytes > s.pool/4 {
		return s, fmt.Errorf("limits.max_record: %d bytes is more than a quarter of the %d bytes of block memory; raise memory.limit", cfg.MaxRecordBytes, s.pool)
	}
	journal := cfg.JournalBytes
	if journal == 0 {
		journal = min(journalMax, s.limit/4)
	}
	if journal > s.limit/4 { // what is not placed yet stays in memory
		return s, fmt.Errorf("disk.journal: %d bytes is more than a quarter of memory.limit (%d)", journal, s.limit)
	}
	s.journalFile = max(journal/journalFiles/journalFileMin*journalFileMin, journalFileMin)
	return s, nil
}
