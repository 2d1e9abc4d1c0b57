package batch

import (
	"hash/crc32"
	"math"
)

// CheckBody compares length and CRC of a body that lies in chunks, in order, with the header's.
//
// Errors: ErrBodyBytes, ErrBodyCRC. Cost: about 43 ns per KiB, no allocation.
func CheckBody(h *Header, chunks ...[]byte) error {
	var bytes uint64
	var crc uint32
	for _, c := range chunks {
		bytes += uint64(len(c))
		crc = crc32.Update(crc, castagnoli, c)
	}
	if bytes != uint64(h.BodyBytes) {
		return ErrBodyBytes
	}
	if crc != h.BodyCRC {
		return ErrBodyCRC
	}
	return nil
}

// CheckRecords is CheckRecordsWithin without a bound on a record.
func CheckRecords(h *Header, chunks [][]byte) error {
	return CheckRecordsWithin(h, chunks, math.MaxUint32)
}

// CheckRecordsWithin checks the framing of an uncompressed body that lies in chunks: h.Count records whose lengths add up,
// whose offset deltas are 0, 1, 2 and so on, and none of which holds more than maxRecordBytes of key, value and headers.
// Without it a batch that says one record and holds a thousand would overlap the offsets after it. A compressed body is
// not looked into.
//
// Errors: ErrRecord, ErrDelta, ErrTrailing, ErrRecordSize. Cost: under 10 ns a record, no allocation.
func CheckRecordsWithin(h *Header, chunks [][]byte, maxRecordBytes uint32) error {
	if h.Codec() != CodecNone {
		return nil
	}
	c := cursor{chunks: chunks}
	for n := uint32(0); n < h.Count; n++ {
		r, ok := c.whole()
		var payload int
		var err error
		if ok {
			payload, err = checkRecord(r, n)
		} else {
			payload, err = c.checkSplit(n)
		}
		if err != nil {
			return err
		}
		if uint64(payload) > uint64(maxRecordBytes) {
			return ErrRecordSize
		}
	}
	if !c.atEnd() {
		return ErrTrailing
	}
	return nil
}

// checkRecord checks one record that lies in one piece, r being what follows its length, and returns the bytes of its key,
// value and headers.
func checkRecord(r []byte, want uint32) (int, error) {
	if len(r) < RecordMinBytes-1 || r[0] != 0 {
		return 0, ErrRecord
	}
	i := 2
	if r[1] >= 0x80 { // time delta: any value
		if _, i = uvarint(r, 1, 10); i < 0 {
			return 0, ErrRecord
		}
	}
	delta := uint64(0)
	if i < len(r) && r[i] < 0x80 {
		delta = uint64(r[i])
		i++
	} else if delta, i = uvarint(r, i, 5); i < 0 {
		return 0, ErrRecord
	}
	if delta != uint64(want)<<1 {
		return 0, ErrDelta
	}
	payload, n := 0, 0
	for range 2 { // key, value
		if i, n = blob(r, i); i < 0 {
			return 0, ErrRecord
		}
		payload += max(n, 0)
	}
	if i == len(r)-1 && r[i] == 0 { // no headers
		return payload, nil
	}
	headers, err := checkHeaders(r, i)
	return payload + headers, err
}

// checkHeaders checks the header array at r[i:], which must end where r does. A count beyond the bytes that are there runs
// into their end.
func checkHeaders(r []byte, i int) (int, error) {
	count, i := varint32(r, i)
	if i < 0 || count < 0 {
		return 0, ErrRecord
	}
	payload, n := 0, 0
	for ; count > 0; count-- {
		if i, n = blob(r, i); i < 0 || n < 0 { // a header's key is never null
			return 0, ErrRecord
		}
		payload += n
		if i, n = blob(r, i); i < 0 {
			return 0, ErrRecord
		}
		payload += max(n, 0)
	}
	if i != len(r) {
		return 0, ErrRecord
	}
	return payload, nil
}

// blob steps over a length and its bytes at r[i:]. It returns the index after them, or -1, and the length, -1 for null.
func blob(r []byte, i int) (int, int) {
	var n int
	if uint(i) < uint(len(r)) && r[i] < 0x80 {
		n = int(r[i]>>1) ^ -int(r[i]&1)
		i++
	} else {
		var v int32
		if v, i = varint32(r, i); i < 0 {
			return -1, 0
		}
		n = int(v)
	}
	if n < -1 || n > len(r)-i {
		return -1, 0
	}
	return i + max(n, 0), n
}
