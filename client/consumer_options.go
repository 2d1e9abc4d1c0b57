package client

import (
	"time"

	"github.com/slipringmq/slipring/frame"
)

// Position is where reading begins. The zero value is FromStart for a Consumer and FromEnd for a Subscription.
type Position struct {
	kind   positionKind
	offset uint64
	time   time.Time
}

type positionKind uint8

const (
	unset positionKind = iota
	atStart
	atEnd
	atOffset
	atTime
)

// FromStart begins at the first record that each partition still holds.
func FromStart() Position { return Position{kind: atStart} }

// FromEnd begins with what becomes readable from now on.
func FromEnd() Position { return Position{kind: atEnd} }

// FromOffset begins at an offset, the same in every partition consumed. One that a partition does not hold is an error
// with the valid range, never a jump.
func FromOffset(offset uint64) Position { return Position{kind: atOffset, offset: offset} }

// FromTime begins at the first record that the broker appended at t or later.
func FromTime(t time.Time) Position { return Position{kind: atTime, time: t} }

// ConsumerOptions of Client.Consumer. The zero value of each field is its default.
type ConsumerOptions struct {
	Partitions []uint32 // default all
	Start      Position

	// UntilEnd ends at the end that each partition had when the consumer was opened.
	UntilEnd bool

	MaxWait              time.Duration // of one long poll; default 5 s
	MinBytes             int           // that end a long poll; default 1
	MaxBytes             int           // of one reply; default 4 MiB; one batch may exceed it
	MaxPartitionBytes    int           // of one partition in a reply; default 1 MiB
	MaxDecompressedBytes int           // of one batch; default 16 MiB or, where that is more, the topic's max record
}

func (o ConsumerOptions) withDefaults(s frame.Settings) ConsumerOptions {
	setDefault(&o.MaxWait, 5*time.Second)
	setDefault(&o.MinBytes, 1)
	setDefault(&o.MaxBytes, 4<<20)
	setDefault(&o.MaxPartitionBytes, 1<<20)
	setDefault(&o.MaxDecompressedBytes, max(16<<20, int(min(s.MaxRecordBytes, frame.MaxRecordLimit)))+64<<10)
	return o
}
