package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/loop/block"
)

// readWindow reads files in large pieces and says which blocks of a piece could be read: a sector that the medium will
// not give back is damage of that block, not of the start.
//
// Whole pieces stay in memory while half of the pool is free: the scan reads the journal, replay wants it again, and a
// start is as long as its reading.
type readWindow struct {
	dev  Device
	pool *block.Pool
	own  *block.Block // what is read next goes here
	kept map[piece]*block.Block

	mem  *block.Block // own, or one of kept
	file File
	from Position
	n    int          // bytes of mem that are valid
	bad  map[int]bool // blocks of mem that could not be read
	read int64        // bytes, for the report
}

// piece is the place of a kept block in its file, counted in blocks of 1 MiB.
type piece struct {
	file File
	n    Position
}

func newReadWindow(dev Device, pool *block.Pool) (*readWindow, error) {
	mem := pool.Get(block.Size1M)
	if mem == nil {
		mem = pool.Get(block.Size256K)
	}
	if mem == nil {
		return nil, fmt.Errorf("disk: no memory to recover with: %d bytes; raise memory.limit", block.Size256K)
	}
	return &readWindow{dev: dev, pool: pool, own: mem, mem: mem, kept: make(map[piece]*block.Block)}, nil
}

func (w *readWindow) release() {
	w.own.Release()
	for _, mem := range w.kept {
		mem.Release()
	}
}

// load fills the window from pos of file. A short count means the end of the file.
func (w *readWindow) load(file File, pos Position, limit int) error {
	w.mem, w.file, w.from, w.n, w.bad = w.own, file, pos, 0, nil
	want := w.mem.Data[:min(limit, len(w.mem.Data))]
	op, err := do(w.dev, Op{Kind: OpRead, Class: ClassCold, File: file, Pos: pos, Data: [][]byte{want}})
	if err == nil {
		w.n = op.N
		w.read += int64(op.N)
		w.keep()
		return nil
	}
	if w.dev.InFlight() == 0 && op.Err == nil {
		return err // the device itself gave up
	}
	w.bad = make(map[int]bool)
	for at := 0; at < len(want); at += blockBytes {
		op, err := do(w.dev, Op{Kind: OpRead, Class: ClassCold, File: file, Pos: pos + Position(at), Data: [][]byte{want[at : at+blockBytes]}})
		switch {
		case op.Err != nil:
			w.bad[at/blockBytes] = true
			clear(want[at : at+blockBytes])
		case err != nil:
			return err
		case op.N == 0:
			return nil
		}
		w.n = at + blockBytes
	}
	return nil
}

// keep keeps the window if it is a whole piece.
func (w *readWindow) keep() {
	if w.n < block.Size1M || w.from%block.Size1M != 0 || w.pool.Room() < w.pool.Stats().Limit/2 {
		return
	}
	if next := w.pool.Get(block.Size1M); next != nil {
		w.kept[piece{w.file, w.from / block.Size1M}] = w.own
		w.own = next
	}
}

// find makes a kept piece the window.
func (w *readWindow) find(file File, pos Position) bool {
	mem := w.kept[piece{file, pos / block.Size1M}]
	if mem != nil {
		w.mem, w.file, w.from, w.n, w.bad = mem, file, pos/block.Size1M*block.Size1M, block.Size1M, nil
	}
	return mem != nil
}

// block returns block number n of file, nil when it cannot be read or lies behind the end.
func (w *readWindow) block(file File, n uint64, ahead uint64) ([]byte, error) {
	pos := Position(n * blockBytes)
	if (w.file != file || pos < w.from || pos+blockBytes > w.from+Position(w.n)) && !w.find(file, pos) {
		if err := w.load(file, pos, int(min(ahead*blockBytes, uint64(len(w.mem.Data))))); err != nil {
			return nil, err
		}
	}
	at := int(pos - w.from)
	if at+blockBytes > w.n || w.bad[at/blockBytes] {
		return nil, nil
	}
	return w.mem.Data[at : at+blockBytes], nil
}
