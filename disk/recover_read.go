package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/loop/block"
)

// readWindow reads files in large pieces and says which blocks of a piece could be read: a sector that the medium will
// not give back is damage of that block, not of the start.
type readWindow struct {
	dev  Device
	mem  *block.Block
	file File
	from Position
	n    int          // bytes of mem that are valid
	bad  map[int]bool // blocks of mem that could not be read
	read int64        // bytes, for the report
}

func newReadWindow(dev Device, pool *block.Pool) (*readWindow, error) {
	mem := pool.Get(block.Size1M)
	if mem == nil {
		mem = pool.Get(block.Size256K)
	}
	if mem == nil {
		return nil, fmt.Errorf("disk: no memory to recover with: %d bytes; raise memory.limit", block.Size256K)
	}
	return &readWindow{dev: dev, mem: mem}, nil
}

func (w *readWindow) release() { w.mem.Release() }

// load fills the window from pos of file. A short count means the end of the file.
func (w *readWindow) load(file File, pos Position, limit int) error {
	w.file, w.from, w.n, w.bad = file, pos, 0, nil
	want := w.mem.Data[:min(limit, len(w.mem.Data))]
	op, err := do(w.dev, Op{Kind: OpRead, Class: ClassCold, File: file, Pos: pos, Data: [][]byte{want}})
	if err == nil {
		w.n = op.N
		w.read += int64(op.N)
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

// block returns block number n of file, nil when it cannot be read or lies behind the end.
func (w *readWindow) block(file File, n uint64, ahead uint64) ([]byte, error) {
	pos := Position(n * blockBytes)
	if w.file != file || pos < w.from || pos+blockBytes > w.from+Position(w.n) {
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
