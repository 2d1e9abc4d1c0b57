package client

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// outgoing is one batch on its way: filled under the sender's lock, then owned by the sender's goroutine.
type outgoing struct {
	builder *batch.Builder // nil once sealed
	done    []func(Result) // of record i; shorter than the batch when the last ones have none
	records int
	charged int64 // bytes taken from the producer's gate
	born    time.Time

	buf       *buffer // header and body, sealed
	stamped   bool    // sequence is valid
	sequence  uint32
	state     state
	attempt   int  // a reply to an earlier one is not looked at
	uncertain bool // some attempt ended without an answer: it may have been carried out
	conn      *conn
	reply     frame.ProduceReply
	err       error // of settled
}

type state uint8

const (
	waiting  state = iota // to be sent, or sent again
	inFlight              // sent, without a reply yet
	settled               // acknowledged, or err says why not
)

var builders = sync.Pool{New: func() any { return new(batch.Builder) }}

func newOutgoing(baseTime int64, now time.Time) *outgoing {
	b := &outgoing{builder: builders.Get().(*batch.Builder), born: now}
	b.builder.Reset(baseTime)
	return b
}

// seal compresses and encodes; a batch that does not get smaller goes uncompressed.
func (b *outgoing) seal(codec batch.Codec) error {
	b.buf = newBuffer()
	body := b.builder.Body()
	if codec != batch.CodecNone {
		packed := newBuffer()
		defer packed.release()
		out, err := compress(packed.b, codec, body)
		if err != nil {
			return err
		}
		packed.b = out
		if len(out) < len(body) {
			body = out
		} else {
			codec = batch.CodecNone
		}
	}
	b.buf.b = grow(b.buf.b, batch.HeaderBytes+len(body))
	b.buf.b = b.builder.FinishCompressed(b.buf.b, codec, body, batch.Options{})
	if b.builder.Bytes() <= maxBatchBytes {
		builders.Put(b.builder)
	}
	b.builder = nil
	return nil
}

// stamp writes producer and sequence into the header. A buffer that a dying connection still holds is left alone.
func (b *outgoing) stamp(id frame.ProducerIDReply, sequence uint32) error {
	h, err := batch.ParseHeader(b.buf.b)
	if err != nil {
		return err // memory has gone bad: the header was written here
	}
	if b.buf.refs.Load() > 1 {
		own := newBuffer()
		own.b = append(own.b, b.buf.b...)
		b.buf.release()
		b.buf = own
	}
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = id.ProducerID, id.Epoch, sequence
	h.Append(b.buf.b[:0])
	b.stamped, b.sequence = true, sequence
	return nil
}

// fail settles the batch without success.
func (b *outgoing) fail(err error) {
	b.attempt++ // a late reply is not for it
	b.state = settled
	if b.uncertain && !errors.Is(err, ErrOutcomeUnknown) {
		err = fmt.Errorf("%w; %w", err, ErrOutcomeUnknown)
	}
	b.err = err
}

// report tells everybody what became of the records.
func (b *outgoing) report(p *Producer, partition uint32) {
	if b.err != nil {
		p.noteFailure(b.err)
	}
	if p.opts.OnBatch != nil {
		p.opts.OnBatch(BatchResult{Partition: partition, BaseOffset: b.reply.BaseOffset, Records: b.records, Bytes: b.bytes(), Err: b.err})
	}
	res := Result{Partition: partition, AppendMillis: b.reply.AppendTime, Err: b.err}
	for i, done := range b.done {
		if done != nil {
			res.Offset = b.reply.BaseOffset + uint64(i)
			done(res)
		}
	}
	if b.buf != nil {
		b.buf.release()
		b.buf = nil
	}
	p.room.give(b.charged)
}

func (b *outgoing) bytes() int {
	if b.buf == nil {
		return 0
	}
	return len(b.buf.b)
}
