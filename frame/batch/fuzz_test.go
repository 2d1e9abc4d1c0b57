package batch

import "testing"

// FuzzParseHeader: what is accepted is written again as the same bytes.
func FuzzParseHeader(f *testing.F) {
	for _, name := range []string{"batch_one", "batch_full", "batch_stamped", "batch_gaps", "batch_gzip"} {
		f.Add(readHex(f, name))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) >= HeaderBytes { // a right CRC, or nothing would get past it
			Stamp(p, le.Uint64(p[BaseOffsetAt:]), le.Uint64(p[EpochAt:]), int64(le.Uint64(p[AppendTimeAt:])), le.Uint32(p[PartitionTagAt:]))
		}
		h, err := ParseHeader(p)
		if err != nil {
			return
		}
		if got := h.Append(nil); string(got) != string(p[:HeaderBytes]) {
			t.Fatalf("%x written again is %x", p[:HeaderBytes], got)
		}
		_ = h.CheckProduced()
	})
}

// FuzzRecords: a body is judged alike in one piece, in two, and by the reader.
func FuzzRecords(f *testing.F) {
	for _, name := range []string{"batch_one", "batch_full", "batch_null", "batch_gaps"} {
		h, body, _, err := Next(readHex(f, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, h.Count, uint(len(body)/2))
	}
	f.Fuzz(func(t *testing.T, body []byte, count uint32, cut uint) {
		h := Header{Count: count, LastOffsetDelta: count - 1, BodyBytes: uint32(len(body))}
		if count == 0 || h.checkCount() != nil {
			return
		}
		cut %= uint(len(body) + 1)
		whole := CheckRecords(&h, [][]byte{body})
		halves := CheckRecords(&h, [][]byte{body[:cut], body[cut:]})
		if (whole == nil) != (halves == nil) {
			t.Fatalf("whole: %v, cut at %d: %v", whole, cut, halves)
		}
		records, err := readAll(&h, body)
		if (err == nil) != (whole == nil) {
			t.Fatalf("CheckRecords: %v, Reader: %v", whole, err)
		}
		if uint64(len(records))*RecordMinBytes > uint64(len(body)) {
			t.Fatalf("%d records out of %d bytes", len(records), len(body))
		}
		if whole == nil && len(records) != int(count) {
			t.Fatalf("%d records, the header says %d", len(records), count)
		}
	})
}

// FuzzNext: batches are split without a step outside the bytes.
func FuzzNext(f *testing.F) {
	f.Add(append(readHex(f, "batch_one"), readHex(f, "batch_gzip")...))
	f.Fuzz(func(t *testing.T, p []byte) {
		for len(p) > 0 {
			h, body, rest, err := Next(p)
			if err != nil {
				return
			}
			if HeaderBytes+len(body)+len(rest) != len(p) || len(body) != int(h.BodyBytes) {
				t.Fatal("bytes lost or found")
			}
			_ = CheckBody(&h, body)
			p = rest
		}
	})
}
