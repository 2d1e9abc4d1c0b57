package perf

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency records durations from 1 µs to 1 min with three significant digits. One goroutine records, or hold the lock.
type latency struct{ h *hdrhistogram.Histogram }

func newLatency() *latency { return &latency{hdrhistogram.New(1, time.Minute.Nanoseconds(), 3)} }

// record clamps to the bounds: a value outside would be dropped and the tail would look better than it was.
func (l *latency) record(d time.Duration) {
	l.h.RecordValue(min(max(int64(d), 1), time.Minute.Nanoseconds()))
}

func (l *latency) merge(o *latency) { l.h.Merge(o.h) }

func (l *latency) quantiles() *Quantiles {
	if l.h.TotalCount() == 0 {
		return nil
	}
	micros := func(q float64) float64 { return float64(l.h.ValueAtQuantile(q)) / 1000 }
	return &Quantiles{Count: l.h.TotalCount(), P50: micros(50), P99: micros(99), P999: micros(99.9), Max: float64(l.h.Max()) / 1000, Mean: l.h.Mean() / 1000}
}

// sharedLatency is latency for callbacks of several goroutines.
type sharedLatency struct {
	mu sync.Mutex
	l  *latency
}

func (s *sharedLatency) record(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l.record(d)
}
