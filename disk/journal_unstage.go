package disk

// unstage takes the entries of l out of what was not submitted yet and returns the index of its last entry that was.
// It is rare (an overlay that is dropped whole): the groups that hold such entries are built anew.
func (s *Store) unstage(l *Log) (last uint64) {
	j := s.journal
	for i, m := range j.queue {
		j.queue[i] = j.without(m, l)
	}
	j.image = j.without(j.image, l)
	b := &l.member
	b.dropIndex = 0
	return max(b.sent, b.durable)
}

// without returns m, or another image with everything that m holds but the entries of l.
func (j *journal) without(m *image, l *Log) *image {
	if !m.touches(l) {
		return m
	}
	kept := j.takeImage()
	stream := entryStream{bad: func(uint64) { panic("disk: a staged group does not parse") }}
	stream.emit = func(e entryHeader, _ uint64) {
		if e.Key == l.key {
			j.staged -= entryHeaderBytes + len(e.Payload)
			return
		}
		parts := [3][]byte{e.Payload}
		putEntryHeader(j.entry[:], e.Key, e.Kind, e.Index, e.Epoch, parts)
		kept.put(j.entry[:], parts, e.Key == Meta)
	}
	for b := range m.blocks {
		h := blockHeader{Group: 1, Used: uint16(len(m.body(b))), Index: uint16(b), Blocks: uint16(m.blocks), First: m.firsts[b]}
		stream.feed(&h, m.body(b), uint64(b))
	}
	for _, t := range m.touched {
		if t.log != l {
			t.log.member.stagedIn(kept, t.log, t.index)
		}
	}
	j.giveImage(m)
	return kept
}

func (m *image) touches(l *Log) bool {
	for _, t := range m.touched {
		if t.log == l {
			return true
		}
	}
	return false
}
