package shard

// ring is a first-in first-out queue that grows and allocates nothing once it has. The zero value is empty.
type ring[T any] struct {
	slots []T // length is a power of two
	head  uint
	n     int
}

const ringLeast = 8

func (r *ring[T]) len() int { return r.n }

// at is the i-th from the front, valid until the next push.
func (r *ring[T]) at(i int) *T { return &r.slots[(r.head+uint(i))&uint(len(r.slots)-1)] }

func (r *ring[T]) push(v T) {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.n++
	*r.at(r.n - 1) = v
}

// pop drops the front and returns it.
func (r *ring[T]) pop() T {
	v := *r.at(0)
	r.head++
	r.n--
	return v
}

// cut keeps the first n.
func (r *ring[T]) cut(n int) { r.n = n }

func (r *ring[T]) grow() {
	slots := make([]T, max(2*len(r.slots), ringLeast))
	for i := range r.n {
		slots[i] = *r.at(i)
	}
	r.slots, r.head = slots, 0
}
