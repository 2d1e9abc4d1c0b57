package disk

import "github.com/slipringmq/slipring/loop/block"

// logShare is what the logs of one shard have in common: memory, the budget of hot bytes, the queue of what is to be
// placed, open files, loaded indexes, and free lists that make the warm paths allocate nothing.
type logShare struct {
	s    *Store
	dev  Device
	pool *block.Pool

	memoryReserve int // bytes of the pool that appends and reads leave to journal and replies

	hot      hotBlocks
	placer   placer
	files    openFiles
	indexes  loadedIndexes
	interval intervals

	freeTails   []*tailBlock
	freeExtents []*extent
	freeWrites  []*tailWrite
	freeReads   []*coldRead

	scratch     [referenceBytes]byte // payload head of the entry being staged
	directBytes int                  // of direct batches whose entries are not staged yet
	heldBytes   int                  // of entries held back behind them; they count as staged
	closing     bool
	closed      func() // called once nothing of the logs is under way and their files are closed
	squeeze     bool   // replay is out of memory: whatever fills a block is written
	replayed    []*Log // logs that replay has given bytes to

	stats LogStats
}

// LogStats are counters of all logs of a shard since its start. Bytes include padding.
type LogStats struct {
	PlacedBytes, DirectBytes uint64 // written to segments by the placer, and data first
	HotBytes                 int64  // blocks that hold placed batches
	ColdReads                uint64
	IndexLoads, IndexScans   uint64 // sparse indexes read, and rebuilt from their segment
	Damages                  uint64 // reads that found damage
	Replaced                 uint64 // segments given up after a failed write
	OpenFiles                int
}

func newLogShare(s *Store) *logShare {
	sh := &logShare{s: s, dev: s.dev, pool: s.pool}
	sh.memoryReserve = min(s.pool.Stats().Limit/8, 4<<20)
	sh.hot.limit = s.cfg.HotBytes
	return sh
}

// memory is a block for a tail or a read; hot blocks go, oldest first, when there is no other.
func (sh *logShare) memory(size int) *block.Block {
	for {
		st := sh.pool.Stats()
		if st.Limit-st.InUse-size >= sh.memoryReserve {
			if b := sh.pool.Get(size); b != nil {
				return b
			}
		}
		if !sh.hot.evictOldest() {
			return nil
		}
	}
}

func (sh *logShare) newBlock(l *Log, mem *block.Block, from address) *tailBlock {
	b := pop(&sh.freeTails)
	b.mem, b.log, b.from = mem, l, from
	return b
}

func (sh *logShare) freeBlock(b *tailBlock) {
	sh.cool(b)
	b.mem.Release()
	*b = tailBlock{}
	sh.freeTails = append(sh.freeTails, b)
}

// cool takes b out of the hot blocks, if it is one.
func (sh *logShare) cool(b *tailBlock) {
	if b.hot {
		sh.hot.remove(b)
	}
}

// endTurn starts the flushes of interval logs that are due. It returns when it wants to run again, 0 for never.
func (sh *logShare) endTurn(monoNanos int64) (wakeAt int64) {
	wakeAt = sh.interval.run(monoNanos)
	sh.placer.run(sh)
	if sh.closed != nil && sh.dev.InFlight() == 0 {
		sh.endClose()
	}
	return wakeAt
}

// close ends all logs: no call into them may follow but endTurn, from which done comes, or from the device.
func (sh *logShare) close(done func()) {
	sh.closing, sh.closed = true, done
	if sh.dev.InFlight() == 0 {
		sh.endClose()
	}
}

func (sh *logShare) endClose() {
	done := sh.closed
	sh.closed = nil
	sh.files.closeAll(func() {
		for _, l := range sh.s.order {
			l.releaseTail()
		}
		done()
	})
}

// pop takes the last of a free list, or makes a new one.
func pop[T any](free *[]*T) *T {
	n := len(*free)
	if n == 0 {
		return new(T)
	}
	v := (*free)[n-1]
	(*free)[n-1] = nil
	*free = (*free)[:n-1]
	return v
}

// hotBlocks bounds the placed bytes that stay in memory. Blocks are charged whole and go oldest placed first, over all
// logs of the shard; within a log that is the order of its tail.
type hotBlocks struct {
	oldest, newest *tailBlock
	bytes, limit   int64
}

func (h *hotBlocks) add(b *tailBlock) {
	b.hot, b.older = true, h.newest
	if h.newest != nil {
		h.newest.newer = b
	} else {
		h.oldest = b
	}
	h.newest = b
	h.bytes += int64(len(b.mem.Data))
}

// shrink evicts down to the limit. It is not part of add, whose caller walks over the blocks of a tail.
func (h *hotBlocks) shrink() {
	for h.bytes > h.limit && h.evictOldest() {
	}
}

func (h *hotBlocks) remove(b *tailBlock) {
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		h.oldest = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		h.newest = b.older
	}
	b.hot, b.older, b.newer = false, nil, nil
	h.bytes -= int64(len(b.mem.Data))
}

func (h *hotBlocks) evictOldest() bool {
	if h.oldest == nil {
		return false
	}
	h.oldest.log.evictFirst()
	return true
}
