package client

import (
	"time"

	"github.com/slipringmq/slipring/frame/batch"
)

// Header is one header of a record. Keys may repeat.
type Header = batch.RecordHeader

// Record is one message. A producer reads Key, Value, Headers, UnixMillis and, with Explicit, Partition, and keeps none of
// the memory; the rest is what a consumer fills in. What a consumer hands out is the caller's to keep: it is never
// written again, but a Value that is kept holds the memory of everything that came with it.
type Record struct {
	Key        []byte // nil: none, which is not the same as empty
	Value      []byte
	Headers    []Header
	UnixMillis int64 // the producer's time; 0 on producing: now
	Partition  uint32

	Offset       uint64
	AppendMillis int64 // Unix ms, the broker's time, never decreasing in a partition
}

// Time is the producer's time.
func (r *Record) Time() time.Time { return time.UnixMilli(r.UnixMillis) }

// Result is what became of one produced record.
type Result struct {
	Partition    uint32
	Offset       uint64 // meaningless without an acknowledgement: Err, or acks none
	AppendMillis int64
	Err          error
}
