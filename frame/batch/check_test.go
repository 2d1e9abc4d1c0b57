package batch

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// A body may be cut into chunks anywhere, inside records and inside varints.
func TestCheckRecordsAcrossChunks(t *testing.T) {
	p := readHex(t, "batch_full")
	h, body, _, _ := Next(p)
	for i := range len(body) + 1 {
		for j := i; j <= len(body); j++ {
			chunks := [][]byte{body[:i], body[i:j], nil, body[j:]}
			if err := CheckBody(&h, chunks...); err != nil {
				t.Fatalf("cut at %d and %d: %v", i, j, err)
			}
			if err := CheckRecords(&h, chunks); err != nil {
				t.Fatalf("cut at %d and %d: %v", i, j, err)
			}
		}
	}
}

// However a damaged body is cut, the verdict is the same, and it is the reader's too.
func TestCheckRecordsAgreesWithItself(t *testing.T) {
	h, body, _, _ := Next(readHex(t, "batch_full"))
	for i := range body {
		for _, v := range []byte{0, 1, 2, 0x7f, 0x80, 0xff, body[i] + 1, body[i] - 1, body[i] ^ 0x80} {
			bad := bytes.Clone(body)
			bad[i] = v
			whole := CheckRecords(&h, [][]byte{bad})
			for cut := range bad {
				if err := CheckRecords(&h, [][]byte{bad[:cut], bad[cut:]}); (err == nil) != (whole == nil) {
					t.Fatalf("byte %d is %#x: whole %v, cut at %d %v", i, v, whole, cut, err)
				}
			}
			if _, err := readAll(&h, bad); (err == nil) != (whole == nil) {
				t.Fatalf("byte %d is %#x: CheckRecords %v, Reader %v", i, v, whole, err)
			}
		}
	}
}

// A batch that says less or more than it holds would overlap the offsets after it.
func TestCheckRecordsHoldsTheCount(t *testing.T) {
	h, body, _, _ := Next(readHex(t, "batch_full"))
	for _, c := range []struct {
		count uint32
		body  []byte
		want  error
	}{
		{4, body, nil},
		{3, body, ErrTrailing},
		{5, body, ErrRecord},
		{4, body[:len(body)-1], ErrRecord},
		{4, append(bytes.Clone(body), 0), ErrTrailing},
		{1, nil, ErrRecord},
		{math.MaxUint32, body, ErrRecord},
	} {
		h.Count = c.count
		if err := CheckRecords(&h, [][]byte{c.body}); err != c.want {
			t.Errorf("count %d over %d bytes: %v, want %v", c.count, len(c.body), err, c.want)
		}
	}
}

// Every length in a record takes no more than the record has, and every record no more than the body has.
func TestCheckRecordsRefusesBadLengths(t *testing.T) {
	values := []int64{-2, -1, 0, 1, 2, 3, 63, 64, 127, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 33, math.MaxInt64, math.MinInt32, math.MinInt64}
	const length, key, value, count, headerKey, headerValue = 0, 1, 2, 3, 4, 5
	right := [6]int64{length: 14, key: 1, value: 2, count: 1, headerKey: 1, headerValue: 1}
	encode := func(f [6]int64) []byte {
		r := appendVarint(nil, f[length])
		r = append(r, 0, 0, 0) // attributes, deltas
		r = append(appendVarint(r, f[key]), 'k')
		r = append(appendVarint(r, f[value]), 'v', 'v')
		r = appendVarint(r, f[count])
		r = append(appendVarint(r, f[headerKey]), 'h')
		r = append(appendVarint(r, f[headerValue]), 'x')
		return r
	}
	right[length] = int64(len(encode(right)) - 1)
	for field := range right {
		for _, v := range values {
			f := right
			f[field] = v
			body := encode(f)
			// The record grows with a longer varint: only the field under test may be wrong.
			if field != length {
				f[length] = int64(len(body) - 1)
				body = encode(f)
			}
			h := Header{Count: 1, Version: 1, BodyBytes: uint32(len(body))}
			var want error
			if f != right {
				want = ErrRecord
			}
			for cut := range body {
				if err := CheckRecords(&h, [][]byte{body[:cut], body[cut:]}); (err == nil) != (want == nil) {
					t.Errorf("field %d = %d, cut at %d: %v, want %v", field, v, cut, err, want)
				}
			}
			if _, err := readAll(&h, body); (err == nil) != (want == nil) {
				t.Errorf("field %d = %d: reader says %v, want %v", field, v, err, want)
			}
		}
	}
}

