package shard

import (
	"errors"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

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
