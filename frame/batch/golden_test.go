package batch

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// rec is a record with everything in plain view.
type rec struct {
	OffsetDelta uint32
	TimeDelta   int64
	Key, Value  []byte
	Headers     []hdr
}

type hdr struct {
	Key   string
	Value []byte
}

const goldenTime = 1767225600000 // 2026-01-01T00:00:00Z

var (
	goldenDir = [16]byte{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}

	fullOptions = Options{ProducerID: 3<<32 | 9, ProducerEpoch: 2, BaseSequence: 1000, Expiry: goldenTime + 60000}
	fullRecords = []rec{
		{0, 0, []byte("k1"), []byte("v1"), nil},
		{1, 5, []byte{}, []byte{}, nil},
		{2, -3, nil, []byte("v3"), []hdr{{"trace", []byte("abc")}, {"trace", []byte{}}}},
		{3, 70, []byte("k4"), bytes.Repeat([]byte("x"), 70), nil},
	}
)

// Version 1 bytes, made by another encoder, are what ours writes and what it reads.
func TestGoldenBuilder(t *testing.T) {
	for _, g := range []struct {
		file    string
		options Options
		records []rec
		maxTime int64
	}{
		{"batch_one", Options{}, []rec{{Value: []byte("hello")}}, goldenTime},
		{"batch_full", fullOptions, fullRecords, goldenTime + 70},
	} {
		t.Run(g.file, func(t *testing.T) {
			want := readHex(t, g.file)
			if got := build(g.records, g.options); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, want\n%x", got, want)
			}
			h, records := decodeAll(t, want)
			if !reflect.DeepEqual(records, g.records) {
				t.Errorf("decoded %+v, want %+v", records, g.records)
			}
			if h.MaxTime != g.maxTime || h.BaseTime != goldenTime {
				t.Errorf("times %d to %d", h.BaseTime, h.MaxTime)
			}
			if err := h.CheckProduced(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The broker's stamp changes the fields that are its own and nothing else.
func TestGoldenStamp(t *testing.T) {
	p, want := readHex(t, "batch_full"), readHex(t, "batch_stamped")
	Stamp(p, 1<<33, 3, goldenTime+1234, PartitionTag(goldenDir, 7, 2))
	if !bytes.Equal(p, want) {
		t.Fatalf("stamped\n%x, want\n%x", p[:HeaderBytes], want[:HeaderBytes])
	}
	h, _ := decodeAll(t, want)
	wantHeader := Header{
		HeaderCRC: h.HeaderCRC, BodyCRC: h.BodyCRC, BodyBytes: uint32(len(want) - HeaderBytes), Version: 1,
		ProducerEpoch: 2, BaseOffset: 1 << 33, LastOffsetDelta: 3, Count: 4, Epoch: 3,
		BaseTime: goldenTime, MaxTime: goldenTime + 70, AppendTime: goldenTime + 1234,
		ProducerID: 3<<32 | 9, BaseSequence: 1000, PartitionTag: h.PartitionTag, Expiry: goldenTime + 60000,
	}
	if h != wantHeader {
		t.Errorf("decoded %+v, want %+v", h, wantHeader)
	}
	if got := h.Append(nil); !bytes.Equal(got, want[:HeaderBytes]) {
		t.Errorf("header encoded again %x", got)
	}
	if h.LastOffset() != 1<<33+3 || h.NextOffset() != 1<<33+4 || h.TotalBytes() != int64(len(want)) {
		t.Error("derived offsets or size are wrong")
	}
}

func TestGoldenNull(t *testing.T) {
	_, records := decodeAll(t, readHex(t, "batch_null"))
	want := []rec{{Key: []byte("k"), Headers: []hdr{{"h", nil}}}}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("decoded %+v, want %+v", records, want)
	}
}

// A stored batch may have lost records; a produced one may not.
func TestGoldenGaps(t *testing.T) {
	p := readHex(t, "batch_gaps")
	h, records := decodeAll(t, p)
	if len(records) != 2 || records[0].OffsetDelta != 1 || records[1].OffsetDelta != 4 || h.NextOffset() != 106 {
		t.Errorf("decoded %+v of %+v", records, h)
	}
	if err := h.CheckProduced(); err != ErrCount {
		t.Errorf("as a produced batch: %v, want %v", err, ErrCount)
	}
	if err := CheckRecords(&h, [][]byte{p[HeaderBytes:]}); err != ErrDelta {
		t.Errorf("as produced records: %v, want %v", err, ErrDelta)
	}
}

// A compressed body is carried with its codec and not looked into.
func TestGoldenCompressed(t *testing.T) {
	p := readHex(t, "batch_gzip")
	h, body, _, err := Next(p)
	if err != nil || h.Codec() != CodecGzip || h.Count != 3 {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := CheckBody(&h, body); err != nil {
		t.Error(err)
	}
	if err := CheckRecords(&h, [][]byte{body}); err != nil {
		t.Error(err)
	}
	var b Builder
	b.Reset(goldenTime)
	for range 3 {
		b.Add(nil, false, bytes.Repeat([]byte("a"), 16), nil, goldenTime)
	}
	if got := b.FinishCompressed(nil, CodecGzip, body, Options{}); !bytes.Equal(got, p) {
		t.Errorf("encoded\n%x, want\n%x", got, p)
	}
}

// Every golden file of this folder is used by a test above.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	used := "batch_one batch_full batch_stamped batch_null batch_gaps batch_gzip"
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".hex"); ok && !strings.Contains(used, name) {
			t.Errorf("testdata/%s is not compared with anything", e.Name())
		}
	}
}

// readHex reads testdata/name.hex: hex, with # comments.
func readHex(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(code), ""))
	}
	p, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// build encodes records, whose first is at goldenTime, as a batch.
func build(records []rec, o Options) []byte {
	var b Builder
	b.Reset(goldenTime)
	addAll(&b, records)
	return b.Finish(nil, o)
}

func addAll(b *Builder, records []rec) {
	for _, r := range records {
		var headers []RecordHeader
		for _, h := range r.Headers {
			headers = append(headers, RecordHeader(h))
		}
		b.Add(r.Key, r.Key != nil, r.Value, headers, goldenTime+r.TimeDelta)
	}
}

// decodeAll decodes one whole batch and fails the test when anything is wrong with it.
func decodeAll(t testing.TB, p []byte) (Header, []rec) {
	t.Helper()
	h, body, rest, err := Next(p)
	if err != nil || len(rest) != 0 {
		t.Fatalf("header: %v, %d bytes left", err, len(rest))
	}
	if err := CheckBody(&h, body); err != nil {
		t.Fatal(err)
	}
	records, err := readAll(&h, body)
	if err != nil {
		t.Fatal(err)
	}
	return h, records
}

func readAll(h *Header, body []byte) ([]rec, error) {
	var r Reader
	r.Reset(h, body)
	var out []rec
	for {
		record, ok := r.Next()
		if !ok {
			return out, r.Err()
		}
		x := rec{OffsetDelta: record.OffsetDelta, TimeDelta: record.TimeDelta, Key: record.Key, Value: record.Value}
		for {
			key, value, ok := record.Headers.Next()
			if !ok {
				break
			}
			x.Headers = append(x.Headers, hdr{string(key), value})
		}
		out = append(out, x)
	}
}
