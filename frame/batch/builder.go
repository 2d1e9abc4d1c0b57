package batch

import "hash/crc32"

// RecordMinBytes is the least size of an encoded record: length, attributes, two deltas, and an empty key, value and
// header array, one byte each.
const RecordMinBytes = 7

// recordFramingMax bounds what a record costs beside key, value and headers: length 5, attributes 1, time delta 10, offset
// delta 5, three lengths of 5. A header adds two lengths.
const (
	recordFramingMax = 5 + 1 + 10 + 5 + 3*5
	headerFramingMax = 2 * 5
)

// RecordHeader is one header of a record to be built. Keys may repeat.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Options are the header fields that a producer chooses. The zero value is no producer and no expiry.
type Options struct {
	ProducerID    uint64
	ProducerEpoch uint16
	BaseSequence  uint32
	Expiry        int64 // Unix ms
}

// Builder encodes records into a batch. It keeps its buffer between batches and allocates nothing once that has grown. The
// caller bounds the batch by Bytes and MaxRecordBytes. The zero value is ready after Reset.
type Builder struct {
	body     []byte
	count    uint32
	baseTime int64
	maxTime  int64
}

// MaxRecordBytes bounds what Add will append for these parts.
func MaxRecordBytes(key, value []byte, headers []RecordHeader) int {
	return recordFramingMax + PayloadBytes(key, value, headers) + headerFramingMax*len(headers)
}

// PayloadBytes is what a topic's bound on a record counts: key, value and headers.
func PayloadBytes(key, value []byte, headers []RecordHeader) int {
	n := len(key) + len(value)
	for i := range headers {
		n += len(headers[i].Key) + len(headers[i].Value)
	}
	return n
}

// Reset begins an empty batch. baseTime is Unix ms, the time of the first record as a rule.
func (b *Builder) Reset(baseTime int64) {
	b.body = b.body[:0]
	b.count = 0
	b.baseTime = baseTime
	b.maxTime = baseTime
}

// Add appends a record and copies its parts. Without hasKey the key is absent, which is not the same as empty; a nil value
// is an empty one. time is Unix ms.
func (b *Builder) Add(key []byte, hasKey bool, value []byte, headers []RecordHeader, time int64) {
	b.maxTime = max(b.maxTime, time)
	timeDelta, keyLen := time-b.baseTime, int64(-1)
	if hasKey {
		keyLen = int64(len(key))
	} else {
		key = nil
	}
	size := 1 + varintBytes(timeDelta) + varintBytes(int64(b.count)) +
		varintBytes(keyLen) + len(key) + varintBytes(int64(len(value))) + len(value) + headersBytes(headers)

	dst := appendVarint(b.body, int64(size))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, timeDelta)
	dst = appendVarint(dst, int64(b.count))
	dst = append(appendVarint(dst, keyLen), key...)
	dst = append(appendVarint(dst, int64(len(value))), value...)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		dst = append(appendVarint(dst, int64(len(h.Key))), h.Key...)
		dst = append(appendVarint(dst, int64(len(h.Value))), h.Value...)
	}
	b.body = dst
	b.count++
}

// Len is the number of records added.
func (b *Builder) Len() int { return int(b.count) }

// Bytes is the size of the batch so far, header included.
func (b *Builder) Bytes() int { return HeaderBytes + len(b.body) }

// Body is the encoded records, valid until the next Add or Reset: what a client compresses.
func (b *Builder) Body() []byte { return b.body }

// Finish appends the batch, uncompressed, to dst. At least one record must have been added.
func (b *Builder) Finish(dst []byte, o Options) []byte {
	return b.FinishCompressed(dst, CodecNone, b.body, o)
}

// FinishCompressed appends the batch with body, which is Body compressed by codec.
func (b *Builder) FinishCompressed(dst []byte, codec Codec, body []byte, o Options) []byte {
	h := Header{
		BodyCRC:         crc32.Checksum(body, castagnoli),
		BodyBytes:       uint32(len(body)),
		Version:         Version,
		Attributes:      uint8(codec),
		ProducerEpoch:   o.ProducerEpoch,
		LastOffsetDelta: b.count - 1,
		Count:           b.count,
		BaseTime:        b.baseTime,
		MaxTime:         b.maxTime,
		ProducerID:      o.ProducerID,
		BaseSequence:    o.BaseSequence,
		Expiry:          o.Expiry,
	}
	return append(h.Append(dst), body...)
}

func headersBytes(headers []RecordHeader) int {
	n := varintBytes(int64(len(headers)))
	for i := range headers {
		k, v := len(headers[i].Key), len(headers[i].Value)
		n += varintBytes(int64(k)) + k + varintBytes(int64(v)) + v
	}
	return n
}
