package client

import (
	"fmt"
	"io"

	"github.com/slipringmq/slipring/frame"
)

const (
	inBufferStart = 64 << 10
	inBufferMax   = frame.HeaderBytes + frame.MaxPayload
)

// instream cuts a byte stream into frames. It believes no length: the buffer never grows above one frame of the greatest
// size, whatever the peer claims.
type instream struct {
	r          io.Reader
	buf        []byte
	start, end int // unread bytes
}

func newInstream(r io.Reader) *instream { return &instream{r: r, buf: make([]byte, inBufferStart)} }

// next reads one frame. The payload aliases the buffer until the next call.
//
// Errors: that of the reader; ErrProtocol when the bytes are not a reply frame of this version.
func (s *instream) next() (frame.Header, []byte, error) {
	if err := s.fill(frame.HeaderBytes); err != nil {
		return frame.Header{}, nil, err
	}
	h, err := frame.ParseHeader(s.buf[s.start:s.end])
	if err != nil {
		return h, nil, fmt.Errorf("%w: %v", ErrProtocol, err)
	}
	if !h.Reply() {
		return h, nil, fmt.Errorf("%w: %v without the reply flag", ErrProtocol, h.Command)
	}
	n := frame.HeaderBytes + h.PayloadBytes()
	if err := s.fill(n); err != nil {
		return h, nil, err
	}
	payload := s.buf[s.start+frame.HeaderBytes : s.start+n : s.start+n]
	s.start += n
	return h, payload, nil
}

// fill reads until n unread bytes are in one piece, n at most inBufferMax.
func (s *instream) fill(n int) error {
	if s.end-s.start >= n {
		return nil
	}
	if s.start+n > len(s.buf) {
		s.makeRoom(n)
	}
	for s.end-s.start < n {
		m, err := s.r.Read(s.buf[s.end:])
		s.end += m
		if err != nil && s.end-s.start < n {
			if err == io.EOF && s.end > s.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

func (s *instream) makeRoom(n int) {
	buf := s.buf
	if n > len(buf) {
		size := len(buf)
		for size < n {
			size *= 4
		}
		buf = make([]byte, min(size, inBufferMax))
	}
	s.end = copy(buf, s.buf[s.start:s.end])
	s.start = 0
	s.buf = buf
}
