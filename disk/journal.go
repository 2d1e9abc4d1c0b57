package disk

import (
	"fmt"
	"slices"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/loop/block"
)

// journal is the one write-ahead log of a shard: a ring of files, written in commit groups, one in flight.
//
// A block's place is one number that never falls: generation × blocks of a file + number in the file. The next group
// goes to `at`. A place may be written when the generation that lay there before is dead by a mark that is itself
// durable, and its file was made, by a mark that is durable too: see limit.
//
// Thread: the shard's. Memory: images are reserved at Open, so that acks and the checkpoint never wait for memory that
// produce holds.
type journal struct {
	dev     Device
	pool    *block.Pool
	seed    uint32
	start   uint64
	perFile uint64 // blocks of a file
	files   []journalFile

	at    uint64 // place of the next block
	group uint64 // number of the next group
	chain uint32 // CRC of the block before at

	flushed uint64 // last group on stable media
	now     marks  // what the next group will say; now.Flushed and now.Placed are set when it is submitted
	durable marks  // what the last flushed group said

	image  *image   // being filled
	queue  []*image // full, in order
	flying *image
	free   []*image
	spare  int // images beyond the reserve

	imageBytes  int // of memory
	imageBlocks int // that a group may have
	staged      int // bytes of entries in image and queue
	entry       [entryHeaderBytes]byte

	ops     []Op
	failed  error
	landed  func(*image) // the flight is over: image is flushed, or failed is set
	maker   fileMaker
	written int64 // bytes submitted, for Stats
	groups  uint64
}

// journalFile is one file of the ring.
type journalFile struct {
	file File
	made bool
}

// writeBytes is the greatest single request (RULES 24).
const writeBytes = 256 << 10

func newJournal(cfg *Config, dev Device, pool *block.Pool) *journal {
	j := &journal{
		dev: dev, pool: pool,
		seed:        journalSeed(cfg.DirectoryID, cfg.Shard),
		start:       cfg.Start,
		perFile:     uint64(cfg.JournalFileBytes / blockBytes),
		files:       make([]journalFile, cfg.JournalFiles),
		imageBlocks: cfg.GroupBytes / blockBytes,
		imageBytes:  sizeClass(cfg.GroupBytes),
		queue:       make([]*image, 0, cfg.StagedBytes/cfg.GroupBytes+4),
		landed:      func(*image) {},
	}
	pieces := cfg.GroupBytes/writeBytes + int(uint64(j.imageBlocks)/j.perFile) + 3
	j.ops = make([]Op, pieces)
	for i := range j.ops {
		j.ops[i].Data = make([][]byte, 1)
		j.ops[i].Done = j.pieceDone
	}
	j.maker.init(j, cfg)
	return j
}

// sizeClass is the smallest block size of the pool that holds n bytes.
func sizeClass(n int) int {
	for _, size := range []int{block.Size4K, block.Size64K, block.Size256K} {
		if n <= size {
			return size
		}
	}
	return block.Size1M
}

// reserve takes the images for everything that may be staged at once, plus the one in flight.
func (j *journal) reserve(stagedBytes int) error {
	n := (stagedBytes+j.imageBytes-1)/j.imageBytes + 2
	for range n {
		m := j.newImage()
		if m.mem == nil {
			j.release()
			return fmt.Errorf("disk: no memory for the journal: %d images of %d bytes; raise memory.limit", n, j.imageBytes)
		}
		j.free = append(j.free, m)
	}
	j.image = j.takeImage()
	return nil
}

func (j *journal) newImage() *image {
	m := &image{limit: j.imageBlocks, touched: make([]touch, 0, 256)}
	if m.mem = j.pool.Get(j.imageBytes); m.mem != nil {
		m.data = m.mem.Data[:j.imageBlocks*blockBytes]
	}
	return m
}

// takeImage returns an empty image. Beyond the reserve it takes from the pool, and at last from the heap: what a
// partition held back behind a direct write was admitted long ago and must find a place.
func (j *journal) takeImage() *image {
	if n := len(j.free); n > 0 {
		m := j.free[n-1]
		j.free = j.free[:n-1]
		return m
	}
	m := j.newImage()
	if m.mem == nil {
		m.data = alignedHeap(j.imageBlocks * blockBytes)
	}
	j.spare++
	return m
}

// giveImage takes an image back; one beyond the reserve goes for good.
func (j *journal) giveImage(m *image) {
	m.reset()
	if j.spare == 0 {
		j.free = append(j.free, m)
		return
	}
	j.spare--
	m.drop()
}

func (m *image) drop() {
	if m.mem != nil {
		m.mem.Release()
	}
	m.mem, m.data = nil, nil
}

// release gives all memory back. Nothing is in flight.
func (j *journal) release() {
	for _, m := range slices.Concat(j.free, j.queue, []*image{j.image, j.flying}) {
		if m != nil {
			m.drop()
		}
	}
	j.free, j.queue, j.image, j.flying = nil, nil, nil, nil
}

// stage copies one entry into the group that is being filled. It always succeeds: room was asked before.
// Cost: one copy and one CRC, no allocation while the reserve lasts.
func (j *journal) stage(l *Log, k Key, kind Kind, index, epoch uint64, parts [3][]byte) {
	putEntryHeader(j.entry[:], k, kind, index, epoch, parts)
	n := entryHeaderBytes + len(parts[0]) + len(parts[1]) + len(parts[2])
	if j.image.room() < n {
		j.queue = append(j.queue, j.image)
		j.image = j.takeImage()
	}
	j.image.put(j.entry[:], parts, k == Meta)
	j.staged += n
	l.member.stagedIn(j.image, l, index)
}

