package uring

import "sync/atomic"

// Dispatch hands the completions that are here now to their handlers, in order, and returns how many. Those that arrive
// meanwhile wait for the next call, so a turn is bounded by the size of the completion queue.
func (r *Ring) Dispatch() int {
	n := len(r.backlog) - r.taken + int(atomic.LoadUint32(r.kCQTail)-r.cqHead)
	for range n {
		c := r.next()
		if fn := r.handlers[c.userData>>tokenBits]; fn != nil {
			fn(c.userData&(1<<tokenBits-1), c.result, c.flags)
		}
	}
	r.publish()
	r.stats.Completed += uint64(n)
	return n
}

// next takes one completion. A handler may have moved the rest to the backlog in the meantime; the order stays.
func (r *Ring) next() cqe {
	if r.taken < len(r.backlog) {
		c := r.backlog[r.taken]
		r.taken++
		if r.taken == len(r.backlog) {
			r.backlog, r.taken = r.backlog[:0], 0
		}
		return c
	}
	c := r.cqes[r.cqHead&r.cqMask]
	r.cqHead++
	return c
}

// stash makes the completion queue empty without dispatching: a handler may be on the stack.
func (r *Ring) stash() {
	for tail := atomic.LoadUint32(r.kCQTail); r.cqHead != tail; r.cqHead++ {
		r.backlog = append(r.backlog, r.cqes[r.cqHead&r.cqMask])
	}
	r.publish()
}

// publish lets the kernel reuse the slots of completions that were copied out.
func (r *Ring) publish() {
	if *r.kCQHead != r.cqHead {
		atomic.StoreUint32(r.kCQHead, r.cqHead)
	}
}
