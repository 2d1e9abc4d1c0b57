package disk

import (
	"encoding/binary"
	"hash/crc32"
)

// Journal block, version 1: 4096 bytes, an 80-byte header and a body, little-endian. Golden bytes:
// testdata/block_v1.hex. The bodies of a commit group's blocks, each as long as used says, are one stream of entries.
//
//	at  size  field
//	 0     4  crc32c of [4, 4096), begun with the CRC of directory id and shard: a foreign block does not check
//	 4     1  version, 1
//	 5     1  flags: bit 0, an entry of meta begins in this block
//	 6     2  used bytes of the body; the rest is zero
//	 8     8  start number of the process that wrote it
//	16     8  generation: which round of the ring; generation mod files is the file's number
//	24     8  commit group
//	32     8  mark flushed: the last group whose blocks were all complete when this one was submitted
//	40     8  mark placed: the last group whose direct writes were complete too; equals flushed, data goes first
//	48     8  mark dead: this and all earlier generations are covered by segments and state log
//	56     8  mark state: the last durable chunk of the state log, which dead builds on
//	64     4  chain: crc of the block before this one in the ring, over file borders; 0 for the first of all
//	68     4  number of the block in its file
//	72     2  index of the block in its group
//	74     2  blocks of the group
//	76     2  first: where in the body the first entry that begins in this block starts; 0xffff none
//	78     2  made: so many files of the ring exist, in order of their first use; a missing one of them is damage
const (
	blockCRCAt, blockVersionAt, blockFlagsAt, blockUsedAt    = 0, 4, 5, 6
	blockStartAt, blockGenerationAt, blockGroupAt            = 8, 16, 24
	blockFlushedAt, blockPlacedAt, blockDeadAt, blockStateAt = 32, 40, 48, 56
	blockChainAt, blockNumberAt, blockIndexAt, blockBlocksAt = 64, 68, 72, 74
	blockFirstAt, blockMadeAt                                = 76, 78

	blockHeaderBytes = 80
	blockBytes       = 4096
	blockBodyBytes   = blockBytes - blockHeaderBytes
	blockVersion     = 1
	blockFlagMeta    = 1
	noFirst          = 0xffff

	maxGroupBytes  = 1 << 20
	maxGroupBlocks = maxGroupBytes / blockBytes
)

const _ uint = -(blockHeaderBytes % 8) // does not compile unless the body keeps 8-byte alignment

// marks is what every block of a group says about the past. All are true statements for ever, even in a block that is
// later cut: they were true when it was submitted.
type marks struct {
	Flushed, Placed, Dead, State uint64
	Made                         uint16
}

// blockHeader is the decoded header of one journal block.
type blockHeader struct {
	Start, Generation, Group uint64
	marks
	CRC, Chain, Number         uint32
	Used, Index, Blocks, First uint16
	Flags                      uint8
}

// journalSeed is the CRC that those of blocks and chunks begin with.
func journalSeed(directory [16]byte, shard int) uint32 {
	var p [20]byte
	copy(p[:], directory[:])
	binary.LittleEndian.PutUint32(p[16:], uint32(shard))
	return crc32.Checksum(p[:], castagnoli)
}

// seal writes h into block, whose body is filled and zero behind h.Used, and returns the block's CRC.
func (h *blockHeader) seal(block []byte, seed uint32) uint32 {
	le := binary.LittleEndian
	block[blockVersionAt], block[blockFlagsAt] = blockVersion, h.Flags
	le.PutUint16(block[blockUsedAt:], h.Used)
	le.PutUint64(block[blockStartAt:], h.Start)
	le.PutUint64(block[blockGenerationAt:], h.Generation)
	le.PutUint64(block[blockGroupAt:], h.Group)
	le.PutUint64(block[blockFlushedAt:], h.Flushed)
	le.PutUint64(block[blockPlacedAt:], h.Placed)
	le.PutUint64(block[blockDeadAt:], h.Dead)
	le.PutUint64(block[blockStateAt:], h.State)
	le.PutUint32(block[blockChainAt:], h.Chain)
	le.PutUint32(block[blockNumberAt:], h.Number)
	le.PutUint16(block[blockIndexAt:], h.Index)
	le.PutUint16(block[blockBlocksAt:], h.Blocks)
	le.PutUint16(block[blockFirstAt:], h.First)
	le.PutUint16(block[blockMadeAt:], h.Made)
	h.CRC = crc32.Update(seed, castagnoli, block[blockCRCAt+4:blockBytes])
	le.PutUint32(block[blockCRCAt:], h.CRC)
	return h.CRC
}

// parseBlock decodes and checks one block of exactly blockBytes. ok is false for anything that was not sealed with this
// seed, zeros included. Bounds inside the block hold when it is true.
func parseBlock(block []byte, seed uint32) (h blockHeader, ok bool) {
	le := binary.LittleEndian
	h.CRC = le.Uint32(block[blockCRCAt:])
	if block[blockVersionAt] != blockVersion || crc32.Update(seed, castagnoli, block[blockCRCAt+4:blockBytes]) != h.CRC {
		return blockHeader{}, false
	}
	h = blockHeader{
		Start:      le.Uint64(block[blockStartAt:]),
		Generation: le.Uint64(block[blockGenerationAt:]),
		Group:      le.Uint64(block[blockGroupAt:]),
		marks: marks{
			Flushed: le.Uint64(block[blockFlushedAt:]),
			Placed:  le.Uint64(block[blockPlacedAt:]),
			Dead:    le.Uint64(block[blockDeadAt:]),
			State:   le.Uint64(block[blockStateAt:]),
			Made:    le.Uint16(block[blockMadeAt:]),
		},
		CRC:    h.CRC,
		Chain:  le.Uint32(block[blockChainAt:]),
		Number: le.Uint32(block[blockNumberAt:]),
		Used:   le.Uint16(block[blockUsedAt:]),
		Index:  le.Uint16(block[blockIndexAt:]),
		Blocks: le.Uint16(block[blockBlocksAt:]),
		First:  le.Uint16(block[blockFirstAt:]),
		Flags:  block[blockFlagsAt],
	}
	switch {
	case h.Used > blockBodyBytes, h.Index >= h.Blocks, h.Blocks > maxGroupBlocks:
		return blockHeader{}, false
	case h.First != noFirst && h.First >= h.Used:
		return blockHeader{}, false
	case h.Flags&^blockFlagMeta != 0, h.Generation == 0, h.Start == 0, h.Group == 0, h.Flushed >= h.Group, h.Dead >= h.Generation:
		return blockHeader{}, false
	}
	return h, true
}
