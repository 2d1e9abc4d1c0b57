package disk

import (
	"errors"

	"github.com/slipringmq/slipring/frame/batch"
)

// walker goes over the batches in one piece of a segment and believes nothing: header CRC, partition tag, epoch and the
// order of offsets must fit. Padding is skipped and never handed out. Within a segment there are no gaps (Append begins a
// new one), so with exact a batch that does not follow its predecessor means that something between them is lost.
type walker struct {
	tag   uint32
	epoch uint64       // no batch may have a lower one than its predecessor
	next  batch.Offset // base offset of the next batch, or the least one
	exact bool         // it is not only the least one
	end   batch.Offset // of the segment; 0: not known
	limit Position     // no batch ends behind it
	pos   Position     // of p[0], a multiple of 4096 or of where a batch starts
	p     []byte
	at    int // of the next batch in p
}

// walked says what walker.step found.
type walked uint8

const (
	walkBatch   walked = iota // a header that fits is at w.at
	walkEnd                   // the limit is reached
	walkMore                  // the next header lies, in part or whole, behind this piece: go on at w.position()
	walkDamaged               // neither batch nor padding
)

var (
	errHeader   = errors.New("neither a batch header nor padding")
	errTag      = errors.New("a batch of another partition")
	errSequence = errors.New("offsets or epochs go backwards")
	errGap      = errors.New("batches are missing")
	errForeign  = errors.New("a batch of another segment")
	errOverrun  = errors.New("a batch longer than its segment")
	errBody     = errors.New("body CRC does not match")
	errEnd      = errors.New("the file ends early")
	errNoFile   = errors.New("the file is missing")
)

// position is where the walk stands in the segment.
func (w *walker) position() Position { return w.pos + Position(w.at) }

// step finds the next batch without going past it. err is the reason for walkDamaged; with errGap h is the batch behind
// what is missing, and leap makes it the next one.
func (w *walker) step() (h batch.Header, found walked, err error) {
	for w.position() < w.limit {
		if w.at >= len(w.p) {
			return h, walkMore, nil
		}
		rest := w.p[w.at:]
		if len(rest) >= batch.HeaderBytes {
			if h, err = batch.ParseHeader(rest); err == nil {
				return w.check(h)
			}
		}
		// The CRC of a header may begin with zeros: only a whole header can be told from padding.
		if len(rest) < batch.HeaderBytes && w.position()+batch.HeaderBytes <= w.limit {
			return h, walkMore, nil
		}
		toBlock := int(alignUp(w.position()) - w.position())
		if toBlock == 0 || !zeros(rest[:min(toBlock, len(rest))]) {
			if found := w.behind(toBlock); found != walkBatch {
				return h, found, errHeader
			}
		}
		w.at += toBlock
	}
	return h, walkEnd, nil
}

// behind looks past bytes that are neither batch nor zeros: when the next block begins with exactly the batch that is due,
// no record is missing, and what rotted was padding.
func (w *walker) behind(toBlock int) walked {
	at := w.at + toBlock
	switch {
	case toBlock == 0 || w.pos+Position(at) >= w.limit:
		return walkDamaged
	case at+batch.HeaderBytes > len(w.p):
		if w.at >= blockBytes {
			return walkMore
		}
		return walkDamaged
	}
	h, err := batch.ParseHeader(w.p[at:])
	if err != nil || h.PartitionTag != w.tag || offsetOf(h.BaseOffset) != w.next {
		return walkDamaged
	}
	return walkBatch
}

func (w *walker) check(h batch.Header) (batch.Header, walked, error) {
	switch {
	case h.PartitionTag != w.tag:
		return h, walkDamaged, errTag
	case batch.Offset(h.BaseOffset) < w.next || h.Epoch < w.epoch:
		return h, walkDamaged, errSequence
	case w.end > 0 && offsetOf(h.NextOffset()) > w.end:
		return h, walkDamaged, errForeign
	case w.position()+Position(h.TotalBytes()) > w.limit:
		return h, walkDamaged, errOverrun
	case w.exact && offsetOf(h.BaseOffset) > w.next:
		return h, walkDamaged, errGap // last: the batch itself is good
	}
	return h, walkBatch, nil
}

// leap goes on behind what is missing.
func (w *walker) leap(h *batch.Header) { w.next = offsetOf(h.BaseOffset) }

// pass goes behind the batch that step found; w.at may then lie behind the piece.
func (w *walker) pass(h *batch.Header) {
	w.at += int(h.TotalBytes())
	w.next, w.epoch = batch.Offset(h.NextOffset()), h.Epoch
}

// whole says whether the batch at w.at lies in the piece.
func (w *walker) whole(h *batch.Header) bool { return w.at+int(h.TotalBytes()) <= len(w.p) }

// bodyFits checks the body CRC of a batch that is whole.
func (w *walker) bodyFits(h *batch.Header) bool {
	body := w.p[w.at+batch.HeaderBytes : w.at+int(h.TotalBytes())]
	return batch.CheckBody(h, body) == nil
}

func zeros(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(zeroPage))
		if string(p[:n]) != string(zeroPage[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}
