package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/slipringmq/slipring/frame/batch"
)

// Kind says what a journal entry holds.
type Kind uint8

const (
	KindAppend    Kind = 1  // placement (segment base, epoch, position) and the stamped batch
	KindReference Kind = 2  // placement, length and the 96-byte batch header; the body is in the segment already
	KindTrim      Kind = 3  // new log start, u64: durable before anything is unlinked
	KindDrop      Kind = 4  // the partition is deleted
	KindShard     Kind = 16 // this and above: the shard's own, opaque to disk
)

// Entry is one journal entry as it is replayed. It and what it points to are valid during the call only.
type Entry struct {
	Key          Key
	Index, Epoch uint64
	Kind         Kind
	Payload      []byte       // KindShard and above: as staged
	Header       batch.Header // KindAppend, KindReference
	Trim         batch.Offset // KindTrim
}

// Journal entry, version 1: a 40-byte header and its payload, little-endian, without padding. Golden bytes:
// testdata/entry_v1.hex. An entry lies in one commit group and may run over its blocks.
//
//	at  size  field
//	 0     4  crc32c (Castagnoli) of [4, 40 + payload length)
//	 4     4  payload length, bytes, at most maxPayloadBytes
//	 8     4  topic
//	12     4  partition
//	16     8  index: dense for each partition, from 1
//	24     8  epoch
//	32     1  kind
//	33     1  version, 1
//	34     6  reserved, zero; a reader refuses anything else
const (
	entryCRCAt, entryLengthAt, entryTopicAt, entryPartitionAt = 0, 4, 8, 12
	entryIndexAt, entryEpochAt, entryKindAt, entryVersionAt   = 16, 24, 32, 33
	entryReservedAt                                           = 34

	entryHeaderBytes = 40
	entryVersion     = 1

	// maxPayloadBytes bounds a payload: batches below DirectBytes and notes of 64 KiB, with their placement.
	maxPayloadBytes = 512 << 10

	// maxNoteBytes is the longest payload that Note takes.
	maxNoteBytes = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errEntry is every reason not to believe the bytes of an entry; the caller knows where they came from.
var errEntry = errors.New("disk: journal entry does not check")

// entryHeader is the fixed part of an entry. Payload belongs to the bytes it was parsed from.
type entryHeader struct {
	Key          Key
	Index, Epoch uint64
	Kind         Kind
	Payload      []byte
}

// putEntryHeader writes the header for a payload given in parts into dst, which holds entryHeaderBytes.
func putEntryHeader(dst []byte, k Key, kind Kind, index, epoch uint64, parts [3][]byte) {
	length := len(parts[0]) + len(parts[1]) + len(parts[2])
	binary.LittleEndian.PutUint32(dst[entryLengthAt:], uint32(length))
	binary.LittleEndian.PutUint32(dst[entryTopicAt:], k.Topic)
	binary.LittleEndian.PutUint32(dst[entryPartitionAt:], k.Partition)
	binary.LittleEndian.PutUint64(dst[entryIndexAt:], index)
	binary.LittleEndian.PutUint64(dst[entryEpochAt:], epoch)
	dst[entryKindAt], dst[entryVersionAt] = byte(kind), entryVersion
	clear(dst[entryReservedAt:entryHeaderBytes])
	crc := crc32.Update(0, castagnoli, dst[entryLengthAt:entryHeaderBytes])
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	binary.LittleEndian.PutUint32(dst[entryCRCAt:], crc)
}

// parseEntry reads the entry at the start of p and returns the bytes behind it. It believes nothing before the CRC fits;
// the length is bounded by p.
func parseEntry(p []byte) (e entryHeader, rest []byte, err error) {
	if len(p) < entryHeaderBytes {
		return e, nil, errEntry
	}
	length := int(binary.LittleEndian.Uint32(p[entryLengthAt:]))
	if length > maxPayloadBytes || length > len(p)-entryHeaderBytes {
		return e, nil, errEntry
	}
	end := entryHeaderBytes + length
	if crc32.Checksum(p[entryLengthAt:end], castagnoli) != binary.LittleEndian.Uint32(p[entryCRCAt:]) {
		return e, nil, errEntry
	}
	if p[entryVersionAt] != entryVersion || [6]byte(p[entryReservedAt:entryHeaderBytes]) != [6]byte{} {
		return e, nil, errEntry
	}
	e = entryHeader{
		Key: Key{
			Topic:     binary.LittleEndian.Uint32(p[entryTopicAt:]),
			Partition: binary.LittleEndian.Uint32(p[entryPartitionAt:]),
		},
		Index:   binary.LittleEndian.Uint64(p[entryIndexAt:]),
		Epoch:   binary.LittleEndian.Uint64(p[entryEpochAt:]),
		Kind:    Kind(p[entryKindAt]),
		Payload: p[entryHeaderBytes:end:end],
	}
	if e.Index == 0 || e.Kind == 0 {
		return entryHeader{}, nil, errEntry
	}
	return e, p[end:], nil
}
