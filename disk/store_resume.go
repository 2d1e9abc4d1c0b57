package disk

// resume says where a start went on writing the journal, from which place and with which group. Blocks at that place and
// behind it are that start's or a later one's: what an earlier start left there is stale, whatever it says (RULES 3).
type resume struct {
	start, place, group uint64
}

// resumes are those of the live part of the ring, by start; places do not fall.
type resumes []resume

// startAt is the start that wrote the block at place; 0: not known.
func (r resumes) startAt(place uint64) uint64 {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i].place <= place {
			return r[i].start
		}
	}
	return 0
}

// at returns the last resume at exactly this place.
func (r resumes) at(place uint64) (resume, bool) {
	for i := len(r) - 1; i >= 0 && r[i].place >= place; i-- {
		if r[i].place == place {
			return r[i], true
		}
	}
	return resume{}, false
}

// after is the first place behind place where a start went on; ^0: none.
func (r resumes) after(place uint64) uint64 {
	for i := range r {
		if r[i].place > place {
			return r[i].place
		}
	}
	return ^uint64(0)
}

// prune forgets the starts that wrote nothing at or behind place.
func (r resumes) prune(place uint64) resumes {
	first := 0
	for first+1 < len(r) && r[first+1].place <= place {
		first++
	}
	return append(r[:0], r[first:]...)
}

// record is the state log's form.
func (r resume) record() stateRecord {
	return stateRecord{Kind: recordResume, Index: r.start, Placed: r.place, Group: r.group}
}

// recordResumes appends all resumes of the live ring to the state log.
func (s *Store) recordResumes() {
	s.resumes = s.resumes.prune((s.journal.durable.Dead + 1) * s.journal.perFile)
	for _, r := range s.resumes {
		rec := r.record()
		s.state.record(&rec, nil)
	}
}
