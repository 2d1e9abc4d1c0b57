package disk

// intervals are the logs that flush by time: they have staged batches and a flush that is due.
type intervals struct{ logs []*Log }

// note puts l among them, if it flushes by time and is not there yet; the time of its flush is set at the end of the turn.
func (v *intervals) note(l *Log) {
	if l.opt.SyncEvery > 0 && !l.dirty {
		l.dirty, l.due = true, 0
		v.logs = append(v.logs, l)
	}
}

// run starts the flushes that are due and returns when the next one is, 0 for none.
// Cost: a few loads for each log that waits.
func (v *intervals) run(now int64) (next int64) {
	kept := v.logs[:0]
	for _, l := range v.logs {
		if l.removing { // dropped: its tail is gone
			l.dirty = false
			continue
		}
		if l.due == 0 {
			l.due = now + l.opt.SyncEvery
		}
		if l.due <= now {
			l.dirty = false
			l.SyncNow()
			continue
		}
		kept = append(kept, l)
		next = earlier(next, l.due)
	}
	clear(v.logs[len(kept):])
	v.logs = kept
	return next
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
