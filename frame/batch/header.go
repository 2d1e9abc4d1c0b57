package batch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Batch header, version 1: 96 bytes, little-endian. Golden bytes: testdata/*.hex.
//
//	at  size  field
//	 0     4  crc32c (Castagnoli) of bytes [4, 96)
//	 4     4  crc32c of the body
//	 8     4  body length, bytes
//	12     1  version
//	13     1  attributes: codec in bits 0 to 2, others zero
//	14     2  producer epoch
//	16     8  base offset; stamped by the broker
//	24     4  last offset delta: offset of the last record minus base offset
//	28     4  record count
//	32     8  epoch of the partition; stamped
//	40     8  base timestamp, Unix ms, the producer's; records hold deltas to it
//	48     8  max timestamp, Unix ms, the producer's
//	56     8  append time, Unix ms, never decreasing in a partition; stamped
//	64     8  producer id, NoProducer for none
//	72     4  base sequence, of the first record
//	76     4  partition tag; stamped
//	80     8  expiry, Unix ms; NoExpiry for never
//	88     8  reserved, zero; a reader refuses anything else
const (
	HeaderCRCAt       = 0
	BodyCRCAt         = 4
	BodyBytesAt       = 8
	VersionAt         = 12
	AttributesAt      = 13
	ProducerEpochAt   = 14
	BaseOffsetAt      = 16
	LastOffsetDeltaAt = 24
	CountAt           = 28
	EpochAt           = 32
	BaseTimeAt        = 40
	MaxTimeAt         = 48
	AppendTimeAt      = 56
	ProducerIDAt      = 64
	BaseSequenceAt    = 72
	PartitionTagAt    = 76
	ExpiryAt          = 80
	ReservedAt        = 88

	HeaderBytes = 96
)

// Version of the header and of the record encoding that the decoders know.
const Version = 1

// Values that mean none.
const (
	NoProducer = 0 // producer id of a batch that is not de-duplicated; its producer epoch and sequence are 0
	NoExpiry   = 0
)

// Offset is the number of a record in its partition. Offsets stay below 2^63.
type Offset uint64

// Header is a decoded batch header; field meanings are in the table above.
type Header struct {
	HeaderCRC, BodyCRC, BodyBytes uint32
	Version, Attributes           uint8
	ProducerEpoch                 uint16
	BaseOffset                    uint64
	LastOffsetDelta, Count        uint32
	Epoch                         uint64
	BaseTime, MaxTime, AppendTime int64
	ProducerID                    uint64
	BaseSequence, PartitionTag    uint32
	Expiry                        int64
}

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ParseHeader decodes the first 96 bytes of p and checks all that can be said without the body.
//
// Errors: ErrShort, ErrHeaderCRC, ErrVersion, ErrAttributes, ErrReserved, ErrCount. Cost: about 20 ns, no allocation.
func ParseHeader(p []byte) (Header, error) {
	if len(p) < HeaderBytes {
		return Header{}, ErrShort
	}
	p = p[:HeaderBytes]
	h := decode(p)
	switch {
	case h.HeaderCRC != crc32.Checksum(p[BodyCRCAt:], castagnoli):
		return h, ErrHeaderCRC
	case h.Version != Version:
		return h, ErrVersion
	case h.Codec() > CodecMax || h.Attributes&^codecMask != 0:
		return h, ErrAttributes
	case le.Uint64(p[ReservedAt:]) != 0:
		return h, ErrReserved
	}
	return h, h.checkCount()
}

// checkCount refuses headers whose numbers contradict each other, for batches new and old.
func (h *Header) checkCount() error {
	switch {
	case h.Count == 0, h.Count-1 > h.LastOffsetDelta, h.LastOffsetDelta > math.MaxInt32:
		return ErrCount
	case h.BaseOffset > math.MaxInt64-uint64(h.LastOffsetDelta):
		return ErrCount
	case h.Codec() == CodecNone && uint64(h.Count)*RecordMinBytes > uint64(h.BodyBytes):
		return ErrCount
	}
	return nil
}

// CheckProduced holds what a broker asks of a producer's header beyond ParseHeader: no gaps in the offsets, and nothing
// about a producer where there is none.
func (h *Header) CheckProduced() error {
	switch {
	case h.LastOffsetDelta != h.Count-1:
		return ErrCount
	case h.ProducerID == NoProducer && (h.ProducerEpoch != 0 || h.BaseSequence != 0):
		return ErrProducer
	case h.MaxTime < h.BaseTime, h.Expiry < 0:
		return ErrTime
	}
	return nil
}

// LastOffset is the offset of the batch's last record.
func (h *Header) LastOffset() uint64 { return h.BaseOffset + uint64(h.LastOffsetDelta) }

// NextOffset is the offset that follows the batch.
func (h *Header) NextOffset() uint64 { return h.LastOffset() + 1 }

// TotalBytes is the size of header and body.
func (h *Header) TotalBytes() int64 { return HeaderBytes + int64(h.BodyBytes) }

// Append writes the header with its CRC computed anew; h.HeaderCRC is not looked at.
func (h *Header) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderBytes)...)
	h.encode(dst[start:])
	return dst
}

// Stamp writes what the broker adds into the header at the start of p, in place, and computes its CRC anew. appendTime is
// Unix ms. The caller has checked the header and owns p.
func Stamp(p []byte, baseOffset, epoch uint64, appendTime int64, tag uint32) {
	p = p[:HeaderBytes]
	le.PutUint64(p[BaseOffsetAt:], baseOffset)
	le.PutUint64(p[EpochAt:], epoch)
	le.PutUint64(p[AppendTimeAt:], uint64(appendTime))
	le.PutUint32(p[PartitionTagAt:], tag)
	le.PutUint32(p[HeaderCRCAt:], crc32.Checksum(p[BodyCRCAt:], castagnoli))
}

// PartitionTag ties a batch to its place: the crc32c of directory id, topic id and partition (both u32 little-endian). A
// block that was read from the wrong place shows another one. Cost: one small allocation; kept per partition, not per batch.
func PartitionTag(dirID [16]byte, topic, partition uint32) uint32 {
	var b [24]byte
	copy(b[:], dirID[:])
	le.PutUint32(b[16:], topic)
	le.PutUint32(b[20:], partition)
	return crc32.Checksum(b[:], castagnoli)
}

func decode(p []byte) Header {
	return Header{
		HeaderCRC:       le.Uint32(p[HeaderCRCAt:]),
		BodyCRC:         le.Uint32(p[BodyCRCAt:]),
		BodyBytes:       le.Uint32(p[BodyBytesAt:]),
		Version:         p[VersionAt],
		Attributes:      p[AttributesAt],
		ProducerEpoch:   le.Uint16(p[ProducerEpochAt:]),
		BaseOffset:      le.Uint64(p[BaseOffsetAt:]),
		LastOffsetDelta: le.Uint32(p[LastOffsetDeltaAt:]),
		Count:           le.Uint32(p[CountAt:]),
		Epoch:           le.Uint64(p[EpochAt:]),
		BaseTime:        int64(le.Uint64(p[BaseTimeAt:])),
		MaxTime:         int64(le.Uint64(p[MaxTimeAt:])),
		AppendTime:      int64(le.Uint64(p[AppendTimeAt:])),
		ProducerID:      le.Uint64(p[ProducerIDAt:]),
		BaseSequence:    le.Uint32(p[BaseSequenceAt:]),
		PartitionTag:    le.Uint32(p[PartitionTagAt:]),
		Expiry:          int64(le.Uint64(p[ExpiryAt:])),
	}
}

func (h *Header) encode(p []byte) {
	le.PutUint32(p[BodyCRCAt:], h.BodyCRC)
	le.PutUint32(p[BodyBytesAt:], h.BodyBytes)
	p[VersionAt] = h.Version
	p[AttributesAt] = h.Attributes
	le.PutUint16(p[ProducerEpochAt:], h.ProducerEpoch)
	le.PutUint64(p[BaseOffsetAt:], h.BaseOffset)
	le.PutUint32(p[LastOffsetDeltaAt:], h.LastOffsetDelta)
	le.PutUint32(p[CountAt:], h.Count)
	le.PutUint64(p[EpochAt:], h.Epoch)
	le.PutUint64(p[BaseTimeAt:], uint64(h.BaseTime))
	le.PutUint64(p[MaxTimeAt:], uint64(h.MaxTime))
	le.PutUint64(p[AppendTimeAt:], uint64(h.AppendTime))
	le.PutUint64(p[ProducerIDAt:], h.ProducerID)
	le.PutUint32(p[BaseSequenceAt:], h.BaseSequence)
	le.PutUint32(p[PartitionTagAt:], h.PartitionTag)
	le.PutUint64(p[ExpiryAt:], uint64(h.Expiry))
	le.PutUint64(p[ReservedAt:], 0)
	le.PutUint32(p[HeaderCRCAt:], crc32.Checksum(p[BodyCRCAt:HeaderBytes], castagnoli))
}
