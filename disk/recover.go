package disk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/loop/block"
)

// recovery is one Open: what was found on the medium, and what follows from it. The order matters: state log, marks of
// all journal blocks, the walk that decides what was acknowledged, then meta, then everything else (RULES 1, 3, 5, 12).
type recovery struct {
	s       *Store
	report  *Report
	options func(Key) LogOptions

	found   map[string]bool // names in the shard's directory
	window  *readWindow
	state   stateFound
	scan    journalScan
	walk    journalWalk
	useless []string       // rescue files that nobody needs any more
	logs    []*replayState // of all keys found, in order of their first sight
	byKey   map[Key]*replayState
}

// Open recovers one shard's store, or makes a new one in a directory that holds nothing of it. It blocks, pumping
// dev.Wait, and returns with nothing in flight. options is asked for each key before its log is made.
//
// Damage is no error: it is in the report, and what it touched is fenced. Errors: the directory cannot be read or written,
// or the pool has no room for the journal's images.
func Open(cfg Config, dev Device, pool *block.Pool, m Machine, options func(k Key) LogOptions) (*Store, *Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, nil, err
	}
	s, err := newStore(cfg, dev, pool, m)
	if err != nil {
		return nil, nil, err
	}
	r := &recovery{s: s, report: new(Report), options: options, byKey: make(map[Key]*replayState)}
	s.recovering = r
	if err := r.run(); err != nil {
		s.abandon()
		return nil, r.report, err
	}
	s.recovering = nil
	for _, st := range r.logs {
		st.log.member.replay = nil
	}
	return s, r.report, nil
}

func (r *recovery) run() error {
	var err error
	if r.window, err = newReadWindow(r.s.dev, r.s.pool); err != nil {
		return err
	}
	defer r.window.release()
	if err := r.openFiles(); err != nil {
		return err
	}
	if err := r.readState(); err != nil {
		return err
	}
	if err := r.scanJournal(); err != nil {
		return err
	}
	if fresh, err := r.fresh(); fresh || err != nil {
		return err
	}
	r.walkJournal()
	if err := r.replayAll(); err != nil {
		return err
	}
	return r.goOn()
}

// openFiles opens what exists, and makes what a killed process wrote durable before anything is believed: replay
// accepts entries on whose durability the next acknowledgement builds, and a state log that was just renamed must not
// lose its name again after this start has written to it.
func (r *recovery) openFiles() error {
	s := r.s
	list, err := do(s.dev, Op{Kind: OpList, Path: shardDir(s.cfg.Shard)})
	if err != nil {
		return fmt.Errorf("disk: %s: list: %w", shardDir(s.cfg.Shard), err)
	}
	r.found = make(map[string]bool)
	for _, name := range list.Names {
		r.found[name] = true
	}
	if len(r.found) > 0 {
		if _, err := do(s.dev, Op{Kind: OpSyncDir, Path: shardDir(s.cfg.Shard)}); err != nil {
			return fmt.Errorf("disk: %s: sync: %w", shardDir(s.cfg.Shard), err)
		}
	}
	for n := range s.journal.files {
		if !r.found[fmt.Sprintf("journal-%d", n)] {
			continue
		}
		f, err := r.openFile(journalPath(s.cfg.Shard, n))
		if err != nil {
			return err
		}
		s.journal.files[n] = journalFile{file: f, made: true}
	}
	if r.found["state"] {
		s.state.file, err = r.openFile(s.state.path())
	}
	return err
}

func (r *recovery) openFile(path string) (File, error) {
	op, err := do(r.s.dev, Op{Kind: OpOpen, Path: path})
	if err != nil {
		return 0, fmt.Errorf("disk: %s: open: %w", path, err)
	}
	file := op.File
	if _, err = do(r.s.dev, Op{Kind: OpSync, File: file}); err != nil {
		return file, fmt.Errorf("disk: %s: sync: %w", path, err)
	}
	return file, nil
}

