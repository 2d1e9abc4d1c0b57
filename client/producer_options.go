package client

import (
	"fmt"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// Acks says what the acknowledgement of a record waits for.
type Acks uint8

// The zero value asks for the strongest that the topic offers.
const (
	AcksStrongest Acks = iota
	AcksNone           // no acknowledgement: lost records are not noticed
	AcksLeader         // in the broker's memory
	AcksDurable        // on stable media
)

// ProducerOptions of Client.Producer. The zero value of each field is its default.
type ProducerOptions struct {
	Acks        Acks
	Partitioner Partitioner // default KeyHash
	Compression batch.Codec // default none

	// Linger is how long records gather into a batch. The default, 0, gathers only while an earlier batch of the partition
	// is on its way: a lone record goes at once, many share the next batch.
	Linger time.Duration

	BatchBytes       int           // size of a batch before compression; default 256 KiB, at most 1 MiB; a larger record travels alone
	MaxInFlight      int           // unanswered batches per partition; default and most 5, what a broker remembers to refuse duplicates
	MaxBufferedBytes int           // records not yet acknowledged; Produce blocks above; default 64 MiB
	DeliveryTimeout  time.Duration // from Produce to the end of retries; default 2 min

	// NotIdempotent gives up sequence numbers: a retry may then store a record twice and change the order.
	NotIdempotent bool

	// OnBatch is called for each finished batch, before the callbacks of its records, one call at a time per partition.
	OnBatch func(BatchResult)
}

// BatchResult is what became of one batch.
type BatchResult struct {
	Partition  uint32
	BaseOffset uint64 // meaningless without an acknowledgement
	Records    int
	Bytes      int // as sent: header and compressed body
	Err        error
}

const (
	maxInFlight   = 5
	maxBatchBytes = batch.HeaderBytes + 1<<20
)

func (o ProducerOptions) withDefaults() ProducerOptions {
	if o.Partitioner == nil {
		o.Partitioner = KeyHash()
	}
	setDefault(&o.BatchBytes, 256<<10)
	setDefault(&o.MaxInFlight, maxInFlight)
	setDefault(&o.MaxBufferedBytes, 64<<20)
	setDefault(&o.DeliveryTimeout, 2*time.Minute)
	o.BatchBytes = min(o.BatchBytes, maxBatchBytes)
	o.MaxInFlight = min(o.MaxInFlight, maxInFlight)
	return o
}

// resolve gives the wire's acks for a topic.
//
// Errors: ErrDurability, where durable is asked of a topic that does not keep its records or does not say when.
func (a Acks) resolve(t *topic) (frame.Acks, error) {
	durable := t.settings.Storage == frame.StorageLog && t.settings.Durability != frame.DurabilityNone
	switch {
	case a == AcksNone:
		return frame.AcksNone, nil
	case a == AcksDurable && !durable:
		return 0, &Error{Op: "produce " + t.name, Code: frame.ErrDurability, Text: fmt.Sprintf(
			"acks durable on a topic with storage %v and durability %v; use acks leader", t.settings.Storage, t.settings.Durability)}
	case a == AcksLeader || !durable:
		return frame.AcksLeader, nil
	}
	return frame.AcksDurable, nil
}