// Varints that are longer than their number may be are refused; padded ones within the width are read.
func TestVarintWidths(t *testing.T) {
	for _, c := range []struct {
		p    []byte
		want bool
	}{
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, true},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x1f}, false},
		{[]byte{0x80, 0x80, 0x80, 0x80, 0x00}, true},
		{[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, false},
		{[]byte{0x80}, false},
		{nil, false},
	} {
		if _, i := varint32(c.p, 0); (i >= 0) != c.want {
			t.Errorf("%x as 32 bits: index %d", c.p, i)
		}
	}
	max64 := append(bytes.Repeat([]byte{0xff}, 9), 1)
	if v, i := uvarint(max64, 0, 10); i != 10 || v != math.MaxUint64 {
		t.Errorf("%x reads as %d, index %d", max64, v, i)
	}
	max64[9] = 2
	if _, i := uvarint(max64, 0, 10); i >= 0 {
		t.Errorf("%x is accepted", max64)
	}
	for _, v := range []int64{0, -1, 1, -64, 63, 64, 8191, 8192, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		p := appendVarint(nil, v)
		u, i := uvarint(p, 0, 10)
		if unzigzag64(u) != v || i != len(p) || varintBytes(v) != len(p) {
			t.Errorf("%d is written as %x and read as %d", v, p, unzigzag64(u))
		}
	}
}

func TestCheckRecordsWithinHoldsTheBound(t *testing.T) {
	// The largest record of batch_full is its last: a key of 2 and a value of 70; the third holds 2 + 5 + 3 + 5.
	h, body, _, _ := Next(readHex(t, "batch_full"))
	for _, c := range []struct {
		bound uint32
		want  error
	}{{72, nil}, {71, ErrRecordSize}, {15, ErrRecordSize}, {14, ErrRecordSize}, {0, ErrRecordSize}} {
		for cut := range body {
			if err := CheckRecordsWithin(&h, [][]byte{body[:cut], body[cut:]}, c.bound); err != c.want {
				t.Errorf("bound %d, cut at %d: %v, want %v", c.bound, cut, err, c.want)
			}
		}
	}
	h3, body3, _, _ := Next(build([]rec{{Value: []byte("v3"), Headers: fullRecords[2].Headers}}, Options{}))
	if CheckRecordsWithin(&h3, [][]byte{body3}, 15) != nil || CheckRecordsWithin(&h3, [][]byte{body3}, 14) != ErrRecordSize {
		t.Error("headers do not count towards the size of a record")
	}
}

func TestCheckBodyRefusesDamage(t *testing.T) {
	h, body, _, _ := Next(readHex(t, "batch_full"))
	if err := CheckBody(&h, body[:len(body)-1]); err != ErrBodyBytes {
		t.Errorf("short body: %v", err)
	}
	if err := CheckBody(&h, body, []byte{0}); err != ErrBodyBytes {
		t.Errorf("long body: %v", err)
	}
	for i := range body {
		body[i] ^= 1
		if err := CheckBody(&h, body[:i], body[i:]); err != ErrBodyCRC {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		body[i] ^= 1
	}
}

// Random records, cut at random: what was built is what is read.
func TestBuilderReaderRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	var b Builder
	for range 300 {
		var want []rec
		b.Reset(goldenTime)
		bound := HeaderBytes
		for i := range 1 + rnd.IntN(200) {
			r := randomRecord(rnd, uint32(i))
			var headers []RecordHeader
			for _, h := range r.Headers {
				headers = append(headers, RecordHeader(h))
			}
			bound += MaxRecordBytes(r.Key, r.Value, headers)
			want = append(want, r)
		}
		addAll(&b, want)
		p := b.Finish(nil, Options{})
		if b.Bytes() != len(p) || len(p) > bound || b.Len() != len(want) {
			t.Fatalf("seed %d: builder says %d bytes and %d records, wrote %d of at most %d", seed, b.Bytes(), b.Len(), len(p), bound)
		}
		h, body, _, err := Next(p)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		cut := rnd.IntN(len(body))
		if err := CheckRecords(&h, [][]byte{body[:cut], body[cut:]}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := readAll(&h, body)
		if err != nil || !equalRecords(got, want) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomRecord(rnd *rand.Rand, delta uint32) rec {
	text := func() []byte {
		n := rnd.IntN(20)
		if rnd.IntN(20) == 0 {
			n = rnd.IntN(20_000)
		}
		return bytes.Repeat([]byte{byte(n)}, n)
	}
	r := rec{OffsetDelta: delta, TimeDelta: rnd.Int64N(1000) - 100, Value: text()}
	if rnd.IntN(50) == 0 {
		r.TimeDelta = rnd.Int64() - 1<<62
	}
	if rnd.IntN(2) == 0 {
		r.Key = text()
	}
	for range rnd.IntN(3) {
		r.Headers = append(r.Headers, hdr{string(text()), text()})
	}
	return r
}

func equalRecords(a, b []rec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.OffsetDelta != y.OffsetDelta || x.TimeDelta != y.TimeDelta || len(x.Headers) != len(y.Headers) ||
			(x.Key == nil) != (y.Key == nil) || !bytes.Equal(x.Key, y.Key) || !bytes.Equal(x.Value, y.Value) {
			return false
		}
		for j := range x.Headers {
			if x.Headers[j].Key != y.Headers[j].Key || !bytes.Equal(x.Headers[j].Value, y.Headers[j].Value) {
				return false
			}
		}
	}
	return true
}
