package disk

import (
	"encoding/binary"
	"fmt"

	"github.com/slipringmq/slipring/frame/batch"
)

var le = binary.LittleEndian

// address counts the bytes of one log in memory, over all its segments: each segment begins at a multiple of 4096. It
// lets the tail's blocks go on from one segment to the next, and a segment that failed be replaced under its batches.
type address int64

// segment is one file of a log. Batches lie back to back; zero bytes may follow a batch up to the next block.
// The file's name is <base>-<epoch>.log, base in 20 decimal digits, epoch in 16 hexadecimal ones.
//
// The epoch in the name is that of the append which began the segment, times 65536, plus 1 when it replaces a segment
// whose file failed, plus 2 for each earlier one of the same base and epoch whose batches were dropped. So a name is never
// used twice: every start has an epoch of its own.
type segment struct {
	log   *Log
	base  batch.Offset // in the name; of the first batch written to it
	epoch uint64       // in the name

	first, end batch.Offset // of its batches; end is exclusive
	start      Position     // of the first batch; above 0 only in a segment that replaces another
	length     Position     // where the next batch goes
	placed     Position     // bytes below are on stable media; a multiple of 4096
	maxTime    int64        // append time of the last batch, Unix ms
	address    address      // of position 0
	closed     bool         // takes no more batches
	plain      bool         // its batches are not in the journal
	note       uint64       // plain: index of the entry that names it; nothing in it counts as durable before

	replaces *segment // this one holds what replaces' file did not take, shifted down by shift
	shift    Position

	moved *segment // the one that replaces it

	file     segmentFile
	index    sparseIndex
	reads    int      // cold reads that use the file
	doomed   bool     // trimmed or dropped: removed once nobody uses it
	scan     bool     // plain: its end must be looked for
	swept    bool     // and was (only to plant a fault)
	missing  bool     // replay found no file where bytes should be
	refilled Position // replay has given all bytes below
}

// replacement is the low bit of an epoch: the segment that holds what a failed one did not take.
const replacement = 1

const epochShift = 16

// segmentName is the epoch in the name of a new segment at base. A base at or below an earlier one of this start means that
// staged batches were dropped: a direct write of theirs may still land in a file of the old name, so that is not used again.
func (l *Log) segmentName(epoch uint64, base batch.Offset) uint64 {
	name, highest := epoch<<epochShift, base
	if l.begun.epoch>>epochShift == epoch {
		name, highest = l.begun.epoch, max(base, l.begun.base)
		if base <= l.begun.base {
			name += 2 // the bit below is replacement
		}
	}
	l.begun = placement{base: highest, epoch: name}
	return name
}

func (g *segment) position(a address) Position { return Position(a - g.address) }

func (g *segment) addressOf(p Position) address { return g.address + address(p) }

func (g *segment) path(ext string) string {
	return fmt.Sprintf("%s/%020d-%016x.%s", directory(g.log.key), g.base, g.epoch, ext)
}

// directory is where the segments of k lie, relative to the data directory.
func directory(k Key) string { return fmt.Sprintf("topics/%d/%d", k.Topic, k.Partition) }

func alignUp[T ~int | ~int64](n T) T   { return (n + blockBytes - 1) &^ (blockBytes - 1) }
func alignDown[T ~int | ~int64](n T) T { return n &^ (blockBytes - 1) }

// Placement, version 1: the first 24 bytes of an append's or reference's payload, little-endian.
// Golden bytes: testdata/placement_v1.hex.
//
//	at  size  field
//	 0     8  base offset in the name of the segment
//	 8     8  epoch in the name of the segment
//	16     8  position of the batch in it, bytes
//
// In KindAppend the whole stamped batch follows; in KindReference its length (u64, bytes) and its 96-byte header. A
// KindTrim payload is the new log start (u64), and of a log outside the journal also the placement of a segment begun.
const (
	placementBytes = 24
	referenceBytes = placementBytes + 8 + batch.HeaderBytes
	trimBytes      = 8
)

type placement struct {
	base     batch.Offset
	epoch    uint64
	position Position
}

func (p placement) put(dst []byte) {
	le.PutUint64(dst, uint64(p.base))
	le.PutUint64(dst[8:], p.epoch)
	le.PutUint64(dst[16:], uint64(p.position))
}

// parsePlacement refuses positions that no segment can have, so that later sums cannot overflow.
func parsePlacement(p []byte) (placement, []byte, error) {
	if len(p) < placementBytes {
		return placement{}, nil, errEntry
	}
	at := placement{batch.Offset(le.Uint64(p)), le.Uint64(p[8:]), Position(le.Uint64(p[16:]))}
	if at.position < 0 || at.position > maxSegmentBytes {
		return placement{}, nil, errEntry
	}
	return at, p[placementBytes:], nil
}

// maxSegmentBytes bounds a position: the greatest roll size (u32) and one batch beyond it.
const maxSegmentBytes = 16 << 30
