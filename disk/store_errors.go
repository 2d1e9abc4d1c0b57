package disk

import "errors"

// The answers of a store and its logs that a caller tells apart. None is built per call.
var (
	// ErrBusy: nothing was staged; ask again later. The staged bound, the journal's produce share or memory is used up,
	// or the journal is stalled.
	ErrBusy = errors.New("disk: busy, nothing staged")
	// ErrFailed: the journal failed and nothing is acknowledged from this shard any more.
	ErrFailed = errors.New("disk: the journal failed; restart to recover")
	// ErrFenced: this partition takes no more appends; what it holds is still served.
	ErrFenced = errors.New("disk: partition is fenced")
	// ErrTooLarge: an entry or batch above its bound; nothing was staged.
	ErrTooLarge = errors.New("disk: too large")
	// ErrOutOfRange: an offset outside [log start, log end].
	ErrOutOfRange = errors.New("disk: offset out of range")
	// ErrDamaged: the bytes on the medium are not what was written. Errors that wrap it name the offsets.
	ErrDamaged = errors.New("disk: damaged")
	// ErrClosing: the store is being closed; nothing was staged.
	ErrClosing = errors.New("disk: closing")
)
