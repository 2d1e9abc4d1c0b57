package batch

// Record is one decoded record. Its slices alias the body.
type Record struct {
	OffsetDelta uint32 // add to Header.BaseOffset
	TimeDelta   int64  // ms, add to Header.BaseTime
	Key         []byte // nil when absent
	Value       []byte // nil when null, which only other encoders write
	Headers     Headers
}

// Reader iterates over the records of an uncompressed or already decompressed body. It trusts nothing in it: deltas must
// grow and stay within the header's span, lengths within the body.
type Reader struct {
	p    []byte
	left uint32 // records still to come
	last int64  // offset delta of the record before, -1 at first
	span uint32 // greatest delta allowed
	err  error
}

// Next splits the first batch off p, which holds batches back to back. The header is checked, the body is not: see
// CheckBody. ErrShort says that more bytes are needed.
func Next(p []byte) (h Header, body, rest []byte, err error) {
	h, err = ParseHeader(p)
	if err != nil {
		return h, nil, nil, err
	}
	if uint64(h.BodyBytes) > uint64(len(p)-HeaderBytes) {
		return h, nil, nil, ErrShort
	}
	end := HeaderBytes + int(h.BodyBytes)
	return h, p[HeaderBytes:end:end], p[end:], nil
}

// Reset begins at the first record of body. The reader keeps body, not h.
func (r *Reader) Reset(h *Header, body []byte) {
	*r = Reader{p: body, left: h.Count, last: -1, span: h.LastOffsetDelta}
}

// Next gives the next record, or false at the end and after an error.
func (r *Reader) Next() (Record, bool) {
	if r.err != nil {
		return Record{}, false
	}
	if r.left == 0 {
		if len(r.p) != 0 {
			r.err = ErrTrailing
		}
		return Record{}, false
	}
	size, i := varint32(r.p, 0)
	if i < 0 || size < 0 || int(size) > len(r.p)-i {
		r.err = ErrRecord
		return Record{}, false
	}
	rec, err := parseRecord(r.p[i : i+int(size)])
	if err == nil && (int64(rec.OffsetDelta) <= r.last || rec.OffsetDelta > r.span) {
		err = ErrDelta
	}
	if err != nil {
		r.err = err
		return Record{}, false
	}
	r.p = r.p[i+int(size):]
	r.last = int64(rec.OffsetDelta)
	r.left--
	return rec, true
}

// Err is why Next ended early, nil at the proper end of the body.
func (r *Reader) Err() error { return r.err }

// parseRecord decodes what follows a record's length.
func parseRecord(p []byte) (rec Record, err error) {
	if len(p) < RecordMinBytes-1 || p[0] != 0 {
		return rec, ErrRecord
	}
	time, i := uvarint(p, 1, 10)
	if i < 0 {
		return rec, ErrRecord
	}
	delta, i := varint32(p, i)
	if i < 0 {
		return rec, ErrRecord
	}
	if delta < 0 {
		return rec, ErrDelta
	}
	rec.TimeDelta = unzigzag64(time)
	rec.OffsetDelta = uint32(delta)
	if rec.Key, i = slice(p, i); i < 0 {
		return rec, ErrRecord
	}
	if rec.Value, i = slice(p, i); i < 0 {
		return rec, ErrRecord
	}
	if _, err = checkHeaders(p, i); err != nil {
		return rec, err
	}
	count, i := varint32(p, i)
	rec.Headers = Headers{p: p[i:], left: int(count)}
	return rec, nil
}

// Headers iterates over a record's headers, which were checked when the record was decoded. It is a value: a copy starts
// where the original stands.
type Headers struct {
	p    []byte
	left int
}

// Len is the number of headers still to come.
func (h *Headers) Len() int { return h.left }

// Next gives the next header, false at the end. value is nil when null. Both alias the body.
func (h *Headers) Next() (key, value []byte, ok bool) {
	if h.left == 0 {
		return nil, nil, false
	}
	key, i := slice(h.p, 0)
	value, i = slice(h.p, i)
	h.p = h.p[i:]
	h.left--
	return key, value, true
}

// slice takes a length and its bytes at p[i:]. It returns the bytes, nil for null, and the index after them or -1.
func slice(p []byte, i int) ([]byte, int) {
	end, n := blob(p, i)
	if end < 0 || n < 0 {
		return nil, end
	}
	return p[end-n : end : end], end
}
