package batch

import (
	"fmt"
	"testing"
)

// BenchmarkCheckRecords: framing of one hot uncompressed body of 1,000 records in one chunk. No CRC, no copy.
func BenchmarkCheckRecords(b *testing.B) {
	for _, valueBytes := range []int{16, 64, 1024} {
		b.Run(fmt.Sprintf("%dB", valueBytes), func(b *testing.B) {
			var bld Builder
			bld.Reset(1000)
			for range 1000 {
				bld.Add(nil, false, make([]byte, valueBytes), nil, 1000)
			}
			h, body, _, err := Next(bld.Finish(nil, Options{}))
			if err != nil {
				b.Fatal(err)
			}
			chunks := [][]byte{body}
			for b.Loop() {
				if err := CheckRecords(&h, chunks); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}

// BenchmarkBuilder: 100 records of 128 bytes, encoded, summed and copied out, hot in cache.
func BenchmarkBuilder(b *testing.B) {
	var bld Builder
	var dst []byte
	value := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		bld.Reset(1000)
		for range 100 {
			bld.Add(nil, false, value, nil, 1000)
		}
		dst = bld.Finish(dst[:0], Options{})
	}
	b.SetBytes(int64(len(dst)))
}

// BenchmarkReader: the same batch, decoded without the body's CRC.
func BenchmarkReader(b *testing.B) {
	var bld Builder
	bld.Reset(1000)
	for range 100 {
		bld.Add(nil, false, make([]byte, 128), nil, 1000)
	}
	h, body, _, _ := Next(bld.Finish(nil, Options{}))
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(&h, body)
		for ok := true; ok; {
			_, ok = r.Next()
		}
	}
	b.SetBytes(int64(len(body)))
}

// BenchmarkHeader: a header checked, stamped and summed again, as for each produced batch. No body.
func BenchmarkHeader(b *testing.B) {
	var bld Builder
	bld.Reset(1000)
	bld.Add(nil, false, make([]byte, 128), nil, 1000)
	p := bld.Finish(nil, Options{})
	for b.Loop() {
		if _, err := ParseHeader(p); err != nil {
			b.Fatal(err)
		}
		Stamp(p, 1, 2, 3, 4)
	}
}
