package disk

import (
	"errors"
	"hash/crc32"
	"syscall"
)

const traceStart = 0x9e3779b97f4a7c15

// traceTable is the one with a machine instruction.
var traceTable = crc32.MakeTable(crc32.Castagnoli)

// simTrace fingerprints what went in and out, so that two runs can be compared by one number.
type simTrace struct {
	hash uint64
	seq  uint64
}

func (t *simTrace) next() uint64 {
	t.seq++
	return t.seq
}

// mix folds v into the hash; order matters.
func (t *simTrace) mix(v uint64) {
	h := (t.hash ^ v) * 0xff51afd7ed558ccd
	t.hash = h ^ h>>32
}

func (t *simTrace) submitted(op *Op) {
	sync := uint64(0)
	if op.Sync {
		sync = 1
	}
	t.mix(uint64(op.Kind) | uint64(op.Class)<<8 | sync<<16 | uint64(op.File)<<32)
	t.mix(uint64(op.Pos))
	t.mix(uint64(op.Size))
	t.text(op.Path)
	t.text(op.NewPath)
	if op.Kind == OpWrite {
		t.data(op.Data)
	}
}

func (t *simTrace) completed(op *Op, err error) {
	t.mix(op.state.sim.seq)
	t.mix(uint64(op.N))
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		t.mix(uint64(errno))
	}
	switch op.Kind {
	case OpRead:
		t.data(op.Data)
	case OpList:
		for _, n := range op.Names {
			t.text(n)
		}
	}
}

func (t *simTrace) text(s string) {
	if s != "" {
		t.mix(uint64(crc32.Checksum([]byte(s), traceTable)) | uint64(len(s))<<32)
	}
}

func (t *simTrace) data(d [][]byte) {
	for _, p := range d {
		t.mix(uint64(crc32.Checksum(p, traceTable)) | uint64(len(p))<<32)
	}
}
