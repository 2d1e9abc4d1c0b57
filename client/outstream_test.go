package client

import (
	"bytes"
	"testing"

	"github.com/slipringmq/slipring/frame"
)

// writes notes what a stream is given, write by write.
type writes struct {
	all   bytes.Buffer
	sizes []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.all.Write(p)
}

// A large batch goes in writes small enough to count as signs of life, and its bytes stay as they are.
func TestLargeBodiesGoInBoundedWrites(t *testing.T) {
	o := newOutstream()
	body := noise(frame.MaxPayload)
	var want []byte
	for id := range uint64(3) {
		head := []byte{byte(id)}
		o.add(frame.CmdProduce, 0, id, head, body[1:], nil, nil)
		o.add(frame.CmdPing, 0, id, nil, nil, nil, nil)
		want = append(append(frame.AppendHeader(want, frame.CmdProduce, 0, id, len(body)), head...), body[1:]...)
		want = frame.AppendHeader(want, frame.CmdPing, 0, id, 0)
	}
	var w writes
	if err := o.flush(&w); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.all.Bytes(), want) {
		t.Fatal("other bytes came out than went in")
	}
	for _, n := range w.sizes {
		if n > writeBytes {
			t.Fatalf("a write of %d bytes, at most %d", n, writeBytes)
		}
	}
	if n, full := o.taken.Load(), int64(len(want)/writeBytes); n != full {
		t.Fatalf("%d signs of life in %d bytes, want %d", n, len(want), full)
	}
}
