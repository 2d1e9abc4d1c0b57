package client

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/slipringmq/slipring/frame/batch"
)

// Other people's encoders and decoders agree with ours on what a body is.
func TestCodecsAreThePublicFormats(t *testing.T) {
	body := []byte(strings.Repeat("one record after the other ", 5000))
	t.Run("snappy", func(t *testing.T) {
		ours, err := compress(nil, batch.CodecSnappy, body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := snappy.Decode(nil, ours); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("theirs cannot read ours: %v", err)
		}
		checkDecompress(t, batch.CodecSnappy, snappy.Encode(nil, body), body)
	})
	t.Run("snappy as the Java client frames it", func(t *testing.T) {
		framed := append([]byte(nil), xerialMagic...)
		framed = append(framed, 0, 0, 0, 1, 0, 0, 0, 1)
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 32<<10)
			block := snappy.Encode(nil, rest[:n])
			framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
			rest = rest[n:]
		}
		checkDecompress(t, batch.CodecSnappy, framed, body)
		for cut := range 40 {
			if _, err := decompress(batch.CodecSnappy, framed[:len(framed)-1-cut], 1<<20, nil); err == nil {
				t.Fatalf("cut by %d bytes and not noticed", cut+1)
			}
		}
	})
	t.Run("gzip", func(t *testing.T) {
		ours, err := compress(nil, batch.CodecGzip, body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := stdgzip.NewReader(bytes.NewReader(ours))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("theirs cannot read ours: %v", err)
		}
		var theirs bytes.Buffer
		w := stdgzip.NewWriter(&theirs)
		w.Write(body)
		w.Close()
		checkDecompress(t, batch.CodecGzip, theirs.Bytes(), body)
	})
	// lz4 and zstd frames are told by their magic numbers; their libraries are the reference ones of Go.
	for codec, magic := range map[batch.Codec]uint32{batch.CodecLZ4: 0x184D2204, batch.CodecZstd: 0xFD2FB528} {
		t.Run(codec.String(), func(t *testing.T) {
			ours, err := compress(nil, codec, body)
			if err != nil {
				t.Fatal(err)
			}
			if got := binary.LittleEndian.Uint32(ours); got != magic {
				t.Fatalf("magic %x", got)
			}
			checkDecompress(t, codec, ours, body)
		})
	}
}

func checkDecompress(t *testing.T, codec batch.Codec, packed, want []byte) {
	t.Helper()
	got, err := decompress(codec, packed, len(want), &zstdReader{})
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("ours cannot read theirs: %d bytes of %d, %v", len(got), len(want), err)
	}
}

// Pooled encoders carry nothing over from one batch to the next, whatever dst is.
func TestEncodersAreReusedCleanly(t *testing.T) {
	for codec := batch.CodecGzip; codec <= batch.CodecMax; codec++ {
		for _, body := range [][]byte{[]byte("a"), noise(100_000), {}, []byte(strings.Repeat("b", 300_000))} {
			out, err := compress([]byte("kept"), codec, body)
			if err != nil || !bytes.HasPrefix(out, []byte("kept")) {
				t.Fatalf("%v: %v", codec, err)
			}
			checkDecompress(t, codec, out[4:], body)
		}
	}
}
