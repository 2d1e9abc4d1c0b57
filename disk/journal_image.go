package disk

import "github.com/slipringmq/slipring/loop/block"

// image is the memory of one commit group: blocks as they will lie in the journal, with room for their headers.
// It is the journal's; while it flies its bytes belong to the device.
type image struct {
	mem     *block.Block // nil when data is from the heap (pool exhausted)
	data    []byte
	limit   int // blocks that fit
	blocks  int // begun
	at      int // next free byte in data; the body of the last block, or its end
	entries int
	firsts  [maxGroupBlocks]uint16
	metas   [maxGroupBlocks]bool
	touched []touch // each partition once

	// Set when it is submitted.
	group, generation uint64
	marks             marks
	pieces            int // writes whose Done has not run
	err               error
}

// touch is a partition in a group and the last index of its entries there.
type touch struct {
	log   *Log
	index uint64
}

func (m *image) reset() {
	clear(m.touched) // keep no partition alive
	m.touched = m.touched[:0]
	m.blocks, m.at, m.entries = 0, 0, 0
	m.pieces, m.err = 0, nil
}

// room is what still fits, bytes of entries.
func (m *image) room() int {
	return m.left() + (m.limit-m.blocks)*blockBodyBytes
}

// left is the free rest of the last block's body.
func (m *image) left() int { return m.blocks*blockBytes - m.at }

// put appends one entry; the caller has checked room.
func (m *image) put(header []byte, parts [3][]byte, meta bool) {
	if m.left() == 0 {
		m.begin()
	}
	b := m.blocks - 1
	if m.firsts[b] == noFirst {
		m.firsts[b] = uint16(m.at - b*blockBytes - blockHeaderBytes)
	}
	m.metas[b] = m.metas[b] || meta
	m.copy(header)
	for _, p := range parts {
		m.copy(p)
	}
	m.entries++
}

func (m *image) copy(p []byte) {
	for len(p) > 0 {
		if m.left() == 0 {
			m.begin()
		}
		n := copy(m.data[m.at:m.blocks*blockBytes], p)
		m.at += n
		p = p[n:]
	}
}

// begin opens the next block.
func (m *image) begin() {
	m.firsts[m.blocks], m.metas[m.blocks] = noFirst, false
	m.at = m.blocks*blockBytes + blockHeaderBytes
	m.blocks++
}

// body is the used part of block b.
func (m *image) body(b int) []byte {
	end := (b + 1) * blockBytes
	if b == m.blocks-1 {
		end = m.at
	}
	return m.data[b*blockBytes+blockHeaderBytes : end]
}

// seal completes the headers: the group starts at block `at` of the ring. It returns the CRC of its last block.
func (m *image) seal(seed, chain uint32, start, at, perFile uint64) uint32 {
	if m.blocks == 0 {
		m.begin()
	}
	clear(m.data[m.at : m.blocks*blockBytes])
	for b := range m.blocks {
		h := blockHeader{
			Start: start, Generation: at / perFile, Group: m.group, marks: m.marks,
			Chain: chain, Number: uint32(at % perFile),
			Used: uint16(len(m.body(b))), Index: uint16(b), Blocks: uint16(m.blocks), First: m.firsts[b],
		}
		if m.metas[b] {
			h.Flags = blockFlagMeta
		}
		chain = h.seal(m.data[b*blockBytes:(b+1)*blockBytes], seed)
		at++
	}
	return chain
}
