package batch

import "testing"

// A client refuses offsets outside the span that the header claims, and offsets that do not grow.
func TestReaderHoldsTheSpan(t *testing.T) {
	record := func(delta int64) []byte {
		r := appendVarint([]byte{0, 0}, delta)
		r = append(r, 1, 0, 0) // no key, empty value, no headers
		return append(appendVarint(nil, int64(len(r))), r...)
	}
	body := func(deltas ...int64) (b []byte) {
		for _, d := range deltas {
			b = append(b, record(d)...)
		}
		return b
	}
	for _, c := range []struct {
		name  string
		count uint32
		span  uint32
		body  []byte
		want  error
	}{
		{"dense", 2, 1, body(0, 1), nil},
		{"gaps", 2, 9, body(3, 9), nil},
		{"beyond the span", 2, 9, body(3, 10), ErrDelta},
		{"repeated", 2, 9, body(3, 3), ErrDelta},
		{"falling", 2, 9, body(3, 2), ErrDelta},
		{"negative", 1, 9, body(-1), ErrDelta},
		{"more records than said", 1, 9, body(0, 1), ErrTrailing},
		{"fewer records than said", 3, 9, body(0, 1), ErrRecord},
	} {
		h := Header{Count: c.count, LastOffsetDelta: c.span}
		if _, err := readAll(&h, c.body); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Batches back to back come apart again, and an incomplete last one is asked for, not guessed at.
func TestNextSplitsBatches(t *testing.T) {
	one, full := readHex(t, "batch_one"), readHex(t, "batch_full")
	p := append(append([]byte{}, one...), full...)
	for n := range len(p) + 1 {
		rest, batches := p[:n], 0
		for len(rest) > 0 {
			_, _, next, err := Next(rest)
			if err != nil {
				if err != ErrShort {
					t.Fatalf("%d bytes: %v", n, err)
				}
				break
			}
			rest, batches = next, batches+1
		}
		want := 0
		if n >= len(one) {
			want = 1
		}
		if n == len(p) {
			want = 2
		}
		if batches != want {
			t.Fatalf("%d bytes hold %d batches, want %d", n, batches, want)
		}
	}
}
