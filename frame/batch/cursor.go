package batch

// cursor walks over a body in chunks. Records that lie in one chunk are checkRun's; one that crosses a border, or whose
// length does, is checked here byte by byte.
type cursor struct {
	chunks [][]byte
	p      []byte // what is left of the chunk before chunks[0]
}

// advance goes to the next chunk that has bytes, if this one has none.
func (c *cursor) advance() {
	for len(c.p) == 0 && len(c.chunks) > 0 {
		c.p, c.chunks = c.chunks[0], c.chunks[1:]
	}
}

// atEnd says whether no byte is left.
func (c *cursor) atEnd() bool {
	c.advance()
	return len(c.p) == 0
}

// next takes one byte.
func (c *cursor) next() (byte, bool) {
	c.advance()
	if len(c.p) == 0 {
		return 0, false
	}
	b := c.p[0]
	c.p = c.p[1:]
	return b, true
}

// skip takes n bytes.
func (c *cursor) skip(n int) bool {
	for n > len(c.p) {
		if len(c.chunks) == 0 {
			return false
		}
		n -= len(c.p)
		c.p, c.chunks = c.chunks[0], c.chunks[1:]
	}
	c.p = c.p[n:]
	return true
}

// split reads the fields of one record and counts down what is left of it. A fault sticks in bad.
type split struct {
	c    *cursor
	left int // bytes of the record not yet read
	bad  bool
}

// checkSplit does for a record that crosses a border what checkRecord does for one in one piece.
func (c *cursor) checkSplit(want uint32) (int, error) {
	s := split{c: c, left: 10} // bounds the length varint itself
	size := s.varint32()
	if s.bad || size < RecordMinBytes-1 {
		return 0, ErrRecord
	}
	s.left = size
	if s.uvarint(1) != 0 { // attributes
		return 0, ErrRecord
	}
	s.uvarint(10) // time delta
	if delta := s.uvarint(5); s.bad {
		return 0, ErrRecord
	} else if delta != uint64(want)<<1 {
		return 0, ErrDelta
	}
	payload := max(s.blob(), 0) + max(s.blob(), 0)
	count := s.varint32()
	if count < 0 {
		return 0, ErrRecord
	}
	for ; count > 0 && !s.bad; count-- {
		key := s.blob()
		if key < 0 {
			return 0, ErrRecord
		}
		payload += key + max(s.blob(), 0)
	}
	if s.bad || s.left != 0 {
		return 0, ErrRecord
	}
	return payload, nil
}

func (s *split) uvarint(maxBytes int) uint64 {
	var v uint64
	for shift := 0; shift < 7*maxBytes && s.left > 0; shift += 7 {
		b, ok := s.c.next()
		if !ok {
			break
		}
		s.left--
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if shift == 63 && b > 1 {
				break
			}
			return v
		}
	}
	s.bad = true
	return 0
}

func (s *split) varint32() int {
	v := s.uvarint(5)
	if v > 1<<32-1 {
		s.bad = true
		return 0
	}
	return int(unzigzag32(v))
}

func (s *split) blob() int {
	n := s.varint32()
	if n < -1 || n > s.left {
		s.bad = true
		return 0
	}
	if n > 0 {
		s.left -= n
		s.bad = s.bad || !s.c.skip(n)
	}
	return n
}
