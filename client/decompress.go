package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/slipringmq/slipring/frame/batch"
)

// errBomb is a body that inflates beyond the consumer's bound.
var errBomb = errors.New("decompressed body above the bound; raise MaxDecompressedBytes if the producer is trusted")

var (
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
)

// decompress gives the records of a body. At most limit bytes come out, whatever the body claims of itself: the output
// grows as it is produced and stops at the bound. The result is fresh memory unless codec is none.
func decompress(codec batch.Codec, body []byte, limit int, zd *zstdReader) ([]byte, error) {
	switch codec {
	case batch.CodecNone:
		return body, nil
	case batch.CodecSnappy:
		if bytes.HasPrefix(body, xerialMagic) {
			return decodeXerial(body, limit)
		}
		return decodeSnappy(nil, body, limit)
	case batch.CodecZstd:
		return zd.decode(body, limit)
	case batch.CodecGzip:
		r := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(r)
		if err := r.Reset(bytes.NewReader(body)); err != nil {
			return nil, err
		}
		return readBounded(r, len(body), limit)
	case batch.CodecLZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(body))
		return readBounded(r, len(body), limit)
	}
	return nil, fmt.Errorf("compression %d is not defined", codec)
}

func readBounded(r io.Reader, compressed, limit int) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, min(limit, 4*compressed+bytes.MinRead)))
	n, err := out.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if n > int64(limit) {
		return nil, errBomb
	}
	return out.Bytes(), nil
}

func decodeSnappy(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	// A snappy element makes at most 64 bytes of 3; a length beyond that is a lie and must not size anything.
	if n > limit-len(dst) || n > 64*len(block) {
		return nil, errBomb
	}
	out, err := s2.Decode(make([]byte, n), block)
	if err != nil {
		return nil, err
	}
	if dst == nil {
		return out, nil
	}
	return append(dst, out...), nil
}

// xerialMagic begins the framing of the Java snappy library: magic, two versions (u32 big-endian each), then blocks with a
// u32 big-endian length.
var xerialMagic = []byte{130, 83, 78, 65, 80, 80, 89, 0}

const xerialHeaderBytes = 16

func decodeXerial(p []byte, limit int) ([]byte, error) {
	if len(p) < xerialHeaderBytes {
		return nil, io.ErrUnexpectedEOF
	}
	p = p[xerialHeaderBytes:]
	out := []byte{}
	for len(p) > 0 {
		if len(p) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(p)
		p = p[4:]
		if uint64(n) > uint64(len(p)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = decodeSnappy(out, p[:n], limit); err != nil {
			return nil, err
		}
		p = p[n:]
	}
	return out, nil
}

// zstdReader decodes zstd frames up to a bound that belongs to the decoder, so each consumer has its own. Made on first
// use: most consumers never meet zstd.
type zstdReader struct {
	limit int
	d     *zstd.Decoder
}

func (z *zstdReader) decode(body []byte, limit int) ([]byte, error) {
	if z.d == nil || z.limit != limit {
		// The decoder's bound counts the window that a frame declares, too, which for a small body is larger than the body.
		bound := uint64(max(limit, 8<<20))
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(bound))
		if err != nil {
			return nil, err
		}
		z.d, z.limit = d, limit
	}
	out, err := z.d.DecodeAll(body, make([]byte, 0, min(limit, 4*len(body)+64)))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, errBomb
	}
	if err == nil && len(out) > limit {
		return nil, errBomb
	}
	return out, err
}
