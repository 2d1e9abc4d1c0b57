package loop

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	// Moving down what is left, once at least as much is taken, costs each item one move at most.
	if q.head > 0 && 2*q.head >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// first is the oldest item; the queue is not empty.
func (q *fifo[T]) first() T { return q.items[q.head] }

func (q *fifo[T]) pop() T {
	v := q.items[q.head]
	q.head++
	return v
}
