package disk

import (
	"cmp"
	"slices"

	"github.com/slipringmq/slipring/fault"
)

// journalScan is every journal block that checks, by file. Marks are believed wherever they stand: they were true when
// the block was submitted, and what they say stays true.
type journalScan struct {
	files  [][]blockHeader // Start 0: no block there that checks
	short  []bool          // the file exists and is shorter than it must be
	blocks int
	most   blockHeader // the greatest of each mark, of Group and Generation; the other fields mean nothing
}

// sampleBlocks is the distance of the blocks that say how far a file was written in its last round. A torn group, of
// maxGroupBlocks at most, cannot reach over two of them.
const sampleBlocks = 4 * maxGroupBlocks

// scanJournal reads the ring: the first and last block of each file, and of those that may hold live blocks all up to
// where those end.
func (r *recovery) scanJournal() error {
	s, j := r.s, r.s.journal
	sc := &r.scan
	sc.files = make([][]blockHeader, len(j.files))
	sc.short = make([]bool, len(j.files))
	for n := range j.files {
		if j.files[n].file == 0 {
			continue
		}
		stat, err := do(s.dev, Op{Kind: OpStat, File: j.files[n].file})
		if err != nil {
			return err
		}
		sc.short[n] = stat.Size < s.cfg.JournalFileBytes
		sc.files[n] = make([]blockHeader, j.perFile)
		for _, b := range [...]uint64{0, j.perFile - 1} {
			if err := r.scanBlock(n, b, 1); err != nil {
				return err
			}
		}
	}
	// The newest first: its blocks say which of the others are dead.
	newest := sc.most.Generation + 1
	for i := range uint64(len(j.files)) {
		n := j.fileOf(newest + uint64(len(j.files)) - i)
		if sc.files[n] == nil || r.allDead(n) {
			continue
		}
		end, err := r.liveEnd(n)
		if err != nil {
			return err
		}
		for b := uint64(0); b < end; b++ {
			if err := r.scanBlock(n, b, end-b); err != nil {
				return err
			}
		}
	}
	m := &sc.most
	m.Flushed, m.Dead = max(m.Flushed, r.state.flushed), max(m.Dead, r.state.dead)
	if r.state.last > 0 {
		m.Made = max(m.Made, 1) // the state log came after the first file
	}
	r.closeState()
	r.report.BytesRead += r.window.read
	r.window.read = 0
	r.reportShortFiles()
	for n := 1; n <= int(m.Made) && !fault.On(fault.Rule03NoMadeMark); n++ {
		if k := n % len(j.files); j.files[k].file == 0 {
			r.report.Missing = append(r.report.Missing, journalPath(s.cfg.Shard, k))
		}
	}
	return nil
}

func (sc *journalScan) take(h *blockHeader) {
	sc.blocks++
	m := &sc.most
	m.Group, m.Generation = max(m.Group, h.Group), max(m.Generation, h.Generation)
	m.Flushed, m.Placed = max(m.Flushed, h.Flushed), max(m.Placed, h.Placed)
	m.Dead, m.State, m.Made = max(m.Dead, h.Dead), max(m.State, h.State), max(m.Made, h.Made)
}

// scanBlock keeps the header of block b of file n if it checks and belongs there.
func (r *recovery) scanBlock(n int, b, ahead uint64) error {
	j := r.s.journal
	raw, err := r.window.block(j.files[n].file, b, ahead)
	if err != nil || raw == nil {
		return err
	}
	h, ok := parseBlock(raw, j.seed)
	if ok && uint64(h.Number) == b && j.fileOf(h.Generation) == n {
		r.scan.files[n][b] = h
		r.scan.take(&h)
	}
	return nil
}

// liveEnd is the number of blocks of file n behind which there is nothing live. A file is written from its begin on, so
// behind the samples there are only what an older round left and zeros; a sample that does not check counts as live.
func (r *recovery) liveEnd(n int) (uint64, error) {
	j := r.s.journal
	end := uint64(sampleBlocks)
	for b := uint64(0); b < j.perFile; b += sampleBlocks {
		raw, err := r.window.block(j.files[n].file, b, 1)
		if err != nil {
			return 0, err
		}
		if !r.isDead(raw) {
			end = b + 2*sampleBlocks
		}
	}
	return min(end, j.perFile), nil
}

