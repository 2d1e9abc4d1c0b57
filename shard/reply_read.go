package shard

import (
	"errors"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// holds says whether the log may have a record at or after offset and below limit. Where a start resumed behind a gap
// there is none.
func (p *partition) holds(offset, limit uint64) bool {
	if p.gapFrom <= offset && offset < p.gapTo {
		offset = p.gapTo
	}
	return offset < min(limit, uint64(p.log.LogEnd()))
}

// isEmpty notes that r found nothing from its offset up to the log end: a gap at the end of what a start recovered. It
// keeps a reader there from being called again and again.
func (p *partition) isEmpty(r *disk.Read) {
	p.gapFrom, p.gapTo = uint64(r.From.Offset), uint64(p.log.LogEnd())
}

// codeOf is the answer to r. An offset within the log's bounds is never out of range, whatever gap it lies in.
func (p *partition) codeOf(r *disk.Read) frame.ErrorCode {
	code := codeOfRead(r.Err)
	if code == frame.ErrOffsetOutOfRange && r.From.Skip == 0 && r.From.Offset >= p.log.LogStart() && uint64(r.From.Offset) <= p.high {
		return frame.ErrNone
	}
	if code != frame.ErrNone && p.deleted { // whatever the log says on its way out
		return frame.ErrUnknownTopic
	}
	return code
}

// codeOfRead is the wire's word for what a read of the store answered.
func codeOfRead(err error) frame.ErrorCode {
	switch {
	case err == nil:
		return frame.ErrNone
	case errors.Is(err, disk.ErrOutOfRange):
		return frame.ErrOffsetOutOfRange
	case errors.Is(err, disk.ErrBusy):
		return frame.ErrBusy
	case errors.Is(err, disk.ErrFenced), errors.Is(err, disk.ErrFailed), errors.Is(err, disk.ErrClosing):
		return frame.ErrFenced
	}
	return frame.ErrDamaged
}
