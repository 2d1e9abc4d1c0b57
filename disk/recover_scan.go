package disk

import "github.com/slipringmq/slipring/fault"

// journalScan is every journal block that checks, by file. Marks are believed wherever they stand: they were true when
// the block was submitted, and what they say stays true.
type journalScan struct {
	files  [][]blockHeader // Start 0: no block there that checks
	blocks int
	most   blockHeader // the greatest of each mark and of Group; the other fields mean nothing
}

// scanJournal reads the ring.
func (r *recovery) scanJournal() error {
	s, j := r.s, r.s.journal
	sc := &r.scan
	sc.files = make([][]blockHeader, len(j.files))
	for n := range j.files {
		if j.files[n].file == 0 {
			continue
		}
		sc.files[n] = make([]blockHeader, j.perFile)
		for b := uint64(0); b < j.perFile; b++ {
			raw, err := r.window.block(j.files[n].file, b, j.perFile-b)
			if err != nil {
				return err
			}
			if raw == nil {
				continue
			}
			h, ok := parseBlock(raw, j.seed)
			if ok && uint64(h.Number) == b && j.fileOf(h.Generation) == n {
				sc.files[n][b] = h
				sc.take(&h)
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
	m.Group = max(m.Group, h.Group)
	m.Flushed, m.Placed = max(m.Flushed, h.Flushed), max(m.Placed, h.Placed)
	m.Dead, m.State, m.Made = max(m.Dead, h.Dead), max(m.State, h.State), max(m.Made, h.Made)
}
