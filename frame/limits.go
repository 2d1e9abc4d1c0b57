package frame

import "github.com/slipringmq/slipring/frame/batch"

// Bounds that a decoder checks before a length sizes anything. They are part of the protocol: a client may rely on them.
const (
	MaxPayloadBeforeAuth = 4 << 10  // HELLO and AUTH; a connection that nobody vouches for holds no more
	MaxPublishPayload    = 64 << 10 // PUBLISH; longer records go by PRODUCE
	MaxNameBytes         = 255      // topic names, client names
	MaxMechanismBytes    = 32       // of AUTH
	MaxErrorText         = 1024     // bytes of Error.Text
	MaxHostBytes         = 255      // of an endpoint
	MaxEndpoints         = 1 << 16  // TopicMetadata.Partitions holds u16 indexes
	MaxMetadataTopics    = 1000     // names in one METADATA
	MaxTopicPartitions   = 10_000   // partitions of one topic
	MaxListTopics        = 10_000   // topics on one page of LIST TOPICS
	MaxFetchPartitions   = 10_000   // of one FETCH
	MaxOffsetQueries     = 10_000   // of one LIST OFFSETS

	// MaxReplyBytes bounds the joined parts of a reply that is decoded as one piece (METADATA, LIST TOPICS, DESCRIBE
	// TOPIC, LIST OFFSETS). It is above what the limits of these replies add up to.
	MaxReplyBytes = 64 << 20
)

// Sizes of the fixed fields of the hot messages, in bytes of payload.
const (
	ProduceFixedBytes    = 12
	ProduceReplyBytes    = 32
	PublishFixedBytes    = 12
	FetchFixedBytes      = 16
	FetchPartitionBytes  = 20
	FetchChunkFixedBytes = 32
	DeliverFixedBytes    = 12
	CreditBytes          = 16
)

// MaxBatchBytes is the greatest PRODUCE batch, header included, that a topic with this MaxRecordBytes takes: a body of
// 1 MiB, or of one record of the greatest size and 1 KiB of framing where that is more.
func MaxBatchBytes(maxRecordBytes uint32) uint64 {
	return batch.HeaderBytes + max(1<<20, uint64(maxRecordBytes)+1<<10)
}
