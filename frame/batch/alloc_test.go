package batch

import "testing"

// Nothing on the way of a batch allocates once the buffers have grown.
func TestHotPathDoesNotAllocate(t *testing.T) {
	p := readHex(t, "batch_full")
	h, body, _, _ := Next(p)
	chunks := [][]byte{body[:50], body[50:]}
	headers := []RecordHeader{{"h", []byte("x")}}
	key, value := []byte("key"), make([]byte, 100)
	var b Builder
	var dst []byte
	var r Reader
	for name, f := range map[string]func(){
		"ParseHeader":   func() { h, _ = ParseHeader(p) },
		"Header.Append": func() { dst = h.Append(dst[:0]) },
		"Stamp":         func() { Stamp(p, 1, 2, 3, 4) },
		"CheckBody":     func() { _ = CheckBody(&h, chunks...) },
		"CheckRecords":  func() { _ = CheckRecords(&h, chunks) },
		"Builder": func() {
			b.Reset(goldenTime)
			for range 100 {
				b.Add(key, true, value, headers, goldenTime)
			}
			dst = b.Finish(dst[:0], fullOptions)
		},
		"Reader": func() {
			r.Reset(&h, body)
			for {
				rec, ok := r.Next()
				if !ok {
					break
				}
				for ok {
					_, _, ok = rec.Headers.Next()
				}
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
