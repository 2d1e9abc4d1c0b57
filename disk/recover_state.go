package disk

import (
	"slices"

	"github.com/slipringmq/slipring/fault"
)

// stateFound is what the state log holds.
type stateFound struct {
	records map[Key]*foundRecord
	order   []Key // of first sight

	last    uint64 // number of the newest chunk
	chain   uint32
	end     int64  // behind it
	flushed uint64 // the greatest of the chunks' journal marks
	dead    uint64
	clean   *stateRecord // when the last record says so
	lost    uint64       // number of the last chunk that is lost, 0 none
	buf     []byte       // of the record that is not complete
	synced  bool
}

// foundRecord is the newest snapshot of one key, its bytes a copy.
type foundRecord struct {
	stateRecord
	raw   []byte
	chunk uint64
}

// readState reads the state log: chunks are dense in number, so one that is missing or does not check before a good one
// is damage; the bytes behind the last good one are a torn end, unless the journal says that there was more.
func (r *recovery) readState() error {
	f := &r.state
	f.records = make(map[Key]*foundRecord)
	f.synced = true
	if r.s.state.file == 0 {
		return nil
	}
	size, err := do(r.s.dev, Op{Kind: OpStat, File: r.s.state.file})
	if err != nil {
		return err
	}
	gap := int64(-1) // where bytes that do not check begin
	for pos := int64(0); pos < size.Size; {
		c, payload, err := r.chunkAt(pos, size.Size)
		if err != nil {
			return err
		}
		if c.Number <= f.last || f.last > 0 && gap < 0 && (c.Number != f.last+1 || c.Chain != f.chain) {
			if gap < 0 {
				gap = pos
			}
			pos += blockBytes
			continue
		}
		if gap >= 0 || f.last == 0 && !c.Base {
			r.stateDamage(max(gap, 0), pos, c.Number-1)
		}
		gap = -1
		f.take(r, &c, payload)
		pos += c.diskBytes()
		f.end = pos
	}
	r.report.BytesRead += r.window.read
	r.window.read = 0
	return nil
}

// chunkAt returns the chunk at pos; its number is 0 when there is none that checks.
func (r *recovery) chunkAt(pos, size int64) (chunkHeader, []byte, error) {
	w := r.window
	need := min(int64(writeBytes), wholeBlocks(size)-pos)
	if w.file != r.s.state.file || Position(pos) < w.from || Position(pos+need) > w.from+Position(w.n) {
		if err := w.load(r.s.state.file, Position(pos), len(w.mem.Data)); err != nil {
			return chunkHeader{}, nil, err
		}
	}
	at := int(pos - int64(w.from))
	if at >= w.n {
		return chunkHeader{}, nil, nil
	}
	c, payload, _ := parseChunk(w.mem.Data[at:w.n], r.s.state.seed)
	return c, payload, nil
}

func (r *recovery) stateDamage(from, to int64, lost uint64) {
	f := &r.state
	f.buf, f.synced, f.clean = f.buf[:0], false, nil
	if fault.On(fault.Rule05StateReset) {
		return
	}
	f.lost = lost
	r.report.Blocks = append(r.report.Blocks, BlockDamage{File: r.s.state.path(), Block: int(from), Blocks: int(to - from)})
}

// take reads the records of one chunk.
func (f *stateFound) take(r *recovery, c *chunkHeader, payload []byte) {
	f.last, f.chain = c.Number, c.CRC
	f.flushed, f.dead = max(f.flushed, c.Flushed), max(f.dead, c.Dead)
	if !f.synced {
		if c.First == noChunkFirst {
			return
		}
		payload, f.synced = payload[c.First:], true
	}
	f.buf = append(f.buf, payload...)
	rest := f.buf
	for len(rest) > 0 {
		rec, after, err := parseRecord(rest)
		if err == errRecordShort {
			break
		}
		if err != nil { // sealed by us and yet no record: as good as lost
			r.stateDamage(f.end, f.end+c.diskBytes(), c.Number)
			return
		}
		f.keep(r.s, &rec, rest[:len(rest)-len(after)], c.Number)
		rest = after
	}
	f.buf = f.buf[:copy(f.buf, rest)]
}

func (f *stateFound) keep(s *Store, rec *stateRecord, raw []byte, chunk uint64) {
	f.clean = nil
	switch rec.Kind {
	case recordResume:
		s.resumes = append(s.resumes, resume{rec.Index, rec.Placed, rec.Group})
		return
	case recordClean:
		c := *rec
		f.clean = &c
		f.flushed = max(f.flushed, rec.Group)
		return
	}
	if f.records[rec.Key] == nil {
		f.order = append(f.order, rec.Key)
	}
	k := &foundRecord{raw: slices.Clone(raw), chunk: chunk}
	k.stateRecord, _, _ = parseRecord(k.raw)
	f.records[rec.Key] = k
}

// closeState compares the state log with what the journal says of it, and sets it up to go on.
func (r *recovery) closeState() {
	f, st := &r.state, r.s.state
	if st.file == 0 && r.scan.blocks == 0 {
		return
	}
	said := r.scan.most.State
	if f.last < said {
		if st.file == 0 {
			r.report.Missing = append(r.report.Missing, st.path())
		}
		r.stateDamage(f.end, f.end, said)
	} else if st.file == 0 {
		r.report.Missing = append(r.report.Missing, st.path())
	}
	st.end, st.last, st.chain = f.end, max(f.last, said), f.chain
	st.durable, st.live = st.last, f.end/2
}
