package client

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/slipringmq/slipring/frame/batch"
)

// The codecs are Kafka's, and so are their framings: gzip members, snappy as one raw block (readers also take the framing
// of the Java client), lz4 frames, zstd frames. Encoders are pooled: building one costs far more than a batch.

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return newLZ4Writer() }}
	zstdWriters = sync.Pool{New: func() any { return newZstdWriter() }}
)

func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(nil)
	// One goroutine: batches are small and several partitions compress at once.
	if err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
		return lz4.NewWriter(nil)
	}
	return w
}

func newZstdWriter() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("client: zstd options: " + err.Error()) // constants above; a test builds one
	}
	return w
}

// compress appends the compressed body to dst. It keeps neither.
func compress(dst []byte, codec batch.Codec, body []byte) ([]byte, error) {
	switch codec {
	case batch.CodecNone:
		return append(dst, body...), nil
	case batch.CodecSnappy:
		n := s2.MaxEncodedLen(len(body))
		if n < 0 {
			return nil, fmt.Errorf("client: %d bytes are too many for snappy", len(body))
		}
		dst = grow(dst, n)
		return dst[:len(dst)+len(s2.EncodeSnappy(dst[len(dst):len(dst)+n], body))], nil
	case batch.CodecZstd:
		w := zstdWriters.Get().(*zstd.Encoder)
		defer zstdWriters.Put(w)
		return w.EncodeAll(body, dst), nil
	case batch.CodecGzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		return closeInto(out, w, body)
	case batch.CodecLZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		return closeInto(out, w, body)
	}
	return nil, fmt.Errorf("client: compression %d is not defined", codec)
}

type writeCloser interface {
	Write([]byte) (int, error)
	Close() error
}

func closeInto(out *bytes.Buffer, w writeCloser, body []byte) ([]byte, error) {
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// grow makes room for n more bytes behind dst.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	bigger := make([]byte, len(dst), len(dst)+n)
	copy(bigger, dst)
	return bigger
}
