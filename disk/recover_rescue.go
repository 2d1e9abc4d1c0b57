package disk

import (
	"fmt"
	"slices"

	"github.com/slipringmq/slipring/loop/block"
)

// replayRescued applies the entries of fenced logs that were written out of dead generations: they come before all that the
// journal has. Files that nobody needs any more are removed at the end of the start.
func (r *recovery) replayRescued() error {
	names := make([]string, 0, 8)
	for name := range r.found {
		if _, ok := parseRescueName(name); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names) // by generation
	for _, name := range names {
		generation, _ := parseRescueName(name)
		needed := false
		if generation <= r.scan.most.Dead { // else it may be in part, and the journal has all of it
			var err error
			if needed, err = r.replayFile(rescuePath(r.s.cfg.Shard, generation)); err != nil {
				return err
			}
		}
		if !needed {
			r.useless = append(r.useless, rescuePath(r.s.cfg.Shard, generation))
		}
	}
	return nil
}

// replayFile applies the entries of one file, and says whether a log still depends on it.
func (r *recovery) replayFile(path string) (needed bool, err error) {
	file, err := r.openFile(path)
	if err != nil {
		return false, err
	}
	var rest []byte
	bad := false
	for pos, more := Position(0), true; more && !bad; {
		if err := r.window.load(file, pos, block.Size256K); err != nil {
			return false, err
		}
		n := r.window.n
		pos, more, bad = pos+Position(n), n == block.Size256K, len(r.window.bad) > 0
		rest = append(rest, r.window.mem.Data[:n]...)
		for len(rest) >= entryHeaderBytes+maxPayloadBytes || !more && len(rest) > 0 {
			e, after, err := parseEntry(rest)
			if err != nil {
				break
			}
			st := r.stateOf(e.Key)
			needed = needed || !st.deleted && e.Index > st.log.member.placed
			if err := r.apply(&e, 0); err != nil {
				return false, err
			}
			rest = after
		}
		bad = bad || len(rest) > entryHeaderBytes+maxPayloadBytes+block.Size256K
	}
	if bad || len(rest) >= blockBytes || !zeros(rest) {
		r.report.Blocks = append(r.report.Blocks, BlockDamage{File: path, Blocks: len(rest)})
		needed = true // for who wants to look at it
	}
	_, err = do(r.s.dev, Op{Kind: OpClose, File: file})
	return needed, err
}

// removeUseless removes, durably, the files that no log depends on. One of a live generation must not come back with a power
// cut: by then the generation may be dead, and the file, which is in part, would count.
func (r *recovery) removeUseless() error {
	for _, path := range r.useless {
		if _, err := do(r.s.dev, Op{Kind: OpRemove, Path: path}); err != nil {
			return fmt.Errorf("disk: %s: remove: %w", path, err)
		}
	}
	if len(r.useless) == 0 {
		return nil
	}
	dir := shardDir(r.s.cfg.Shard)
	if _, err := do(r.s.dev, Op{Kind: OpSyncDir, Path: dir}); err != nil {
		return fmt.Errorf("disk: %s: sync: %w", dir, err)
	}
	return nil
}
