package disk

// intervals are the logs that flush by time: they have staged batches and a flush that is due.
type intervals struct {
	logs  []*Log
	fresh int   // of them, the last ones, have no time yet
	next  int64 // when the earliest of the others is due, 0 for none
}

// intervalSteps is how many flushes of one interval there are at most: the logs that are due within one step go together,
// early rather than late, so that thousands of them are not looked at for each.
const intervalSteps = 16

// note puts l among them, if it flushes by time and is not there yet; the time of its flush is set at the end of the turn.
func (v *intervals) note(l *Log) {
	if l.opt.SyncEvery > 0 && !l.dirty {
		l.dirty = true
		v.logs = append(v.logs, l)
		v.fresh++
	}
}

// run starts the flushes that are due and returns when the next one is, 0 for none.
// Cost: a few loads for each log that is new, and for each that waits when one is due.
func (v *intervals) run(now int64) (next int64) {
	for _, l := range v.logs[len(v.logs)-v.fresh:] {
		step := max(l.opt.SyncEvery/intervalSteps, 1)
		l.due = max((now+l.opt.SyncEvery)/step*step, now+1)
		v.next = earlier(v.next, l.due)
	}
	v.fresh = 0
	if v.next == 0 || v.next > now {
		return v.next
	}
	v.next = 0
	kept := v.logs[:0]
	for _, l := range v.logs {
		if l.removing { // dropped: its tail is gone
			l.dirty = false
			continue
		}
		if l.due <= now {
			l.dirty = false
			l.SyncNow()
			continue
		}
		kept = append(kept, l)
		v.next = earlier(v.next, l.due)
	}
	clear(v.logs[len(kept):])
	v.logs = kept
	return v.next
}

// stagePlain ends the append of a batch that is not in the journal: it may be placed at once.
func (l *Log) stagePlain() {
	l.unsaved = true
	l.extendExtent(l.lastSegment(), l.tail.batches.at(l.tail.batches.last-1).at)
	if l.readyN == l.tail.batches.last-1 {
		l.readyN++
		l.share.placer.offer(l)
	}
	l.share.interval.note(l)
}
