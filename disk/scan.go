package disk

import (
	"hash/crc32"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// scan walks a segment from one position on, in reads of 256 KiB. It gathers index entries and, with bodies, checks every
// body. It ends at the limit, at the end of the file, or at the first thing that is no batch; with lookOn it goes on
// behind that with the next block that begins with one, so that damage hides no more than itself.
type scan struct {
	segment *segment
	limit   Position
	mem     *block.Block // 256 KiB or more; the caller's
	every   Position
	bodies  bool
	lookOn  bool
	begin   bool         // from, next and epoch are set
	exact   bool         // next is the offset of the next batch, not only the least one
	behind  bool         // the next batch is the first behind damage: it gets an entry
	last    batch.Offset // no batch of the segment reaches beyond it; 0: not known
	done    func(err error)

	from    Position // where the walk stands
	end     Position // of the last batch that checks
	next    batch.Offset
	epoch   uint64
	maxTime int64

	body struct { // of the batch that the last piece did not hold whole
		left int64
		crc  uint32
		h    batch.Header
		at   Position
	}
	entries []indexEntry
	damaged error    // the first thing that did not check
	badAt   Position // and where
	op      Op
}

// start opens the file and reads. done gets an error only if the file cannot be read.
func (s *scan) start() {
	g := s.segment
	if !s.begin {
		s.from, s.next, s.epoch, s.exact, s.last = g.start, g.first, 0, true, g.end
	}
	s.op.Kind, s.op.Class, s.op.Data = OpRead, ClassCold, make([][]byte, 1)
	s.op.Done = func(op *Op) { s.took(op) }
	if g.openForRead(&coldRead{opened: func(err error) {
		if err != nil {
			s.done(err)
			return
		}
		s.read()
	}}) {
		s.read()
	}
}

func (s *scan) read() {
	if s.from >= s.limit {
		s.done(nil)
		return
	}
	g := s.segment
	s.op.File, s.op.Pos = g.file.handle, alignDown(s.from)
	s.op.Data[0] = s.mem.Data[:min(pieceBytes, len(s.mem.Data))]
	g.file.users++
	g.log.share.dev.Submit(&s.op)
}

// took walks over one piece and reads the next.
func (s *scan) took(op *Op) {
	s.segment.release()
	if op.Err != nil {
		s.done(op.Err)
		return
	}
	w := walker{
		tag: s.segment.log.opt.Tag, epoch: s.epoch, next: s.next, exact: s.exact, end: s.last, limit: s.limit,
		pos: op.Pos, p: op.Data[0][:op.N], at: int(s.from - op.Pos),
	}
	more := s.resumeBody(&w) && s.walk(&w)
	s.from, s.next, s.epoch, s.exact = w.position(), w.next, w.epoch, w.exact
	if !more || op.N < len(op.Data[0]) {
		if more && s.from < s.limit && s.damaged == nil { // the file ends before the limit
			s.damaged, s.badAt = errEnd, s.from
		}
		s.done(nil)
		return
	}
	s.read()
}

// resumeBody goes on with a body that the piece before did not hold whole.
func (s *scan) resumeBody(w *walker) bool {
	b := &s.body
	if b.left == 0 {
		return true
	}
	n := int(min(b.left, int64(len(w.p)-min(w.at, len(w.p)))))
	b.crc = crc32.Update(b.crc, castagnoli, w.p[w.at:w.at+n])
	b.left -= int64(n)
	w.at += n
	if b.left > 0 {
		return true
	}
	if b.crc != b.h.BodyCRC {
		return s.bad(w, errBody, b.at)
	}
	s.accept(w, &b.h, b.at)
	return true
}

// walk passes over the batches of a piece; false: the scan ends here.
func (s *scan) walk(w *walker) bool {
	for s.body.left == 0 {
		h, found, err := w.step()
		switch found {
		case walkEnd, walkMore:
			return found == walkMore
		case walkDamaged:
			if err == errGap && s.bad(w, err, w.position()) {
				w.leap(&h)
				s.behind = true
				continue
			}
			if !s.bad(w, err, w.position()) {
				return false
			}
			w.exact = false
			if !s.lookFor(w) {
				return w.position() < w.limit
			}
			continue
		}
		at := w.position()
		if s.bodies && !w.whole(&h) {
			b := &s.body
			b.h, b.at = h, at
			w.at += batch.HeaderBytes
			b.left, b.crc = int64(h.BodyBytes), 0
			return s.resumeBody(w)
		}
		if s.bodies && !w.bodyFits(&h) {
			return s.bad(w, errBody, at)
		}
		w.pass(&h)
		w.exact = true
		s.taken(&h, at)
	}
	return true
}

// accept passes a batch whose body was checked in pieces; the walker stands behind it.
func (s *scan) accept(w *walker, h *batch.Header, at Position) {
	w.next, w.epoch, w.exact = batch.Offset(h.NextOffset()), h.Epoch, true
	s.taken(h, at)
}

func (s *scan) taken(h *batch.Header, at Position) {
	s.maxTime, s.end = h.AppendTime, at+Position(h.TotalBytes())
	e := indexEntry{batch.Offset(h.BaseOffset), h.AppendTime, at}
	n := len(s.entries)
	if n == 0 || at-s.entries[n-1].position >= s.every || s.behind {
		s.entries, s.behind = append(s.entries, e), false
	}
}

// bad notes the first finding; true: go on looking.
func (s *scan) bad(w *walker, err error, at Position) bool {
	if s.damaged == nil {
		s.damaged, s.badAt = err, at
	}
	if !s.lookOn {
		w.at = int(at - w.pos)
	}
	return s.lookOn
}

// lookFor moves the walker to the next block that begins with a batch; false: not in this piece, or none.
func (s *scan) lookFor(w *walker) bool {
	for p := alignDown(w.position()) + blockBytes; p < w.limit; p += blockBytes {
		at := int(p - w.pos)
		if at+batch.HeaderBytes > len(w.p) {
			w.at = at
			return false
		}
		if h, err := batch.ParseHeader(w.p[at:]); err == nil {
			if _, found, _ := (&walker{tag: w.tag, epoch: w.epoch, next: w.next, end: w.end, limit: w.limit, pos: p}).check(h); found == walkBatch {
				w.at, w.exact, s.behind = at, false, true
				return true
			}
		}
	}
	w.at = int(w.limit - w.pos)
	return false
}
