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
	for n := uint32(0); n < h.Count; {
		c.advance()
		done, i, err := checkRun(c.p, n, h.Count, maxRecordBytes)
		if err != nil {
			return err
		}
		n, c.p = done, c.p[i:]
		if n == h.Count {
			break
		}
		payload, err := c.checkSplit(n)
		if err != nil {
			return err
		}
		if uint64(payload) > uint64(maxRecordBytes) {
			return ErrRecordSize
		}
		n++
	}
	if !c.atEnd() {
		return ErrTrailing
	}
	return nil
}

// checkRun checks records from number n on as long as they lie whole in p. It returns the number of the first that does
// not, or count, and where that begins.
func checkRun(p []byte, n, count, maxRecordBytes uint32) (uint32, int, error) {
	at := 0
	for n < count {
		n, at = plainRun(p, at, n, count, maxRecordBytes)
		if n == count {
			break
		}
		size, w := short(p, at)
		if w == 0 {
			if size, w = long(p, at); w < 0 {
				break // cut short, or wrong: checkSplit will tell
			}
		}
		start := at + w
		if size&1 != 0 || size>>1 > uint(len(p)-start) {
			break
		}
		end := start + int(size>>1)
		payload, err := checkRecord(p[start:end], n)
		if err != nil {
			return n, at, err
		}
		if uint64(payload) > uint64(maxRecordBytes) {
			return n, at, ErrRecordSize
		}
		n, at = n+1, end
	}
	return n, at, nil
}

// window is the part of a record that plainRun looks at: all fields up to the value, where there is no key.
const window = 16

// plainRun checks records as checkRun does while each of them is what nearly every record is: numbers of one or two bytes,
// a value, no headers. It stops at the first that is not, or that may be wrong, and says nothing against it. Looking at a
// window of fixed size needs one bounds check for all fields.
//
// Where a record ends is known only when its length has been loaded, and the next one cannot be looked at before: a chain of
// loads from the second level cache. A record whose length is that of the one before ends where the branch predictor says,
// so for records of one size the chain is broken.
func plainRun(p []byte, at int, n, count, maxRecordBytes uint32) (uint32, int) {
	var head uint16 // the first two bytes of the record before, its length and maybe more
	var width, span uint
	for n < count && len(p)-at >= window {
		b := (*[window]byte)(p[at:])
		if h := le.Uint16(b[:]); h != head || span == 0 {
			head, width = h, 1
			size := uint(b[0])
			if size >= 0x80 {
				size, width = size&0x7f|uint(b[1])<<7, 2
				if b[1] >= 0x80 {
					break
				}
			}
			if size&1 != 0 {
				break
			}
			span = width + size>>1
		}
		end, i := at+int(span), width
		if end > len(p) || b[i%window] != 0 { // attributes
			break
		}
		i++
		if b[i%window] >= 0x80 { // time delta: any value
			i++
			if b[i%window] >= 0x80 {
				break
			}
		}
		delta := uint(b[(i+1)%window])
		i += 2
		if delta >= 0x80 {
			if b[i%window] >= 0x80 {
				break
			}
			delta = delta&0x7f | uint(b[i%window])<<7
			i++
		}
		if delta != uint(n)<<1 {
			break
		}
		key, value, start := uint(b[i%window]), uint(0), 0
		i++
		if key == 1 { // absent
			key, value = 0, uint(b[i%window])
			i++
			if value >= 0x80 {
				if b[i%window] >= 0x80 {
					break
				}
				value = value&0x7f | uint(b[i%window])<<7
				i++
			}
			start = at + int(i)
		} else {
			if key >= 0x80 {
				if b[i%window] >= 0x80 {
					break
				}
				key = key&0x7f | uint(b[i%window])<<7
				i++
			}
			start = at + int(i+key>>1)
			var w int
			if value, w = short(p, start); w == 0 {
				break
			}
			start += w
		}
		if (key|value)&1 != 0 || start+int(value>>1) != end-1 || p[end-1] != 0 || uint64(key>>1)+uint64(value>>1) > uint64(maxRecordBytes) {
			break
		}
		n, at = n+1, end
	}
	return n, at
}

// checkRecord checks one record, r being what follows its length, and returns the bytes of its key, value and headers.
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
	delta, w := short(r, i)
	if w == 0 {
		if delta, w = long(r, i); w < 0 {
			return 0, ErrRecord
		}
	}
	if delta != uint(want)<<1 {
		return 0, ErrDelta
	}
	i += w
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
	v, w := short(r, i)
	if w == 0 {
		if v, w = long(r, i); w < 0 {
			return -1, 0
		}
	}
	i += w
	if v&1 != 0 {
		if v != 1 {
			return -1, 0
		}
		return i, -1
	}
	if v>>1 > uint(len(r)-i) {
		return -1, 0
	}
	return i + int(v>>1), int(v >> 1)
}
