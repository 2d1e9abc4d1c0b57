package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/slipringmq/slipring/frame/batch"
)

// The state log is a sequence of chunks, each durable before the next is written; their payloads are one stream of
// records, so a record may run over chunks. Golden bytes: testdata/chunk_v1.hex.
//
// Chunk, version 1: a 64-byte header, payload, zeros up to whole blocks, little-endian.
//
//	at  size  field
//	 0     4  crc32c of [4, 64 + payload length), begun with the CRC of directory id and shard
//	 4     1  version, 1
//	 5     1  flags: bit 0, base: the first of a file; the records of older files are void
//	 6     2  reserved, zero; a reader refuses anything else
//	 8     4  payload length, bytes, at most maxChunkBytes
//	12     4  first: where in the payload the first record that begins there starts; 0xffffffff none
//	16     8  number of the chunk, dense over files, from 1
//	24     8  start number of the process that wrote it
//	32     8  flushed: the last flushed commit group when it was submitted
//	40     8  dead: the journal's mark when it was submitted
//	48     4  chain: crc of the chunk before it, over files; 0 for number 1
//	52    12  reserved, zero
const (
	chunkCRCAt, chunkVersionAt, chunkFlagsAt, chunkLengthAt, chunkFirstAt  = 0, 4, 5, 8, 12
	chunkNumberAt, chunkStartAt, chunkFlushedAt, chunkDeadAt, chunkChainAt = 16, 24, 32, 40, 48

	chunkHeaderBytes = 64
	chunkVersion     = 1
	chunkFlagBase    = 1
	noChunkFirst     = 0xffffffff
	maxChunkBytes    = writeBytes - chunkHeaderBytes // header and payload are one request
)

// chunkHeader is the decoded header of one chunk.
type chunkHeader struct {
	CRC, Length, First, Chain    uint32
	Number, Start, Flushed, Dead uint64
	Base                         bool
}

// diskBytes is what the chunk takes in the file.
func (c *chunkHeader) diskBytes() int64 { return wholeBlocks(chunkHeaderBytes + int64(c.Length)) }

func wholeBlocks(n int64) int64 { return (n + blockBytes - 1) &^ (blockBytes - 1) }

// seal writes the header before the c.Length bytes of payload that are in place at chunkHeaderBytes.
func (c *chunkHeader) seal(p []byte, seed uint32) {
	le := binary.LittleEndian
	clear(p[:chunkHeaderBytes])
	p[chunkVersionAt] = chunkVersion
	if c.Base {
		p[chunkFlagsAt] = chunkFlagBase
	}
	le.PutUint32(p[chunkLengthAt:], c.Length)
	le.PutUint32(p[chunkFirstAt:], c.First)
	le.PutUint64(p[chunkNumberAt:], c.Number)
	le.PutUint64(p[chunkStartAt:], c.Start)
	le.PutUint64(p[chunkFlushedAt:], c.Flushed)
	le.PutUint64(p[chunkDeadAt:], c.Dead)
	le.PutUint32(p[chunkChainAt:], c.Chain)
	c.CRC = crc32.Update(seed, castagnoli, p[4:chunkHeaderBytes+int(c.Length)])
	le.PutUint32(p[chunkCRCAt:], c.CRC)
}

// parseChunk decodes and checks the chunk at the start of p.
func parseChunk(p []byte, seed uint32) (c chunkHeader, payload []byte, ok bool) {
	le := binary.LittleEndian
	if len(p) < chunkHeaderBytes || p[chunkVersionAt] != chunkVersion {
		return c, nil, false
	}
	length := le.Uint32(p[chunkLengthAt:])
	if length > maxChunkBytes || int(length) > len(p)-chunkHeaderBytes {
		return c, nil, false
	}
	payload = p[chunkHeaderBytes : chunkHeaderBytes+int(length)]
	c = chunkHeader{
		CRC: le.Uint32(p[chunkCRCAt:]), Length: length, First: le.Uint32(p[chunkFirstAt:]), Chain: le.Uint32(p[chunkChainAt:]),
		Number: le.Uint64(p[chunkNumberAt:]), Start: le.Uint64(p[chunkStartAt:]), Flushed: le.Uint64(p[chunkFlushedAt:]),
		Dead: le.Uint64(p[chunkDeadAt:]), Base: p[chunkFlagsAt] == chunkFlagBase,
	}
	if crc32.Update(seed, castagnoli, p[4:chunkHeaderBytes+int(length)]) != c.CRC {
		return chunkHeader{}, nil, false
	}
	switch {
	case p[chunkFlagsAt]&^chunkFlagBase != 0, c.Number == 0, c.Start == 0:
		return chunkHeader{}, nil, false
	case c.First != noChunkFirst && c.First >= c.Length:
		return chunkHeader{}, nil, false
	case le.Uint16(p[6:]) != 0 || le.Uint64(p[52:]) != 0 || le.Uint32(p[60:]) != 0:
		return chunkHeader{}, nil, false
	}
	return c, payload, true
}

