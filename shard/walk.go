package shard

import "github.com/slipringmq/slipring/frame/batch"

// walk steps over the batch headers in the data of a disk.Read that begins with a batch. Its pieces may split batches and
// headers anywhere; it does not change them.
type walk struct {
	data   [][]byte
	inside int   // bytes of data[0] that were passed
	skip   int64 // bytes from here to the next header
	at     int64 // bytes before the batch of header
	header batch.Header
	raw    [batch.HeaderBytes]byte
}

func (w *walk) reset(data [][]byte) { w.data, w.inside, w.skip, w.at = data, 0, 0, 0 }

// next parses the next header; false at the end of the data.
func (w *walk) next() bool {
	w.at += w.skip
	for {
		if len(w.data) == 0 {
			return false
		}
		left := int64(len(w.data[0]) - w.inside)
		if w.skip < left {
			break
		}
		w.skip -= left
		w.data, w.inside = w.data[1:], 0
	}
	w.inside += int(w.skip)
	raw := w.data[0][w.inside:]
	if len(raw) < batch.HeaderBytes {
		raw = w.gather()
	}
	h, err := batch.ParseHeader(raw)
	if err != nil {
		w.data = nil
		return false
	}
	w.header, w.skip = h, h.TotalBytes()
	return true
}

// gather joins a header that lies in several pieces.
func (w *walk) gather() []byte {
	n := copy(w.raw[:], w.data[0][w.inside:])
	for _, piece := range w.data[1:] {
		if n == len(w.raw) {
			break
		}
		n += copy(w.raw[n:], piece)
	}
	return w.raw[:n]
}

// extent is what whole batches at the start of some data amount to.
type extent struct {
	bytes, records int64
	next           batch.Offset // after them
	open           int64        // size of the batch behind them, which does not end in the data; 0: none
}

// whole measures the whole batches in data, n bytes, but no more than it takes to reach records.
func (w *walk) whole(data [][]byte, n int, records int64) (x extent) {
	w.reset(data)
	for x.records < records && w.next() {
		if w.at+w.header.TotalBytes() > int64(n) {
			x.open = w.header.TotalBytes()
			break
		}
		x.bytes = w.at + w.header.TotalBytes()
		x.records += int64(w.header.Count)
		x.next = batch.Offset(w.header.NextOffset())
	}
	w.data = nil
	return x
}
