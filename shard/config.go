package shard

import (
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// Config is what a shard is built with; it does not change afterwards.
type Config struct {
	Shard, Shards int
	DirectoryID   [16]byte
	Start         uint64           // number of this start: the epoch of everything appended in it
	Endpoints     []frame.Endpoint // what METADATA names; entry i is shard i's
	Defaults      frame.Settings   // of topics, where their creator names nothing
	Limits        Limits           // zero fields take DefaultLimits
	Version       string           // of the broker, for events
	Disk          disk.Config      // Shard, Start and DirectoryID are filled in from above

	// Report tells people what happened: level is debug, info, warn or error, args are key, value, key, value. Never
	// called per message. May be nil.
	Report func(level, event string, args ...any)
}

// Limits bound what clients can make a shard hold. Every one of them has a typed answer on the wire.
type Limits struct {
	Topics         int    // ErrLimit
	Partitions     int    // of all topics together; ErrLimit
	MetaPending    int    // CREATE, DELETE, ALTER and PRODUCER ID waiting for their flush; ErrBusy
	MaxRecordBytes uint32 // greatest MaxRecordBytes a topic may have; ErrInvalidSetting

	ProduceWindow int // bytes of unanswered PRODUCE and PUBLISH of a connection, told by HELLO; ErrBusy
	Uploads       int // PRODUCE requests of a connection whose parts are arriving; ErrLimit
	UploadBytes   int // held by unfinished frames, whole shard; ErrBusy, and the body is discarded
	Waits         int // FETCH and LIST OFFSETS of a connection that are not answered; ErrLimit
	FetchBytes    int // greatest reply to a FETCH; a greater wish is cut to it
	FetchMillis   int // longest wait of a FETCH; a longer wish is cut to it
	Subscriptions int // of a connection; ErrLimit
	Producers     int // idempotent producers a partition remembers; the one idle for longest is forgotten

	OutputHigh  int // queued output of a connection at which streams pause until Drained; the loop's high water mark
	HandOut     int // queued output of a connection above which a topic with storage none drops; OutputHigh while memory is short
	OutputPause int // queued output at which the connection is not read any more

	HelloNanos    int64 // from accept to a complete HELLO
	FrameNanos    int64 // a frame in progress must bring FrameMinBytes in every such time
	FrameMinBytes int
	RetryMillis   uint32 // delay told with ErrBusy
}

// DefaultLimits suit a broker with a few hundred MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Topics:         100_000,
		Partitions:     200_000,
		MetaPending:    1024,
		MaxRecordBytes: 16 << 20,
		ProduceWindow:  32 << 20,
		Uploads:        8,
		UploadBytes:    64 << 20,
		Waits:          256,
		FetchBytes:     64 << 20,
		FetchMillis:    120_000,
		Subscriptions:  10_000,
		Producers:      1000,
		OutputHigh:     256 << 10,
		HandOut:        2 << 20,
		OutputPause:    4 << 20,
		HelloNanos:     5e9,
		FrameNanos:     10e9,
		FrameMinBytes:  64 << 10,
		RetryMillis:    20,
	}
}

func orDefault[T int | int64 | uint32](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	l, d := &c.Limits, DefaultLimits()
	orDefault(&l.Topics, d.Topics)
	orDefault(&l.Partitions, d.Partitions)
	orDefault(&l.MetaPending, d.MetaPending)
	orDefault(&l.MaxRecordBytes, d.MaxRecordBytes)
	orDefault(&l.ProduceWindow, d.ProduceWindow)
	orDefault(&l.Uploads, d.Uploads)
	orDefault(&l.UploadBytes, d.UploadBytes)
	orDefault(&l.Waits, d.Waits)
	orDefault(&l.FetchBytes, d.FetchBytes)
	orDefault(&l.FetchMillis, d.FetchMillis)
	orDefault(&l.Subscriptions, d.Subscriptions)
	orDefault(&l.Producers, d.Producers)
	orDefault(&l.OutputHigh, d.OutputHigh)
	orDefault(&l.HandOut, d.HandOut)
	orDefault(&l.OutputPause, d.OutputPause)
	orDefault(&l.HelloNanos, d.HelloNanos)
	orDefault(&l.FrameNanos, d.FrameNanos)
	orDefault(&l.FrameMinBytes, d.FrameMinBytes)
	orDefault(&l.RetryMillis, d.RetryMillis)
	c.Defaults = frame.DefaultSettings().Merge(c.Defaults)
	c.Defaults.MaxRecordBytes = min(c.Defaults.MaxRecordBytes, l.MaxRecordBytes)
	c.Shards = max(c.Shards, 1)
	if c.Report == nil {
		c.Report = func(string, string, ...any) {}
	}
	c.Disk.Shard, c.Disk.Start, c.Disk.DirectoryID = c.Shard, c.Start, c.DirectoryID
	return c
}
