package disk

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
)

// Requests from pinned memory carry the same bytes to the same place as others, in any part of a chunk, and requests of
// several pieces or from other memory still work beside them.
func TestPinnedMemoryIsWrittenAndRead(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ring, err := uring.New(uring.Config{Entries: 64})
	if err != nil {
		t.Fatal(err)
	}
	pool := block.NewPool(8 << 20)
	if err := pool.Register(ring); err != nil {
		t.Fatal(err)
	}
	pinned := 0
	d, err := NewUring(ring, t.TempDir(), UringOptions{Registered: func(p []byte) int {
		i := pool.RegisteredAt(p)
		if i >= 0 {
			pinned++
		}
		return i
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(d.Close(), ring.Close()); err != nil {
			t.Error(err)
		}
	}()
	var blocks []*block.Block
	for _, size := range []int{block.Size4K, block.Size1M, block.Size64K, block.Size1M, block.Size256K} {
		blocks = append(blocks, pool.Get(size))
	}
	file := must(t, d, Op{Kind: OpCreate, Path: "fixed"}).File
	at := Position(0)
	var want []byte
	for i, b := range blocks {
		for j := range b.Data {
			b.Data[j] = byte(i*37 + j>>8)
		}
		half := len(b.Data) / 2 &^ 4095
		must(t, d, Op{Kind: OpWrite, File: file, Sync: true, Pos: at, Data: [][]byte{b.Data[half:]}})
		want = append(want, b.Data[half:]...)
		at += Position(len(b.Data) - half)
	}
	if pinned != len(blocks) {
		t.Errorf("%d of %d writes went from pinned memory", pinned, len(blocks))
	}
	two := [][]byte{blocks[0].Data, blocks[2].Data[:4096]}
	must(t, d, Op{Kind: OpWrite, File: file, Sync: true, Pos: at, Data: two})
	want = append(append(want, two[0]...), two[1]...)

	var got []byte
	for pos, piece := 0, blocks[1].Data; pos < len(want); pos += len(piece) {
		clear(piece)
		op := must(t, d, Op{Kind: OpRead, File: file, Pos: Position(pos), Data: [][]byte{piece}})
		got = append(got, piece[:op.N]...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, not the %d written", len(got), len(want))
	}
}
