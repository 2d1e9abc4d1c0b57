package slipring

import "github.com/slipringmq/slipring/disk"

// reportRecovery tells the log what a start found. Damage is an error line of its own for each finding: nothing that was
// acknowledged may be missing without a word.
func (h *host) reportRecovery(r *disk.Report) {
	how := "unclean"
	switch {
	case r.Fresh:
		how = "fresh"
	case r.Clean:
		how = "clean"
	}
	h.log.Info("recovered", "event", "recovery", "stop", how, "groups", r.Groups, "entries", r.Entries,
		"snapshots", r.Snapshots, "bytes", r.BytesRead)
	for _, c := range r.Cut {
		h.log.Info("cut a torn end, never acknowledged", "event", "recovery.cut", "generation", c.Generation, "group", c.Group,
			"block", c.Block, "blocks", c.Blocks)
	}
	for _, d := range r.Blocks {
		h.log.Error("acknowledged bytes do not check; restore the file from a copy or accept the loss below", "event", "recovery.damage",
			"file", d.File, "generation", d.Generation, "group", d.Group, "at", d.Block, "length", d.Blocks)
	}
	for _, name := range r.Missing {
		h.log.Error("a file is missing", "event", "recovery.missing", "file", name)
	}
	for _, d := range r.Damages {
		h.log.Error("partition is fenced: it takes no records and serves what is below the damage", "event", "recovery.fenced",
			"partition", d.Key.String(), "index", d.Index, "from", d.From, "to", d.To, "cause", d.Cause.String(), "error", d.Err)
	}
	for _, k := range r.Short {
		h.log.Error("partition may have lost its last records in the damage", "event", "recovery.short", "partition", k.String())
	}
}