// State record, version 1: a 72-byte header and two payloads. Golden bytes: testdata/record_v1.hex.
//
//	at  size  field
//	 0     4  length of the log's state (segments, log start), bytes
//	 4     4  length of the machine's state, bytes
//	 8     4  topic
//	12     4  partition
//	16     1  kind
//	17     1  cause of damage, 0 none; the partition stays fenced over starts
//	18     6  reserved, zero; a reader refuses anything else
//	24     8  index: the machine's state holds all entries up to it; recordResume: start number
//	32     8  placed: the segments hold all entries up to it; recordResume, recordClean: place in the ring
//	40     8  group: the last flushed commit group when it was taken; recordResume: first group of the start
//	48     8  epoch of the last entry
//	56     8  first offset concerned by the damage
//	64     8  offset behind the last one; equal: not known
const (
	recordLogAt, recordMachineAt, recordTopicAt, recordPartitionAt, recordKindAt, recordCauseAt = 0, 4, 8, 12, 16, 17
	recordIndexAt, recordPlacedAt, recordGroupAt, recordEpochAt, recordFromAt, recordToAt       = 24, 32, 40, 48, 56, 64

	recordHeaderBytes = 72
	maxRecordBytes    = 1 << 30 // of each payload
)

// recordKind says what a state record is.
type recordKind uint8

const (
	recordSnapshot recordKind = iota + 1 // of one partition; the last one counts
	recordGone                           // the partition is dropped: older snapshots of it are void
	recordResume                         // a start went on writing the journal at this place, with this group
	recordClean                          // a stop: the journal ends here, with this group, and everything is placed
)

// stateRecord is one record; the slices belong to what it was parsed from.
type stateRecord struct {
	Kind                        recordKind
	Cause                       Cause
	Key                         Key
	Index, Placed, Group, Epoch uint64
	From, To                    batch.Offset
	Log, Machine                []byte
}

// putRecordHeader writes r's header into p; payloads of these lengths follow.
func putRecordHeader(p []byte, r *stateRecord, logBytes, machineBytes int) {
	le := binary.LittleEndian
	le.PutUint32(p[recordLogAt:], uint32(logBytes))
	le.PutUint32(p[recordMachineAt:], uint32(machineBytes))
	le.PutUint32(p[recordTopicAt:], r.Key.Topic)
	le.PutUint32(p[recordPartitionAt:], r.Key.Partition)
	p[recordKindAt], p[recordCauseAt] = byte(r.Kind), byte(r.Cause)
	clear(p[18:24])
	le.PutUint64(p[recordIndexAt:], r.Index)
	le.PutUint64(p[recordPlacedAt:], r.Placed)
	le.PutUint64(p[recordGroupAt:], r.Group)
	le.PutUint64(p[recordEpochAt:], r.Epoch)
	le.PutUint64(p[recordFromAt:], uint64(r.From))
	le.PutUint64(p[recordToAt:], uint64(r.To))
}

var (
	errRecord      = errors.New("disk: state record does not check")
	errRecordShort = errors.New("disk: state record goes on behind these bytes")
)

// parseRecord reads the record at the start of p, which chunks with good CRCs brought. errRecordShort: more bytes needed.
func parseRecord(p []byte) (r stateRecord, rest []byte, err error) {
	le := binary.LittleEndian
	if len(p) < recordHeaderBytes {
		return r, nil, errRecordShort
	}
	logBytes, machineBytes := int64(le.Uint32(p[recordLogAt:])), int64(le.Uint32(p[recordMachineAt:]))
	kind, cause := recordKind(p[recordKindAt]), Cause(p[recordCauseAt])
	if kind < recordSnapshot || kind > recordClean || cause > CauseUnknown ||
		logBytes > maxRecordBytes || machineBytes > maxRecordBytes || [6]byte(p[18:24]) != [6]byte{} {
		return r, nil, errRecord
	}
	if int64(len(p)) < recordHeaderBytes+logBytes+machineBytes {
		return r, nil, errRecordShort
	}
	r = stateRecord{
		Kind: kind, Cause: cause,
		Key:   Key{le.Uint32(p[recordTopicAt:]), le.Uint32(p[recordPartitionAt:])},
		Index: le.Uint64(p[recordIndexAt:]), Placed: le.Uint64(p[recordPlacedAt:]),
		Group: le.Uint64(p[recordGroupAt:]), Epoch: le.Uint64(p[recordEpochAt:]),
		From: batch.Offset(le.Uint64(p[recordFromAt:])), To: batch.Offset(le.Uint64(p[recordToAt:])),
	}
	body := p[recordHeaderBytes:]
	r.Log, r.Machine = body[:logBytes:logBytes], body[logBytes:logBytes+machineBytes:logBytes+machineBytes]
	return r, body[logBytes+machineBytes:], nil
}