// isDead says that a block was never written, or in a dead generation; nil, one that cannot be read, is not known to be.
func (r *recovery) isDead(raw []byte) bool {
	if raw == nil {
		return false
	}
	h, ok := parseBlock(raw, r.s.journal.seed)
	return ok && h.Generation <= max(r.scan.most.Dead, r.state.dead) || !ok && zeros(raw)
}

// allDead says that file n holds nothing but a dead generation. Its own blocks do not decide that, they may be what an
// overwriting left: the files around it say which generation was written there last. The file that comes next in the
// ring may be begun.
func (r *recovery) allDead(n int) bool {
	j, sc := r.s.journal, &r.scan
	dead, newest := max(sc.most.Dead, r.state.dead), sc.most.Generation
	if newest <= dead || uint64(len(j.files)) > newest {
		return false
	}
	last := newest // the generation written last to file n
	for j.fileOf(last) != n {
		last--
	}
	return last <= dead && j.fileOf(newest+1) != n
}

// mustExist says that file n was made whole before the newest mark was written.
func (r *recovery) mustExist(n int) bool {
	made := int(r.scan.most.Made)
	return n != 0 && n <= made || n == 0 && made >= len(r.s.journal.files)
}

// reportShortFiles reports the files that were made whole and have lost their end.
func (r *recovery) reportShortFiles() {
	s, j := r.s, r.s.journal
	for n := range j.files {
		if !r.scan.short[n] || !r.mustExist(n) {
			continue
		}
		last := r.scan.most.Generation + 1 // the generation that may have been written last to it
		for last > 0 && j.fileOf(last) != n {
			last--
		}
		r.report.Blocks = append(r.report.Blocks, BlockDamage{
			File: journalPath(s.cfg.Shard, n), Generation: last, Blocks: int(j.perFile), Group: r.scan.most.Group,
		})
	}
}

// gone says that place, where the journal seems to end, cannot be trusted to be empty: its file was made and is missing or
// short, cannot be read there, or holds a block of ours that belongs elsewhere. Nothing that a crash leaves looks like it.
func (r *recovery) gone(place uint64) bool {
	j := r.s.journal
	n, b := j.fileOf(place/j.perFile), place%j.perFile
	if !r.mustExist(n) {
		return false
	}
	if j.files[n].file == 0 {
		return true
	}
	raw, err := r.window.block(j.files[n].file, b, 1)
	if err != nil || raw == nil {
		return true
	}
	h, ok := parseBlock(raw, j.seed)
	return ok && (uint64(h.Number) != b || j.fileOf(h.Generation) != n)
}

// findStarts makes up for resume records that a damaged state log has lost: where the first block of a group by a start
// lies that nothing is known of, that start went on.
func (r *recovery) findStarts() {
	s, j, sc := r.s, r.s.journal, &r.scan
	first := (sc.most.Dead + 1) * j.perFile
	for place := first; place < first+j.ringBlocks(); place++ {
		f := sc.files[j.fileOf(place/j.perFile)]
		if f == nil {
			continue
		}
		h := &f[place%j.perFile]
		if h.Start == 0 || h.Generation != place/j.perFile || h.Start <= s.resumes.startAt(place) || h.Start > r.resumedAfter(place) {
			continue
		}
		group := h.Group
		if h.Index > 0 {
			group++ // its first block lies in a generation that is dead, or is lost
			if place == first {
				group--
			}
		}
		s.resumes = append(s.resumes, resume{h.Start, place, group})
		slices.SortStableFunc(s.resumes, func(a, b resume) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.start, b.start)) })
	}
}

// resumedAfter is the least start that went on behind place; ^0: none did.
func (r *recovery) resumedAfter(place uint64) uint64 {
	for _, x := range r.s.resumes {
		if x.place > place {
			return x.start
		}
	}
	return ^uint64(0)
}
