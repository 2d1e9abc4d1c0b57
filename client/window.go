package client

import "sync"

// window bounds the bytes of produce requests that are unanswered on one connection, as HELLO asked. A request larger than
// the window goes when it is alone.
type window struct {
	mu      sync.Mutex
	max     int
	used    int
	waiting []chan struct{} // woken once when bytes come back
}

// take reserves n bytes. When there is no room it reports false and will wake the given channel, which has a buffer of 1,
// once there may be some.
func (w *window) take(n int, wake chan struct{}) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used > 0 && w.used+n > w.max {
		w.waiting = append(w.waiting, wake)
		return false
	}
	w.used += n
	return true
}

func (w *window) give(n int) {
	w.mu.Lock()
	w.used -= n
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	for _, c := range waiting {
		signal(c)
	}
}

// signal wakes the owner of a channel with a buffer of 1; a second signal before it looks is the same as one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
