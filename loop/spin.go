package loop

// spinner decides how long an idle loop looks for work before it parks. Waking a parked thread costs tens of
// microseconds, so looking pays when the next event is nearer than that, and only then: the budget grows after a wait
// that spinning could have covered and shrinks after a longer one, down to nothing.
type spinner struct {
	maxNanos    int64
	budgetNanos int64
}

const spinFloorNanos = 4000

// learn takes how long the loop had nothing to do, spinning and parked together.
func (s *spinner) learn(idleNanos int64) {
	if idleNanos <= s.maxNanos {
		s.budgetNanos = min(s.maxNanos, max(spinFloorNanos, 2*s.budgetNanos))
		return
	}
	s.budgetNanos /= 2
	if s.budgetNanos < spinFloorNanos {
		s.budgetNanos = 0
	}
}