// fresh says whether nothing of this shard was ever acknowledged, and then makes what a new one needs: the first file of
// the ring, then the state log, whose existence says that the rest must exist too.
func (r *recovery) fresh() (bool, error) {
	s := r.s
	if r.found["state"] || r.scan.blocks > 0 {
		return false, nil
	}
	if s.cfg.Shard == 0 {
		topics, err := do(s.dev, Op{Kind: OpList, Path: "topics"})
		if err != nil {
			return false, fmt.Errorf("disk: topics: list: %w", err)
		}
		if len(topics.Names) > 0 {
			r.report.Missing = append(r.report.Missing, shardDir(s.cfg.Shard))
		}
	}
	r.report.Fresh = true
	j := s.journal
	for n := range j.files { // zeros of a start that did not get far; made again
		if j.files[n].file != 0 {
			if _, err := do(s.dev, Op{Kind: OpClose, File: j.files[n].file}); err != nil {
				return true, fmt.Errorf("disk: %s: close: %w", journalPath(s.cfg.Shard, n), err)
			}
		}
		j.files[n] = journalFile{}
	}
	j.at, j.group = j.perFile, 1
	r.newLog(Meta)
	if err := r.makeFile(); err != nil {
		return true, err
	}
	return true, r.begin()
}

// makeFile makes the file of the current generation when it does not exist, and waits for it.
func (r *recovery) makeFile() error {
	j := r.s.journal
	g := j.at / j.perFile
	if j.files[j.fileOf(g)].made {
		return nil
	}
	j.maker.begin(g)
	if err := r.pump(func() bool { return !j.maker.busy }); err != nil {
		return err
	}
	if r.report.Fresh {
		j.durable.Made = j.now.Made // the state log, written next, says so
	}
	return j.maker.err
}

