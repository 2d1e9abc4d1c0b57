package shard

import (
	"errors"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
)

// maxDamages bounds the ranges that a partition remembers to have reported; what is found behind them is not reported
// until the next start, and the last line says so.
const maxDamages = 64

// span is a range of offsets, to exclusive.
type span struct{ from, to uint64 }

// failedRead is the answer to r, a read of p, and tells people what it found: every damaged range once, not every request.
func (s *Shard) failedRead(p *partition, r *disk.Read) frame.ErrorCode {
	code := p.codeOf(r)
	if code == frame.ErrDamaged {
		s.reportUnreadable(p, uint64(r.From.Offset), r.Err)
	}
	return code
}

// reportUnreadable reports that the record at offset, and those around it that err names, cannot be read.
func (s *Shard) reportUnreadable(p *partition, offset uint64, err error) {
	found, file, position, cause := span{offset, offset + 1}, "", int64(0), err
	var d *disk.DamageError
	if errors.As(err, &d) {
		found = span{uint64(d.From), uint64(d.To)}
		file, position, cause = d.File, int64(d.Position), d.Err
	}
	if !p.noteDamage(found) {
		return
	}
	s.report("error", "records cannot be read; restore the file from a copy, or read on behind them", "event", "read.damage",
		"topic", p.topic.name, "partition", p.number, "from", found.from, "to", found.to,
		"file", file, "position", position, "cause", cause)
	if len(p.damages) == maxDamages {
		s.report("error", "further damage of this partition is not reported", "event", "read.damage.more",
			"topic", p.topic.name, "partition", p.number)
	}
}

// noteDamage remembers x, joined with what it touches. False: it was reported, or too many others were.
func (p *partition) noteDamage(x span) bool {
	if len(p.damages) >= maxDamages {
		return false
	}
	for _, y := range p.damages {
		if y.from <= x.from && x.to <= y.to {
			return false
		}
	}
	kept := p.damages[:0]
	for _, y := range p.damages {
		if y.to < x.from || x.to < y.from {
			kept = append(kept, y)
		} else {
			x = span{min(x.from, y.from), max(x.to, y.to)}
		}
	}
	p.damages = append(kept, x)
	return true
}
