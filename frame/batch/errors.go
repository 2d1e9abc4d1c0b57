package batch

import "errors"

// Why bytes are not a batch. All but ErrShort and ErrRecordSize are the wire's Corrupt.
var (
	ErrShort      = errors.New("batch: bytes end before the batch does")
	ErrHeaderCRC  = errors.New("batch: header checksum is wrong")
	ErrBodyCRC    = errors.New("batch: body checksum is wrong")
	ErrBodyBytes  = errors.New("batch: body length differs from the header's")
	ErrVersion    = errors.New("batch: unknown version")
	ErrAttributes = errors.New("batch: unknown attribute")
	ErrReserved   = errors.New("batch: reserved bytes are not zero")
	ErrCount      = errors.New("batch: record count, offset span and body length contradict each other")
	ErrProducer   = errors.New("batch: producer epoch or sequence without a producer id")
	ErrTime       = errors.New("batch: max timestamp before base timestamp, or negative expiry")
	ErrRecord     = errors.New("batch: a record does not parse")
	ErrDelta      = errors.New("batch: offset deltas are not 0, 1, 2 and so on")
	ErrTrailing   = errors.New("batch: bytes after the last record")
	ErrRecordSize = errors.New("batch: a record is larger than the topic allows")
)