// pump waits for completions until the condition holds.
func (r *recovery) pump(until func() bool) error {
	for !until() {
		if r.s.dev.InFlight() == 0 {
			return errors.New("disk: recovery waits for nothing")
		}
		if err := r.s.dev.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// goOn puts the store behind what was found: the next group goes to the walk's end, under this start's number.
func (r *recovery) goOn() error {
	s, j, w := r.s, r.s.journal, &r.walk
	j.at, j.chain, j.flushed = w.end, w.chain, w.group
	j.group = max(r.scan.most.Group, r.scan.most.Flushed, w.group) + 1
	if fault.On(fault.Rule03TrustStale) {
		j.group = w.group + 1
	}
	j.durable = w.marks
	j.durable.Flushed = w.group
	if r.found["state"] { // it came after the first file, also when no group says so yet
		j.durable.Made = max(j.durable.Made, 1)
	}
	j.now = r.scan.most.marks
	s.unmarked = false
	if w.lost || w.groups == 0 { // no group is there to say it; the chunk that begins this start says so before any group
		j.durable.Dead = max(j.durable.Dead, j.now.Dead)
	}
	if w.lost {
		r.leaveDamage()
	}
	if w.lost || w.groups == 0 { // the first block that goes there says so itself, once the file is made
		j.now.Made = max(j.now.Made, uint16(min(j.at/j.perFile, uint64(len(j.files)))))
		j.durable.Made = max(j.durable.Made, j.now.Made)
	}
	made := r.scan.most.Made
	for n := range j.files {
		j.files[n].made = j.files[n].made && !r.scan.short[n] && (n != 0 && n <= int(made) || n == 0 && int(made) >= len(j.files))
	}
	for _, st := range r.logs {
		if !st.deleted && st.log != nil {
			st.pending = true
			st.log.recovered(r.report.Clean, func(err error) { st.recovered(r, err) })
		}
	}
	if err := r.pump(func() bool { return !slices.ContainsFunc(r.logs, func(st *replayState) bool { return st.pending }) }); err != nil {
		return err
	}
	if err := r.makeFile(); err != nil && j.maker.err == nil {
		return err
	} // a full disk: reads are served, appends answer ErrBusy until EndTurn has made the file
	r.removeDeleted()
	if err := r.removeUseless(); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.remake(); err != nil {
		return err
	}
	slices.SortFunc(s.order, func(a, b *Log) int { return a.key.compare(b.key) })
	slices.SortFunc(r.report.Short, Key.compare)
	slices.SortStableFunc(r.report.Damages, func(a, b Damage) int { return cmp.Or(a.Key.compare(b.Key), cmp.Compare(a.Index, b.Index)) })
	return nil
}

// leaveDamage goes on in the next file, so that damaged blocks stay where they are for who wants to look at them; where
// that file cannot be used yet, behind the last known block.
func (r *recovery) leaveDamage() {
	j := r.s.journal
	if next := (j.at/j.perFile + 1) * j.perFile; next < (j.durable.Dead+1+uint64(len(j.files)))*j.perFile {
		j.at = next
	}
}

// remake makes the files of the ring that damage took, so that the next start does not find them missing again. One that
// a live generation would be in waits until it is dead; a full disk is the maker's to wait for.
func (r *recovery) remake() error {
	j := r.s.journal
	for g, n := j.at/j.perFile, uint64(len(j.files)); n > 0 && g <= j.durable.Dead+uint64(len(j.files)); g, n = g+1, n-1 {
		f := &j.files[j.fileOf(g)]
		if f.made || !r.mustExist(j.fileOf(g)) || j.maker.err != nil {
			continue
		}
		if f.file != 0 {
			if _, err := do(r.s.dev, Op{Kind: OpClose, File: f.file}); err != nil {
				return fmt.Errorf("disk: %s: close: %w", journalPath(r.s.cfg.Shard, j.fileOf(g)), err)
			}
			*f = journalFile{}
		}
		j.maker.begin(g)
		if err := r.pump(func() bool { return !j.maker.busy }); err != nil {
			return err
		}
	}
	return nil
}

// begin makes this start known to the next one before its first group: place, group and number.
func (r *recovery) begin() error {
	s, st := r.s, r.s.state
	s.resumes = append(s.resumes, resume{s.cfg.Start, s.journal.at, s.journal.group})
	st.flushed, st.dead = s.journal.flushed, s.journal.durable.Dead
	if st.file == 0 {
		return r.newState()
	}
	rec := s.resumes[len(s.resumes)-1].record()
	st.record(&rec, nil)
	r.recordFences()
	for more := true; more; more = st.err == nil && st.pending() > 0 {
		st.step(true)
		if err := r.pump(func() bool { return !st.busy }); err != nil {
			return err
		}
	}
	s.journal.now.State = st.durable
	return st.err
}

// recordFences keeps the fences of those whose snapshot is lost: what this start writes hides the loss from the next one.
func (r *recovery) recordFences() {
	for _, st := range r.logs {
		if st.stale && !st.log.member.orphan {
			r.s.checkpoint.snapshot(st.log)
		}
	}
}

// newState writes a state log aside and names it: it exists whole or not at all. With snapshots to keep, the checkpoint
// writes it anew with all of them before anything else.
func (r *recovery) newState() error {
	s, st := r.s, r.s.state
	var failure error
	done := false
	st.beginRewrite(func() {
		s.recordResumes()
		r.recordFences()
	}, func(err error) { failure, done = err, true })
	if err := r.pump(func() bool { return done || !st.busy }); err != nil {
		return err
	}
	for !done && st.err == nil && st.pending() > 0 {
		st.step(true)
		if err := r.pump(func() bool { return !st.busy }); err != nil {
			return err
		}
	}
	switch {
	case done:
	case st.err != nil:
		return st.err
	default:
		st.finishRewrite()
		if err := r.pump(func() bool { return done }); err != nil {
			return err
		}
	}
	s.journal.now.State = st.durable
	return failure
}

// abandon closes what a failed Open had opened. Errors change nothing any more.
func (s *Store) abandon() {
	for s.dev.InFlight() > 0 {
		if s.dev.Wait() != nil {
			return
		}
	}
	files := []File{s.state.file, s.state.rewrite.file}
	for _, f := range s.journal.files {
		files = append(files, f.file)
	}
	for _, f := range files {
		if f != 0 {
			if _, err := do(s.dev, Op{Kind: OpClose, File: f}); err != nil {
				return
			}
		}
	}
	s.journal.release()
	s.state.release()
}
