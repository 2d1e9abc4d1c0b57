package disk

import "testing"

// Thousands of logs flush by time and became due at times of their own: each is flushed within its interval, and the list is
// gone over a few times in one interval, not once for each of them or each turn.
func TestIntervalsAreLookedAtRarely(t *testing.T) {
	const every, turn, logs = 1e9, 1e5, 5000
	cfg := smallConfig()
	h := newHarness(t, 1, cfg)
	v := &h.s.logs.interval
	staged := map[*Log]int64{}
	scans, now := 0, int64(5e9)
	for i := 0; i < logs+int(every/turn)+1; i++ {
		now += turn
		if i < logs {
			l := h.s.NewLog(Key{3, uint32(i)}, LogOptions{SyncEvery: every})
			v.note(l)
			staged[l] = now
		}
		before := len(v.logs)
		next := v.run(now)
		if len(v.logs) < before {
			scans++
		}
		for l, at := range staged {
			if l.dirty && now > at+every {
				t.Fatalf("a log is not flushed after %d ns", now-at)
			}
			if !l.dirty {
				if now < at+every-2*every/intervalSteps {
					t.Fatalf("a log is flushed after %d ns", now-at)
				}
				delete(staged, l)
			} else if i%500 > 0 {
				break // all of them now and then
			}
		}
		if len(v.logs) > 0 && (next <= now || next > now+every) {
			t.Fatalf("the next flush is due at %d, now is %d", next, now)
		}
	}
	if len(staged) > 0 || len(v.logs) > 0 || scans > 2*intervalSteps {
		t.Errorf("%d logs are not flushed, %d scans", len(staged), scans)
	}
}
