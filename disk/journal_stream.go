package disk

import "encoding/binary"

// entryStream joins the bodies of journal blocks, in order of their places, and cuts them into entries. Blocks may be
// missing: it then goes on with the first entry that begins behind the gap. It believes only blocks that were checked.
type entryStream struct {
	emit func(e entryHeader, place uint64) // place: of the block where e begins; e is valid during the call
	bad  func(place uint64)                // bytes of checked blocks that are no entry: skipped up to the next known start

	buf    []byte // of the entry that is not complete
	begin  uint64 // place where it began
	group  uint64
	next   uint64 // place that would go on from buf
	synced bool   // the next block's body goes on where buf ends
}

// feed takes the block at place.
func (s *entryStream) feed(h *blockHeader, body []byte, place uint64) {
	if place != s.next || h.Group != s.group || h.Index == 0 {
		if len(s.buf) > 0 && place == s.next {
			s.bad(s.begin)
		}
		s.buf, s.synced = s.buf[:0], h.Index == 0
	}
	s.group, s.next = h.Group, place+1
	body = body[:h.Used]
	if !s.synced {
		if h.First == noFirst {
			return
		}
		body, s.synced = body[h.First:], true
	}
	if len(s.buf) == 0 {
		s.begin = place
	}
	s.buf = append(s.buf, body...)
	s.cut(place)
	if h.Index == h.Blocks-1 && len(s.buf) > 0 {
		s.bad(s.begin)
		s.buf = s.buf[:0]
	}
}

// cut emits every entry that is complete.
func (s *entryStream) cut(place uint64) {
	rest := s.buf
	for len(rest) >= entryHeaderBytes {
		length := binary.LittleEndian.Uint32(rest[entryLengthAt:])
		if length <= maxPayloadBytes && len(rest) < entryHeaderBytes+int(length) {
			break
		}
		e, after, err := parseEntry(rest)
		if err != nil {
			s.bad(s.begin)
			s.buf, s.synced = s.buf[:0], false
			return
		}
		s.emit(e, s.begin)
		rest, s.begin = after, place
	}
	s.buf = s.buf[:copy(s.buf, rest)]
}

// pending says whether an entry that began at or before place waits for its rest.
func (s *entryStream) pending() bool { return len(s.buf) > 0 }