// limit is the first place that must not be written yet.
func (j *journal) limit() uint64 {
	last := j.durable.Dead + uint64(len(j.files)) // generation
	if fault.On(fault.Rule03ReuseUndeclared) {
		last = j.at/j.perFile + 1
	}
	if made := uint64(j.durable.Made); made < uint64(len(j.files)) {
		last = made
	}
	g := j.at / j.perFile
	for g <= last && j.files[j.fileOf(g)].made {
		g++
	}
	return g * j.perFile
}

// ringBlocks is the size of the ring in blocks.
func (j *journal) ringBlocks() uint64 { return uint64(len(j.files)) * j.perFile }

// used is how many blocks of the ring hold live generations.
func (j *journal) used() uint64 {
	if fault.On(fault.Rule03ReuseUndeclared) {
		return 0
	}
	return j.at - (j.durable.Dead+1)*j.perFile
}

// stagedBlocks estimates from above what the staged entries will take.
func (j *journal) stagedBlocks() uint64 {
	return uint64(j.staged/blockBodyBytes + len(j.queue) + 1)
}

// next says whether a group with entries can be submitted now. Two blocks stay free in any case: a group of one block
// that carries the dead mark is what makes room again.
func (j *journal) next() *image {
	if j.flying != nil || j.failed != nil {
		return nil
	}
	m := j.image
	if len(j.queue) > 0 {
		m = j.queue[0]
	}
	if m.entries == 0 || j.at+uint64(m.blocks)+2 > j.limit() {
		return nil
	}
	return m
}

// waits says whether the next group does not fit below the limit.
func (j *journal) waits() bool {
	m := j.image
	if len(j.queue) > 0 {
		m = j.queue[0]
	}
	return m.entries > 0 && j.at+uint64(m.blocks)+2 > j.limit()
}

// submit sends the oldest staged group; next was not nil.
func (j *journal) submit() {
	m := j.image
	if len(j.queue) > 0 {
		m = j.queue[0]
		j.queue = slices.Delete(j.queue, 0, 1)
	} else {
		j.image = j.takeImage()
	}
	bytes := 0
	for b := range m.blocks {
		bytes += len(m.body(b))
	}
	j.staged -= bytes
	j.send(m)
}

// canMark says whether a group without entries can be submitted.
func (j *journal) canMark() bool {
	return j.flying == nil && j.failed == nil && (j.at+1 <= j.limit() || j.saysItself())
}

// saysItself: the file before has no block left to say that the next one is made, so its own first block says so itself.
func (j *journal) saysItself() bool {
	g := j.at / j.perFile
	return j.at == j.limit() && g == uint64(j.durable.Made)+1 && g <= uint64(len(j.files)) && j.files[j.fileOf(g)].made
}

// submitMarks sends a group of one empty block, only to carry the marks; canMark was true.
func (j *journal) submitMarks() { j.send(j.takeImage()) }

func (j *journal) send(m *image) {
	j.now.Flushed, j.now.Placed = j.flushed, j.flushed
	m.group, m.marks = j.group, j.now
	m.generation = j.at / j.perFile
	j.chain = m.seal(j.seed, j.chain, j.start, j.at, j.perFile)
	j.group++
	j.groups++
	j.flying = m
	j.write(m)
	for i := range m.touched {
		m.touched[i].log.member.submitted(m.touched[i].index, m.group, m.generation, (j.at-1)/j.perFile)
	}
}

// write submits the image in pieces that neither cross a file nor exceed writeBytes, each durable by itself.
func (j *journal) write(m *image) {
	first := j.at
	j.at += uint64(m.blocks)
	m.pieces = 0
	for b := 0; b < m.blocks; {
		place := first + uint64(b)
		n := min(m.blocks-b, writeBytes/blockBytes, int(j.perFile-place%j.perFile))
		op := &j.ops[m.pieces]
		op.Kind, op.Class, op.Sync = OpWrite, ClassJournal, true
		op.File = j.files[j.fileOf(place/j.perFile)].file
		op.Pos = Position(place % j.perFile * blockBytes)
		op.Data[0] = m.data[b*blockBytes : (b+n)*blockBytes]
		op.Err, op.N = nil, 0
		m.pieces++
		b += n
	}
	j.written += int64(m.blocks) * blockBytes
	for i := range m.pieces {
		j.dev.Submit(&j.ops[i])
	}
}

func (j *journal) fileOf(generation uint64) int { return int(generation % uint64(len(j.files))) }

func (j *journal) pieceDone(op *Op) {
	m := j.flying
	if op.Err != nil && m.err == nil {
		m.err = op.Err
	}
	op.Data[0] = nil
	if m.pieces--; m.pieces > 0 {
		return
	}
	j.flying = nil
	if m.err != nil {
		// Never retried: after a failed flush nobody knows what is on the medium.
		j.failed = fmt.Errorf("disk: journal: write of commit group %d: %w; acknowledging nothing more, restart to recover", m.group, m.err)
	} else {
		j.flushed, j.durable = m.group, m.marks
	}
	j.landed(m)
	j.giveImage(m)
}
