package disk

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/slipringmq/slipring/loop/block"
)

// fileMaker makes the files of the ring shortly before they are first needed, each written whole with zeros, so that
// later durable writes change no metadata. One step is in flight at a time, at low priority and durable by itself: it
// never leaves much for a journal flush to pay for (RULES 24, 29).
type fileMaker struct {
	j       *journal
	dir     string
	bytes   int64
	op      Op
	busy    bool
	target  uint64 // generation whose file is being made
	pos     int64  // written so far
	zeros   []byte
	mem     *block.Block
	err     error // of the last attempt
	now     int64 // of the last step
	retryAt int64
	next    func(*fileMaker) // what the op's completion leads to
}

// makeRetryNanos is how long a failed attempt (a full disk) rests.
const makeRetryNanos = 1e9

func (f *fileMaker) init(j *journal, cfg *Config) {
	f.j, f.dir, f.bytes = j, shardDir(cfg.Shard), cfg.JournalFileBytes
	f.op.Data = make([][]byte, 1)
	f.op.Done = func(op *Op) {
		op.Data[0] = nil
		f.next(f)
	}
}

// shardDir is the directory of a shard's journal and state, relative to the data directory.
func shardDir(shard int) string { return fmt.Sprintf("shard-%02d", shard) }

// journalPath names file number n of the ring.
func journalPath(shard, n int) string { return fmt.Sprintf("%s/journal-%d", shardDir(shard), n) }

// wanted is the first generation from the current one on whose file does not exist; 0: all do.
func (f *fileMaker) wanted() uint64 {
	current := f.j.at / f.j.perFile
	for g := current; g < current+uint64(len(f.j.files)); g++ {
		if !f.j.files[f.j.fileOf(g)].made {
			return g
		}
	}
	return 0
}

// step starts making a file when the one before it is half full, or has no room for the group that is next.
func (f *fileMaker) step(nowNanos int64) {
	if f.busy || f.j.failed != nil || nowNanos < f.retryAt {
		return
	}
	g := f.wanted()
	if g == 0 || g > f.j.durable.Dead+uint64(len(f.j.files)) { // a live generation lies there
		return
	}
	if f.j.at+f.j.perFile/2 < g*f.j.perFile && !f.j.waits() {
		return
	}
	f.now = nowNanos
	f.begin(g)
}

func (f *fileMaker) begin(g uint64) {
	f.busy, f.target, f.pos, f.err = true, g, 0, nil
	f.submit(OpCreate, (*fileMaker).created)
}

func (f *fileMaker) submit(kind OpKind, next func(*fileMaker)) {
	op := &f.op
	op.Kind, op.Class, op.Sync, op.Err, op.N = kind, ClassCold, true, nil, 0
	op.Path = fmt.Sprintf("%s/journal-%d", f.dir, f.j.fileOf(f.target))
	if kind == OpSyncDir {
		op.Path = f.dir
	}
	f.next = next
	f.j.dev.Submit(op)
}

func (f *fileMaker) created() {
	if errors.Is(f.op.Err, syscall.EEXIST) { // left by a start that did not finish it
		f.submit(OpOpen, (*fileMaker).opened)
		return
	}
	f.opened()
}

func (f *fileMaker) opened() {
	if f.op.Err != nil {
		f.end(f.op.Err)
		return
	}
	if f.mem = f.j.pool.Get(int(min(writeBytes, int64(sizeClass(int(f.bytes)))))); f.mem != nil {
		f.zeros = f.mem.Data
	} else {
		f.zeros = alignedHeap(blockBytes)
	}
	clear(f.zeros)
	f.op.Pos, f.op.Size = 0, f.bytes
	f.submit(OpAllocate, (*fileMaker).zero) // an error here is the write's to find
}

func (f *fileMaker) zero() {
	if f.op.Kind == OpWrite {
		if f.op.Err != nil {
			f.end(f.op.Err)
			return
		}
		f.pos += int64(f.op.N)
	}
	if f.pos >= f.bytes {
		f.submit(OpSync, (*fileMaker).synced)
		return
	}
	f.op.Pos = Position(f.pos)
	f.op.Data[0] = f.zeros[:min(int64(len(f.zeros)), f.bytes-f.pos)]
	f.submit(OpWrite, (*fileMaker).zero)
}

func (f *fileMaker) synced() {
	if f.op.Err != nil {
		f.end(f.op.Err)
		return
	}
	f.submit(OpSyncDir, func(f *fileMaker) { f.end(f.op.Err) })
}

// end takes the file into the ring, or closes what was opened.
func (f *fileMaker) end(err error) {
	if f.mem != nil {
		f.mem.Release()
	}
	f.mem, f.zeros = nil, nil
	n := f.j.fileOf(f.target)
	if err == nil {
		f.j.files[n] = journalFile{file: f.op.File, made: true}
		f.op.File, f.busy = 0, false
		if f.target <= uint64(len(f.j.files)) {
			f.j.now.Made = max(f.j.now.Made, uint16(f.target))
		}
		return
	}
	f.err, f.retryAt = fmt.Errorf("disk: %s/journal-%d: %w", f.dir, n, err), f.now+makeRetryNanos
	if f.op.File == 0 {
		f.busy = false
		return
	}
	f.submit(OpClose, func(f *fileMaker) { f.op.File, f.busy = 0, false })
}
