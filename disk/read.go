package disk

import (
	"fmt"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// Cursor is a place in a log: the batch that holds Offset, and how many of its bytes were taken already.
type Cursor struct {
	Offset batch.Offset
	Skip   int64
}

// Read asks for bytes from the start of the batch that holds From.Offset (plus From.Skip), at most MaxBytes of them but at
// least one piece. A piece ends inside a batch only when that batch is longer than MaxBytes, and never inside its header:
// Next.Skip is then above 0. Padding is not part of it.
//
// The caller owns the Read and may use it again after Release; what it points to is reused.
type Read struct {
	From     Cursor
	Limit    batch.Offset // exclusive; at most LogEnd
	MaxBytes int
	Done     func(*Read) // after Log.Read answered false
	Tag      uint64      // the caller's

	Data    [][]byte // valid until Release
	Records int      // in the batches that end inside Data
	Next    Cursor
	Err     error // ErrOutOfRange, ErrBusy (no memory), ErrDamaged (a *DamageError), or what the device said

	held []*block.Block
}

// Release gives the memory of Data back. It must follow every Read that was answered, and may be repeated.
func (r *Read) Release() {
	for i, b := range r.held {
		b.Release()
		r.held[i] = nil
	}
	clear(r.Data)
	r.held, r.Data = r.held[:0], r.Data[:0]
}

// DamageError wraps ErrDamaged and names the records that cannot be read: the next readable offset is To, if it is known
// and below the log end.
type DamageError struct {
	Key      Key
	From, To batch.Offset
	File     string
	Position Position
	Err      error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("disk: partition %s: offsets %d to %d: %s at byte %d: %v; restore the file or read on at %d",
		e.Key, e.From, e.To, e.File, e.Position, e.Err, e.To)
}

func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// Read answers at once (true) when the bytes are in the tail, or when there is nothing to read or an error; else it does
// I/O and calls r.Done later, never inside Read. Hot bytes are those that were appended; cold ones are checked: header
// CRC, partition tag, order of offsets, and the body's CRC where Data holds all of a batch.
//
// Cost: hot, no allocation and no copy. Cold: one read of 256 KiB, or up to 1 MiB to get a batch whole.
func (l *Log) Read(r *Read) (ready bool) {
	r.Release()
	r.Records, r.Next, r.Err = 0, r.From, nil
	if r.From.Offset < l.logStart || r.From.Offset > l.logEnd {
		r.Err = ErrOutOfRange
		return true
	}
	if r.From.Offset >= min(r.Limit, l.logEnd) {
		return true
	}
	o := l.tail.batches.find(r.From.Offset)
	if !l.isHot(o, r.From.Offset) {
		return l.readCold(r)
	}
	l.readHot(r, o)
	return true
}

// isHot says whether the batch that holds offset, or the first one behind it, is o and has its bytes in the tail.
func (l *Log) isHot(o uint64, offset batch.Offset) bool {
	q := &l.tail.batches
	if o == q.last || q.at(o).absent {
		return false
	}
	return o > q.first || offset >= offsetOf(q.at(o).base) || offset >= l.coldEnd()
}

// coldEnd is the end of the last batch before the tail; a gap may lie between the two.
func (l *Log) coldEnd() batch.Offset {
	d := l.tail.batches.at(l.tail.batches.first)
	end := l.logStart
	for _, g := range l.segments {
		switch {
		case g.end <= offsetOf(d.base):
			end = max(end, g.end)
		case g.first < offsetOf(d.base):
			return offsetOf(d.base) // batches of its own segment lie before it: the walk knows whether there is a gap
		}
	}
	return end
}

// readHot takes bytes from the tail, from batch o on.
func (l *Log) readHot(r *Read, o uint64) {
	q := &l.tail.batches
	skip := r.From.Skip
	if offsetOf(q.at(o).base) > r.From.Offset {
		skip = 0 // a gap: the batch behind it is another one
	}
	left := max(r.MaxBytes, batch.HeaderBytes)
	for ; o < q.last && left > 0; o++ {
		d := q.at(o)
		if offsetOf(d.base) >= r.Limit || d.absent {
			return
		}
		rest := int64(d.bytes) - skip
		if rest <= 0 {
			skip = 0
			continue
		}
		take := min(rest, int64(left))
		if take < rest && len(r.Data) > 0 {
			return
		}
		if fault.On(fault.Rule08HandOutPadding) && take == rest && o+1 < q.last {
			take = int64(q.at(o+1).at-d.at) - skip
		}
		from := d.at + address(skip)
		r.Data, r.held = l.tail.pieces(from, from+address(take), r.Data, r.held)
		left -= int(take)
		if take < rest {
			r.Next = Cursor{max(r.From.Offset, offsetOf(d.base)), skip + take}
			return
		}
		skip = 0
		r.Records += l.countOf(d)
		r.Next = Cursor{Offset: offsetOf(d.next)}
	}
}

// countOf reads the record count of a batch in the tail.
func (l *Log) countOf(d *described) int {
	var p [4]byte
	l.tail.copyOut(p[:], d.at+batch.CountAt)
	return int(le.Uint32(p[:]))
}

// readCold hands r to a cold read. False: r.Done follows.
func (l *Log) readCold(r *Read) (ready bool) {
	c := l.newColdRead()
	c.read, c.target, c.skip = r, r.From.Offset, r.From.Skip
	return c.begin()
}
