package disk

import (
	"fmt"
	"slices"

	"github.com/slipringmq/slipring/loop/block"
)

// stateLog is the one file with the snapshots of a shard's partitions, appended to at every checkpoint and written anew,
// aside, when half of it is dead (RULES 25).
//
// Records go to stream first; step cuts it into chunks and keeps one write in flight, each durable. A failed write is
// never repeated in place: the log is written anew.
type stateLog struct {
	dev   Device
	seed  uint32
	start uint64
	dir   string
	file  File
	end   int64  // where the next chunk goes
	live  int64  // bytes of the file when it was last written anew
	last  uint64 // number of the newest chunk submitted
	chain uint32
	// durable is the newest chunk that recovery is sure to find. It rests while the file is written anew.
	durable uint64
	flushed uint64 // what the next chunk says of the journal
	dead    uint64

	stream  []byte // records not yet submitted, from stream[head]
	head    int
	starts  []uint64 // positions where those records begin
	taken   uint64   // stream position: bytes submitted so far
	written uint64   // stream position: bytes durable so far

	mem      *block.Block
	buf      []byte
	op       Op
	busy     bool
	rewrites uint64
	err      error // the file takes no more chunks; it has to be written anew
	rewrite  stateRewrite
}

func newStateLog(cfg *Config, dev Device, pool *block.Pool) (*stateLog, error) {
	s := &stateLog{dev: dev, seed: journalSeed(cfg.DirectoryID, cfg.Shard), start: cfg.Start, dir: shardDir(cfg.Shard)}
	if s.mem = pool.Get(block.Size256K); s.mem == nil {
		return nil, fmt.Errorf("disk: no memory for the state log: %d bytes; raise memory.limit", block.Size256K)
	}
	s.buf = s.mem.Data
	s.op.Data = make([][]byte, 1)
	s.op.Done = s.opDone
	return s, nil
}

func (s *stateLog) release() {
	if s.mem != nil {
		s.mem.Release()
	}
	s.mem, s.buf = nil, nil
}

func (s *stateLog) path() string  { return s.dir + "/state" }
func (s *stateLog) aside() string { return s.dir + "/state.new" }

// position is where the next record begins in the stream; when written reaches the position behind a record, it is durable.
func (s *stateLog) position() uint64 { return s.taken + uint64(len(s.stream)-s.head) }

// pending is what waits to be submitted, bytes.
func (s *stateLog) pending() int { return len(s.stream) - s.head }

// record appends one record; fill, when not nil, appends the log's state and the machine's and returns where the first
// ends. It may change r's fields. Cost: no allocation once the stream has grown.
func (s *stateLog) record(r *stateRecord, fill func(r *stateRecord, dst []byte) (out []byte, logEnd int)) {
	if s.head > 0 && s.head == len(s.stream) {
		s.stream, s.head = s.stream[:0], 0
	}
	s.starts = append(s.starts, s.position())
	at := len(s.stream)
	var header [recordHeaderBytes]byte
	s.stream = append(s.stream, header[:]...)
	body := len(s.stream)
	logEnd := body
	if fill != nil {
		s.stream, logEnd = fill(r, s.stream)
	}
	putRecordHeader(s.stream[at:body], r, logEnd-body, len(s.stream)-logEnd)
}

// raw appends a whole record as it was once read.
func (s *stateLog) raw(p []byte) {
	if len(p) == 0 {
		return
	}
	s.starts = append(s.starts, s.position())
	s.stream = append(s.stream, p...)
}

// step submits the next chunk: a full one, or what there is when flush says so.
func (s *stateLog) step(flush bool) {
	if s.busy || s.err != nil || s.pending() == 0 || !flush && s.pending() < maxChunkBytes {
		return
	}
	n := min(s.pending(), maxChunkBytes)
	copy(s.buf[chunkHeaderBytes:], s.stream[s.head:s.head+n])
	c := chunkHeader{
		Length: uint32(n), First: noChunkFirst, Number: s.last + 1, Start: s.start,
		Flushed: s.flushed, Dead: s.dead, Chain: s.chain, Base: s.end == 0,
	}
	if len(s.starts) > 0 && s.starts[0] < s.taken+uint64(n) {
		c.First = uint32(s.starts[0] - s.taken)
	}
	c.seal(s.buf, s.seed)
	s.advance(n)
	clear(s.buf[chunkHeaderBytes+n : c.diskBytes()])
	s.last, s.chain = c.Number, c.CRC

	s.op.Kind, s.op.Class, s.op.Sync, s.op.Err = OpWrite, ClassTail, true, nil
	s.op.File, s.op.Pos = s.target(), Position(s.end)
	s.op.Data[0] = s.buf[:c.diskBytes()]
	s.end += c.diskBytes()
	s.busy = true
	s.dev.Submit(&s.op)
}

func (s *stateLog) target() File {
	if s.rewrite.on {
		return s.rewrite.file
	}
	return s.file
}

// advance takes n bytes off the stream, which moves down once half of it is used up.
func (s *stateLog) advance(n int) {
	s.taken += uint64(n)
	s.head += n
	gone := 0
	for gone < len(s.starts) && s.starts[gone] < s.taken {
		gone++
	}
	s.starts = slices.Delete(s.starts, 0, gone)
	if s.head > len(s.stream)/2 {
		s.stream = s.stream[:copy(s.stream, s.stream[s.head:])]
		s.head = 0
	}
}

func (s *stateLog) opDone(op *Op) {
	s.busy = false
	op.Data[0] = nil
	if op.Kind != OpWrite {
		s.rewriteDone(op)
		return
	}
	if op.Err != nil {
		s.err = fmt.Errorf("disk: %s: write of chunk %d: %w", s.path(), s.last, op.Err)
		s.drop()
		return
	}
	s.written = s.taken
	if !s.rewrite.on {
		s.durable = s.last
	}
}

// drop forgets what was not submitted: a log that is written anew takes all records again.
func (s *stateLog) drop() {
	s.stream, s.head, s.starts = s.stream[:0], 0, s.starts[:0]
}
