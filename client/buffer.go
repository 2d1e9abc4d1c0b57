package client

import (
	"sync"
	"sync/atomic"
)

// buffer holds the bytes of one batch. It is shared by the producer, which may have to send it again, and by connections
// that still have it in their queue; it goes back to the pool when the last one lets go.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

// Larger buffers are left to the garbage collector, so that one large record does not stay for ever.
const pooledBufferMax = 1<<20 + 4<<10

var bufferPool = sync.Pool{New: func() any { return new(buffer) }}

// newBuffer gives an empty buffer with one reference.
func newBuffer() *buffer {
	f := bufferPool.Get().(*buffer)
	f.b = f.b[:0]
	f.refs.Store(1)
	return f
}

func (f *buffer) retain() { f.refs.Add(1) }

func (f *buffer) release() {
	if f.refs.Add(-1) == 0 && cap(f.b) <= pooledBufferMax {
		bufferPool.Put(f)
	}
}
