package block

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

var sizes = []int{Size4K, Size64K, Size256K, Size1M}

func TestBlocksAreAlignedAndWhole(t *testing.T) {
	p := NewPool(8 << 20)
	for _, size := range sizes {
		b := p.Get(size)
		if b == nil || len(b.Data) != size || cap(b.Data) != size {
			t.Fatalf("Get(%d) = %v", size, b)
		}
		if at := uintptr(unsafe.Pointer(&b.Data[0])); at%Align != 0 {
			t.Errorf("block of %d starts at %#x", size, at)
		}
		b.Release()
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGetForTakesTheSmallestSize(t *testing.T) {
	p := NewPool(8 << 20)
	for n, want := range map[int]int{0: Size4K, 1: Size4K, Size4K: Size4K, Size4K + 1: Size64K, Size1M: Size1M} {
		b := p.GetFor(n)
		if len(b.Data) != want {
			t.Errorf("GetFor(%d) has %d bytes, want %d", n, len(b.Data), want)
		}
		b.Release()
	}
	if b := p.GetFor(Size1M + 1); b != nil {
		t.Error("GetFor above 1 MiB gave a block")
	}
}

func TestPoolNeverMapsMoreThanItsLimit(t *testing.T) {
	const limit = 4 << 20
	p := NewPool(limit + 4096) // rounded down
	var out []*Block
	for b := p.Get(Size64K); b != nil; b = p.Get(Size64K) {
		out = append(out, b)
	}
	if got := len(out) * Size64K; got != limit {
		t.Fatalf("got %d bytes out of %d", got, limit)
	}
	if p.Get(Size4K) != nil || p.Room() != 0 {
		t.Fatal("a full pool gave another block")
	}
	out[0].Release()
	if b := p.Get(Size64K); b != out[0] {
		t.Fatal("a released block did not come back first")
	}
	if s := p.Stats(); s.Mapped != limit || s.InUse != limit || s.Limit != limit {
		t.Fatalf("stats %+v", s)
	}
}

// Memory of one size must be usable for another once it is free: a burst of small replies may not starve bulk.
func TestFreeChunksChangeTheirSize(t *testing.T) {
	p := NewPool(2 << 20)
	for round := range 3 {
		for _, size := range sizes {
			var out []*Block
			for b := p.Get(size); b != nil; b = p.Get(size) {
				out = append(out, b)
			}
			if got := len(out) * size; got != 2<<20 {
				t.Fatalf("round %d, size %d: only %d bytes", round, size, got)
			}
			for _, b := range out {
				b.Release()
			}
		}
	}
}

func TestTwoHoldersNeverShareBytes(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	p := NewPool(16 << 20)
	type held struct {
		b   *Block
		tag byte
	}
	var out []held
	for step := range 20_000 {
		if rnd.IntN(2) == 0 || len(out) == 0 {
			if b := p.Get(sizes[rnd.IntN(len(sizes))]); b != nil {
				h := held{b, byte(step)}
				b.Data[0], b.Data[len(b.Data)-1] = h.tag, h.tag
				out = append(out, h)
			}
			continue
		}
		i := rnd.IntN(len(out))
		h := out[i]
		if h.b.Data[0] != h.tag || h.b.Data[len(h.b.Data)-1] != h.tag {
			t.Fatalf("seed %d step %d: bytes of a held block changed", seed, step)
		}
		h.b.Release()
		out[i] = out[len(out)-1]
		out = out[:len(out)-1]
	}
	for _, h := range out {
		h.b.Release()
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLastHolderGivesTheBlockBack(t *testing.T) {
	p := NewPool(1 << 20)
	b := p.Get(Size1M)
	b.Retain()
	b.Release()
	if p.Get(Size1M) != nil {
		t.Fatal("a block with a holder was given out")
	}
	if err := p.Close(); err == nil {
		t.Fatal("Close accepted a block that is still out")
	}
	b.Release()
	mustPanic(t, "double release", b.Release)
	mustPanic(t, "retain after release", func() { b.Retain() })
}

func TestReleasedBytesArePoisoned(t *testing.T) {
	if !Invariants {
		t.Skip("needs -tags invariants")
	}
	p := NewPool(1 << 20)
	b := p.Get(Size4K)
	copy(b.Data, "secret")
	b.Release()
	if string(b.Data[:6]) == "secret" {
		t.Fatal("released bytes are still readable")
	}
}

func TestWarmPoolAllocatesNothing(t *testing.T) {
	p := NewPool(4 << 20)
	var out [40]*Block
	cycle := func() {
		for i := range out {
			out[i] = p.Get(Size64K)
		}
		for i := range out {
			out[i].Release()
		}
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

type registrar struct {
	room    int
	failAt  int
	buffers map[int][]byte
}

func (r *registrar) RegisterSparse(n int) error { r.room = n; return nil }

func (r *registrar) UpdateBuffer(i int, p []byte) error {
	if i >= r.failAt {
		return errors.New("no memory to lock")
	}
	r.buffers[i] = p
	return nil
}

func TestRegistrationFollowsGrowthAndMayStop(t *testing.T) {
	p := NewPool(4 << 20)
	first := p.Get(Size1M)
	r := &registrar{failAt: 2, buffers: map[int][]byte{}}
	if err := p.Register(r); err != nil || r.room != 4 {
		t.Fatalf("Register: %v, room %d", err, r.room)
	}
	for want, b := range []*Block{first, p.Get(Size1M), p.Get(Size1M)} {
		if want == 2 {
			want = -1 // the ring refused to pin more
		}
		for _, piece := range [][]byte{b.Data, b.Data[:1], b.Data[Size1M-1:], b.Data[4096:8192]} {
			if got := p.RegisteredAt(piece); got != want {
				t.Errorf("a piece of %d bytes has index %d, want %d", len(piece), got, want)
			}
		}
		if want >= 0 && &r.buffers[want][0] != &b.Data[0] {
			t.Errorf("index %d names other memory", want)
		}
	}
	if got := p.RegisteredAt(make([]byte, 4096)); got != -1 {
		t.Errorf("foreign memory has index %d", got)
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}
