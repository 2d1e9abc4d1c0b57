package frame

import (
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Field types, all little-endian and unpadded: u8, u16, u32, u64, i64; bool is a u8 of 0 or 1; string is a u16 length and
// its bytes; bytes is a u32 length and its bytes; list is a u32 count and its elements.

var le = binary.LittleEndian

// reader takes fields off a payload. The first fault sticks, later reads give zero values, so that a Decode reads as its
// field table and asks once at the end. Admin messages use it; the hot ones index their bytes directly.
type reader struct {
	p   []byte
	err *DecodeError
}

func (r *reader) fail(e *DecodeError) {
	if r.err == nil {
		r.err = e
	}
	r.p = nil
}

// take returns the next n bytes of the payload, or nil and a fault.
func (r *reader) take(n int) []byte {
	if n > len(r.p) {
		r.fail(BadShort)
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

func (r *reader) i64() int64 { return int64(r.u64()) }

func (r *reader) boolean() bool {
	v := r.u8()
	if v > 1 {
		r.fail(BadBool)
	}
	return v == 1
}

// enum reads a u8 whose defined values are 0 to last.
func (r *reader) enum(last uint8) uint8 {
	v := r.u8()
	if v > last {
		r.fail(BadValue)
		return 0
	}
	return v
}

// name reads a string of at most MaxNameBytes and copies it. Its bytes are ValidName's business, so that a bad name is an
// answer and not a lost connection.
func (r *reader) name() string { return r.str(MaxNameBytes, BadNameLength) }

// text reads a string for people: UTF-8, no control characters, at most max bytes.
func (r *reader) text(max int) string {
	s := r.str(max, BadText)
	if !cleanText(s) {
		r.fail(BadText)
		return ""
	}
	return s
}

func (r *reader) str(max int, tooLong *DecodeError) string {
	n := int(r.u16())
	if n > max {
		r.fail(tooLong)
		return ""
	}
	return string(r.take(n))
}

// bytes reads a u32 length and its bytes, which alias the payload.
func (r *reader) bytes() []byte {
	n := r.u32()
	if uint64(n) > uint64(len(r.p)) {
		r.fail(BadShort)
		return nil
	}
	return r.take(int(n))
}

// count reads the length of a list whose elements have at least elementBytes. What it returns fits the payload that is
// there, so a list costs memory only in proportion to the bytes that have arrived.
func (r *reader) count(max int, elementBytes int) int {
	n := r.u32()
	if uint64(n) > uint64(max) {
		r.fail(BadCount)
		return 0
	}
	if int(n)*elementBytes > len(r.p) {
		r.fail(BadShort)
		return 0
	}
	return int(n)
}

func (r *reader) errorCode() ErrorCode { return ErrorCode(r.u16()) }

// done gives the first fault, or BadTrailing when bytes are left.
func (r *reader) done() error {
	if r.err != nil {
		return r.err
	}
	if len(r.p) != 0 {
		return BadTrailing
	}
	return nil
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendString cuts s to what a u16 can count, so that the frame stays well formed; the peer refuses such a length anyway.
func appendString(dst []byte, s string) []byte {
	s = s[:min(len(s), 1<<16-1)]
	return append(le.AppendUint16(dst, uint16(len(s))), s...)
}

// appendText is appendString for text that is shown to people: made fit for the peer's reader.text, whatever it holds, and
// cut at a rune.
func appendText(dst []byte, s string, max int) []byte {
	if !cleanText(s) {
		s = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return ' '
			}
			return c // an invalid byte has become U+FFFD
		}, s)
	}
	if len(s) > max {
		for max > 0 && !utf8.RuneStart(s[max]) {
			max--
		}
		s = s[:max]
	}
	return appendString(dst, s)
}

func appendBytes(dst, b []byte) []byte {
	return append(le.AppendUint32(dst, uint32(len(b))), b...)
}

func cleanText(s string) bool {
	for _, c := range s {
		if unicode.IsControl(c) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// resize gives s length n and keeps its array when that is large enough.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}
