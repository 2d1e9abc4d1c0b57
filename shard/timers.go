package shard

// timer is a place in time that its owner embeds; the zero value is not set.
type timer struct {
	at    int64 // monotonic nanoseconds
	place int   // in the heap, from 1; 0: not set
	fire  func()
}

// timers is a heap of the set ones, so that one that is no longer needed costs nothing until its time.
type timers struct{ heap []*timer }

// set arms t, anew if it is armed.
func (h *timers) set(t *timer, at int64) {
	if t.place == 0 {
		h.heap = append(h.heap, t)
		t.place = len(h.heap)
	}
	t.at = at
	h.up(t.place)
	h.down(t.place)
}

// clear disarms t.
func (h *timers) clear(t *timer) {
	if t.place == 0 {
		return
	}
	place, last := t.place, len(h.heap)
	h.swap(place, last)
	h.heap[last-1] = nil
	h.heap = h.heap[:last-1]
	t.place = 0
	if place < last {
		h.up(place)
		h.down(place)
	}
}

// next is the earliest time set, 0 when none is.
func (h *timers) next() int64 {
	if len(h.heap) == 0 {
		return 0
	}
	return h.heap[0].at
}

// run fires at most most timers that are due at now.
func (h *timers) run(now int64, most int) {
	for ; most > 0 && len(h.heap) > 0 && h.heap[0].at <= now; most-- {
		t := h.heap[0]
		h.clear(t)
		t.fire()
	}
}

func (h *timers) up(i int) {
	for i > 1 && h.heap[i-1].at < h.heap[i/2-1].at {
		h.swap(i, i/2)
		i /= 2
	}
}

func (h *timers) down(i int) {
	for {
		least := i
		for child := 2 * i; child <= 2*i+1 && child <= len(h.heap); child++ {
			if h.heap[child-1].at < h.heap[least-1].at {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *timers) swap(i, j int) {
	a, b := h.heap[i-1], h.heap[j-1]
	h.heap[i-1], h.heap[j-1] = b, a
	a.place, b.place = j, i
}
