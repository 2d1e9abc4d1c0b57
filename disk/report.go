package disk

import (
	"fmt"
	"strings"
)

// Report is everything an operator must be told about one recovery, as values.
type Report struct {
	Fresh bool // the directory held nothing of this shard
	Clean bool // the last stop was clean: nothing was cut, no partition changes its segment

	Groups    int   // commit groups read from live generations
	Entries   int   // entries replayed
	Skipped   int   // entries that a snapshot already covers, or of deleted partitions
	Snapshots int   // partitions restored from the state log
	BytesRead int64 // from journal and state log

	Cut     []Cut         // what was written and never acknowledged: normal after a crash
	Blocks  []BlockDamage // acknowledged bytes that do not check
	Damages []Damage      // partitions that are fenced, and why
	Short   []Key         // partitions that may have lost their last entries in Blocks; they go on
	Missing []string      // files that must exist and do not
}

// Cut is a torn end: blocks of a commit group that was never acknowledged.
type Cut struct {
	Group      uint64
	Generation uint64
	Block      int // of the generation's file, the first one cut
	Blocks     int // that the group had, as far as known; at least 1
}

// BlockDamage is a run of journal blocks, or a range of the state log or of a rescue file, that was acknowledged and does
// not check.
type BlockDamage struct {
	File       string
	Generation uint64 // 0 for the state log
	Group      uint64 // the first one concerned
	Block      int    // first block, or first byte of the state log; 0 of a rescue file
	Blocks     int    // blocks, or bytes of the state log or rescue file
}

// Damaged says whether anything acknowledged was lost or is in doubt.
func (r *Report) Damaged() bool {
	return len(r.Blocks) > 0 || len(r.Damages) > 0 || len(r.Missing) > 0
}

// String is the report in lines, for a log or a terminal.
func (r *Report) String() string {
	var b strings.Builder
	how := "unclean stop"
	switch {
	case r.Fresh:
		how = "fresh"
	case r.Clean:
		how = "clean stop"
	}
	fmt.Fprintf(&b, "%s: %d groups, %d entries replayed, %d skipped, %d snapshots, %d bytes read\n",
		how, r.Groups, r.Entries, r.Skipped, r.Snapshots, r.BytesRead)
	for _, c := range r.Cut {
		fmt.Fprintf(&b, "cut: group %d, generation %d, blocks %d to %d, never acknowledged\n", c.Group, c.Generation, c.Block, c.Block+c.Blocks-1)
	}
	for _, d := range r.Blocks {
		fmt.Fprintf(&b, "DAMAGE: %s, generation %d, from %d, length %d, group %d\n", d.File, d.Generation, d.Block, d.Blocks, d.Group)
	}
	for _, f := range r.Missing {
		fmt.Fprintf(&b, "MISSING: %s\n", f)
	}
	for _, d := range r.Damages {
		fmt.Fprintf(&b, "FENCED: partition %s after index %d, offsets %d to %d: %s: %v\n", d.Key, d.Index, d.From, d.To, d.Cause, d.Err)
	}
	if len(r.Short) > 0 {
		fmt.Fprintf(&b, "POSSIBLY SHORT: %d partitions, %v\n", len(r.Short), r.Short)
	}
	return b.String()
}
