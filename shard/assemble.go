package shard

import (
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// assembly is the frame of a connection that has begun and is not complete. A frame that lies whole in the received bytes
// never comes here: it is parsed where it lies. What comes here is copied, since the received bytes go back to the loop
// with the turn (RULES 31): headers into the struct, payloads up to 4 KiB into a small slot, PRODUCE into the blocks of an
// upload, anything else into one block that grows as bytes arrive, never ahead of them by more than 64 KiB.
type assembly struct {
	head     [frame.HeaderBytes]byte
	headed   int // bytes of head
	header   frame.Header
	step     step
	left     int // payload bytes still to come
	slot     []byte
	block    *block.Block // instead of slot, for longer payloads
	got      int          // bytes in slot or block
	upload   *upload      // of a PRODUCE in progress
	progress int          // bytes received since the deadline was set
	rested   bool         // nothing was in progress at some moment since then
}

type step uint8

const (
	betweenFrames step = iota
	inPayload          // collecting into slot or block
	inUpload           // into the blocks of upload
	inSkip             // dropping a payload that was refused
)

const slotBytes = block.Size4K

func (a *assembly) started() bool { return a.headed > 0 || a.step != betweenFrames }

// feed takes one frame, or a piece of one, off p and returns the rest.
func (s *Shard) feed(k *conn, p []byte) []byte {
	a := &k.in
	if a.step != betweenFrames {
		return s.feedPayload(k, p)
	}
	if a.headed == 0 && len(p) >= frame.HeaderBytes {
		h, ok := s.checkHeader(k, p)
		if !ok {
			return nil
		}
		n := frame.HeaderBytes + h.PayloadBytes()
		if len(p) >= n && a.step == betweenFrames {
			s.frame(k, h, p[frame.HeaderBytes:n])
			return p[n:]
		}
		s.begin(k, h)
		return p[frame.HeaderBytes:]
	}
	n := copy(a.head[a.headed:], p)
	a.headed += n
	if a.headed < frame.HeaderBytes {
		return nil
	}
	h, ok := s.checkHeader(k, a.head[:])
	if !ok {
		return nil
	}
	a.headed = 0
	s.begin(k, h)
	return p[n:]
}

// checkHeader refuses frames that must not be waited for. A frame that only this version does not know is answered and
// skipped; one whose length cannot be believed ends the connection. False: the connection is ending.
func (s *Shard) checkHeader(k *conn, p []byte) (frame.Header, bool) {
	h, err := frame.ParseHeader(p)
	k.in.header = h
	switch err {
	case nil:
	case frame.BadVersion, frame.BadCommand, frame.BadFlags:
		if !k.ready {
			s.goAway(k, h.RequestID, frame.CodeOf(err), err.Error())
			return h, false
		}
		s.fail(k, h.RequestID, frame.CodeOf(err), err.Error())
		k.in.step, k.in.left = inSkip, h.PayloadBytes()
		return h, true
	default:
		s.goAway(k, h.RequestID, frame.CodeOf(err), err.Error())
		return h, false
	}
	switch {
	case !k.ready && h.PayloadBytes() > frame.MaxPayloadBeforeAuth:
		s.goAway(k, h.RequestID, frame.ErrTooLarge, "more than 4 KiB before HELLO is done")
		return h, false
	case h.Reply():
		s.goAway(k, h.RequestID, frame.ErrMalformed, "a reply was sent to the broker")
		return h, false
	case h.More() && h.Command != frame.CmdProduce:
		s.goAway(k, h.RequestID, frame.ErrOutOfOrder, "only PRODUCE travels in parts")
		return h, false
	}
	return h, true
}

// begin prepares for a frame of which only the header is there.
func (s *Shard) begin(k *conn, h frame.Header) {
	a := &k.in
	if a.step == inSkip { // checkHeader refused it
		s.endIfDone(k)
		return
	}
	a.left, a.got = h.PayloadBytes(), 0
	switch {
	case h.Command == frame.CmdProduce && k.ready:
		a.step = inUpload
		a.upload = s.uploadFor(k, h)
	case a.left <= slotBytes:
		a.step = inPayload
		a.slot = s.takeSlot()
	default:
		a.step = inPayload
	}
	s.endIfDone(k)
}

// feedPayload takes payload bytes of the frame in progress off p and returns the rest.
func (s *Shard) feedPayload(k *conn, p []byte) []byte {
	a := &k.in
	n := min(a.left, len(p))
	piece, rest := p[:n], p[n:]
	switch a.step {
	case inPayload:
		if !s.collect(a, piece) {
			s.dropPayload(k, piece)
		}
	case inUpload:
		if !s.uploadBytesOf(k, a.upload, piece) {
			return nil
		}
	}
	a.left -= n
	s.endIfDone(k)
	return rest
}

// endIfDone handles the frame in progress when its payload is complete.
func (s *Shard) endIfDone(k *conn) {
	a := &k.in
	if a.left > 0 || k.ending {
		return
	}
	step := a.step
	a.step = betweenFrames
	switch step {
	case inPayload:
		held, b := a.slot, a.block
		a.slot, a.block = nil, nil
		payload := held[:min(a.got, len(held))]
		if b != nil {
			payload = b.Data[:a.got]
		}
		s.frame(k, a.header, payload)
		s.giveSlot(held)
		s.releaseBlock(b)
	case inUpload:
		u := a.upload
		a.upload = nil
		s.uploadPart(k, u, a.header.More())
	}
}

// collect appends to the payload in progress; false when no memory is left.
func (s *Shard) collect(a *assembly, piece []byte) bool {
	if a.slot != nil {
		a.got += copy(a.slot[a.got:], piece)
		return true
	}
	if a.block == nil || a.got+len(piece) > len(a.block.Data) {
		b := s.takeBlock(max(a.got+len(piece), min(a.got+a.left, block.Size64K)))
		if b == nil {
			return false
		}
		if a.block != nil {
			copy(b.Data, a.block.Data[:a.got])
			s.releaseBlock(a.block)
		}
		a.block = b
	}
	a.got += copy(a.block.Data[a.got:], piece)
	return true
}

// dropPayload gives up the frame in progress for want of memory: it is answered, and its bytes are dropped as they come.
// piece are those that could not be kept. A PUBLISH that wants no reply gets none.
func (s *Shard) dropPayload(k *conn, piece []byte) {
	const acksAt = 8 // of PUBLISH
	a := &k.in
	acks, at := piece, acksAt-a.got
	if a.block != nil && at < 0 {
		acks, at = a.block.Data, acksAt
	}
	silent := a.header.Command == frame.CmdPublish && at >= 0 && at < len(acks) && frame.Acks(acks[at]) == frame.AcksNone
	if !silent {
		s.refuse(k, a.header.RequestID, refuseFrame)
	}
	s.stats.Refused++
	s.releaseBlock(a.block)
	a.block, a.step = nil, inSkip
}

// takeBlock charges a block of at least n bytes to the frames in progress; nil when the bound or the pool is at its end.
func (s *Shard) takeBlock(n int) *block.Block {
	if fault.On(fault.Rule31HoldBlocks) {
		n = block.Size1M
	}
	if s.uploadBytes+n > s.limits.UploadBytes {
		return nil
	}
	b := s.pool.GetFor(n)
	if b != nil {
		s.uploadBytes += len(b.Data)
	}
	return b
}

func (s *Shard) releaseBlock(b *block.Block) {
	if b != nil {
		s.uploadBytes -= len(b.Data)
		b.Release()
	}
}

// takeSlot returns 4 KiB for a small frame. They come from the heap and are used again: a small frame must be readable
// when the pool has nothing left (RULES 11), and there is at most one for each connection.
func (s *Shard) takeSlot() []byte {
	if n := len(s.slots); n > 0 {
		b := s.slots[n-1]
		s.slots = s.slots[:n-1]
		return b
	}
	return make([]byte, slotBytes)
}

func (s *Shard) giveSlot(b []byte) {
	if b != nil && len(s.slots) < slotsKept {
		s.slots = append(s.slots, b)
	}
}

const slotsKept = 1024

// dropInput forgets what has arrived of unfinished frames.
func (s *Shard) dropInput(k *conn) {
	a := &k.in
	s.giveSlot(a.slot)
	s.releaseBlock(a.block)
	for len(k.uploads) > 0 {
		s.endUpload(k, k.uploads[0])
	}
	*a = assembly{}
}

// produceHead is what the first part of a PRODUCE must hold before anything is decided about it.
const produceHead = frame.ProduceFixedBytes + batch.HeaderBytes
