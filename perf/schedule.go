package perf

import (
	"context"
	"time"
)

// schedule says when each record of one connection is due. The times are fixed when the run begins: a late record does not
// move those behind it.
type schedule struct {
	start    time.Time
	interval time.Duration // 0: due when asked
	n        int
}

// newSchedule shares rate (records a second) over connections and spreads their starts evenly.
func newSchedule(start time.Time, rate float64, connections, index int) schedule {
	if rate <= 0 {
		return schedule{start: start}
	}
	interval := time.Duration(float64(time.Second) * float64(connections) / rate)
	return schedule{start: start.Add(interval * time.Duration(index) / time.Duration(connections)), interval: interval}
}

// next waits until the next record is due and says when that was; false when ctx ended first.
func (s *schedule) next(ctx context.Context) (due time.Time, ok bool) {
	if s.interval == 0 {
		return time.Now(), ctx.Err() == nil
	}
	due = s.start.Add(time.Duration(s.n) * s.interval)
	s.n++
	wait := time.Until(due)
	if wait <= 0 {
		return due, ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return due, true
	case <-ctx.Done():
		return due, false
	}
}
