package client

import (
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// fetch is one FETCH request and its reply.
type fetch struct {
	conn    *conn
	id      uint64
	topic   uint32
	asked   []asked // in the order of the request
	at      int     // index into asked of the latest chunk
	total   int     // bytes of the reply so far
	limit   int     // a reply above is not the protocol
	done    chan error
	stopped bool
}

// asked is one partition of a request and what came for it.
type asked struct {
	cursor *cursor
	seeks  int
	from   uint64
	data   []byte
	code   frame.ErrorCode
	first  uint64 // log start
	last   uint64 // high watermark
	seen   bool   // a chunk came
	void   bool   // the partition was paused while the request was under way: what came is dropped
}

// part implements receiver: the chunks of one part.
func (fl *fetch) part(_ frame.Header, payload []byte) error {
	for len(payload) > 0 {
		chunk, rest, err := frame.NextChunk(payload)
		if err != nil {
			return fmt.Errorf("%w: FETCH: %v", ErrProtocol, err)
		}
		payload = rest
		a := fl.find(&chunk)
		if a == nil {
			return fmt.Errorf("%w: FETCH answered for %d/%d, which was not asked for", ErrProtocol, chunk.Topic, chunk.Partition)
		}
		if fl.total += len(chunk.Data); fl.total > fl.limit {
			return fmt.Errorf("%w: FETCH reply above %d bytes", ErrProtocol, fl.limit)
		}
		a.data = append(a.data, chunk.Data...)
		if !a.seen || chunk.Error != 0 {
			a.code = chunk.Error
		}
		a.seen = true
		a.first, a.last = chunk.LogStart, chunk.HighWatermark
	}
	return nil
}

func (fl *fetch) find(c *frame.FetchChunk) *asked {
	if c.Topic != fl.topic {
		return nil
	}
	for range fl.asked { // chunks come in the order of the request, as a rule
		if fl.asked[fl.at].cursor.partition == c.Partition {
			return &fl.asked[fl.at]
		}
		fl.at = (fl.at + 1) % len(fl.asked)
	}
	return nil
}

// end implements receiver.
func (fl *fetch) end(err error) { fl.done <- err }
