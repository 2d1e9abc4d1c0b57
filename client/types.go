package client

import (
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// The protocol's types that the client's API speaks of, so that users need one import.
type (
	Settings         = frame.Settings
	Storage          = frame.Storage
	Durability       = frame.Durability
	TopicSummary     = frame.TopicSummary
	TopicDescription = frame.DescribeTopicReply
	PartitionInfo    = frame.PartitionInfo
	OffsetKind       = frame.OffsetKind
	OffsetAnswer     = frame.OffsetAnswer
	ErrorCode        = frame.ErrorCode
	Codec            = batch.Codec
)

// Values of Storage, Durability, OffsetKind and Codec.
const (
	StorageLog    = frame.StorageLog
	StorageMemory = frame.StorageMemory
	StorageNone   = frame.StorageNone

	DurabilitySync     = frame.DurabilitySync
	DurabilityInterval = frame.DurabilityInterval
	DurabilityNone     = frame.DurabilityNone

	OffsetStart  = frame.OffsetStart
	OffsetEnd    = frame.OffsetEnd
	OffsetByTime = frame.OffsetByTime

	CodecNone   = batch.CodecNone
	CodecGzip   = batch.CodecGzip
	CodecSnappy = batch.CodecSnappy
	CodecLZ4    = batch.CodecLZ4
	CodecZstd   = batch.CodecZstd
)

// Bits of Settings.Mask: which fields are meant.
const (
	SetStorage          = frame.SetStorage
	SetDurability       = frame.SetDurability
	SetIntervalMillis   = frame.SetIntervalMillis
	SetRetentionMillis  = frame.SetRetentionMillis
	SetRetentionBytes   = frame.SetRetentionBytes
	SetRetentionRecords = frame.SetRetentionRecords
	SetRetentionAcked   = frame.SetRetentionAcked
	SetMaxRecordBytes   = frame.SetMaxRecordBytes
	SetSegmentBytes     = frame.SetSegmentBytes

	NoLimit = frame.NoLimit // of the retentions
)

// ParseStorage reads "log", "memory" or "none".
func ParseStorage(s string) (Storage, error) { return frame.ParseStorage(s) }

// ParseDurability reads "sync", "interval" or "none".
func ParseDurability(s string) (Durability, error) { return frame.ParseDurability(s) }

// ParseCodec reads "none", "gzip", "snappy", "lz4" or "zstd"; false for any other name.
func ParseCodec(s string) (Codec, bool) { return batch.ParseCodec(s) }

// ParseAcks reads "none", "leader" or "durable", and "" as AcksStrongest.
func ParseAcks(s string) (Acks, error) {
	if s == "" {
		return AcksStrongest, nil
	}
	a, err := frame.ParseAcks(s)
	return AcksNone + Acks(a), err
}
