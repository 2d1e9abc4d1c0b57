package batch

// Varints are base-128, least significant group first, the high bit of a byte says that another follows; signed numbers
// are zigzag (0, -1, 1, -2 become 0, 1, 2, 3). At most 5 bytes for 32-bit numbers and 10 for 64-bit ones.

// uvarint reads an unsigned varint of at most maxBytes at p[i:]. It returns the index after it, or -1.
func uvarint(p []byte, i, maxBytes int) (uint64, int) {
	var v uint64
	for shift := 0; shift < 7*maxBytes; shift += 7 {
		if i >= len(p) {
			return 0, -1
		}
		b := p[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if shift == 63 && b > 1 {
				return 0, -1
			}
			return v, i
		}
	}
	return 0, -1
}

// short reads an unsigned varint of one or two bytes at p[i:], which is nearly all there are, and is inlined; w is its
// width, 0 when it is longer or p ends.
func short(p []byte, i int) (v uint, w int) {
	if i+1 < len(p) {
		a, b := uint(p[i]), uint(p[i+1])
		if a < 0x80 {
			return a, 1
		}
		if b < 0x80 {
			return a&0x7f | b<<7, 2
		}
	}
	return 0, 0
}

// long is short for any varint of 32 bits; w is -1 when there is none.
func long(p []byte, i int) (v uint, w int) {
	u, end := uvarint(p, i, 5)
	if end < 0 || u > 1<<32-1 {
		return 0, -1
	}
	return uint(u), end - i
}

// varint32 reads a zigzag varint that must fit 32 bits.
func varint32(p []byte, i int) (int32, int) {
	v, i := uvarint(p, i, 5)
	if v > 1<<32-1 {
		return 0, -1
	}
	return unzigzag32(v), i
}

func unzigzag32(v uint64) int32 { return int32(uint32(v)>>1) ^ -int32(v&1) }

func unzigzag64(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// appendVarint writes v as a zigzag varint.
func appendVarint(dst []byte, v int64) []byte {
	u := zigzag(v)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintBytes is the size of v as a zigzag varint.
func varintBytes(v int64) int {
	n := 1
	for u := zigzag(v); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
