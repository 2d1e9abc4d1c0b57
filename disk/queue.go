package disk

// opQueue holds ops that were submitted and not started: first in, first out within a class, lower classes first.
// It is intrusive: an op is in one queue at most, and queueing allocates nothing.
type opQueue struct {
	lists [ClassCold + 1]struct{ first, last *Op }
	count int
}

func (q *opQueue) push(op *Op) {
	l := &q.lists[min(op.Class, ClassCold)] // a wrong class is refused later, by check
	op.state.next = nil
	if l.last == nil {
		l.first = op
	} else {
		l.last.state.next = op
	}
	l.last = op
	q.count++
}

// pop returns the oldest op of the lowest class that has one, or nil.
func (q *opQueue) pop() *Op {
	for c := range q.lists {
		if op := q.lists[c].first; op != nil {
			q.lists[c].first = op.state.next
			if op.state.next == nil {
				q.lists[c].last = nil
			}
			op.state.next = nil
			q.count--
			return op
		}
	}
	return nil
}
