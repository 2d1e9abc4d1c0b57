package block

import "testing"

// After Reclaim the pool can give everything again, in any size, whatever was out.
func TestReclaimTakesEverythingBack(t *testing.T) {
	p := NewPool(4 << 20)
	for round := range 3 {
		for _, size := range []int{Size4K, Size64K, Size1M, Size256K} {
			if p.Get(size) == nil {
				t.Fatalf("round %d: nothing of %d bytes", round, size)
			}
		}
		p.Reclaim()
		if st := p.Stats(); st.InUse != 0 || p.Room() != 4<<20 {
			t.Fatalf("round %d: %+v, room %d", round, st, p.Room())
		}
	}
	var out []*Block
	for range 4 {
		if b := p.Get(Size1M); b != nil {
			out = append(out, b)
		}
	}
	if len(out) != 4 {
		t.Fatalf("%d blocks of 1 MiB, want 4", len(out))
	}
	for _, b := range out {
		b.Release()
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
