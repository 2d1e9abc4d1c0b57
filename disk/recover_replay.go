package disk

import (
	"errors"
	"fmt"
	"slices"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// replayState is what recovery knows of one key.
type replayState struct {
	key     Key
	log     *Log
	found   *foundRecord // its newest snapshot, nil for none
	exists  Existence
	deleted bool
	pending bool // Log.recovered has not answered

	next    uint64 // index of the entry to be replayed next
	machine uint64 // the machine has all entries up to this one
	first   uint64 // first index seen in the journal, 0 none
	last    uint64 // place of the last entry seen
	damaged bool
	stale   bool // its snapshot is lost, and the journal has nothing of it that would say so again

	gap uint64 // least index seen for which an entry before it was missing then, 0 none
}

// replayAll restores and replays meta, asks it who exists, then does the same for all others in the order of the journal.
func (r *recovery) replayAll() error {
	r.newLog(Meta)
	r.restore(r.byKey[Meta])
	if err := r.pass(true); err != nil {
		return err
	}
	r.finish(r.byKey[Meta])
	keys := slices.Clone(r.state.order)
	slices.SortFunc(keys, Key.compare)
	for _, k := range keys {
		if r.state.records[k].Kind == recordSnapshot {
			r.stateOf(k)
		}
	}
	if err := r.replayRescued(); err != nil {
		return err
	}
	if err := r.pass(false); err != nil {
		return err
	}
	for _, st := range r.logs {
		if st.key != Meta {
			r.finish(st)
		}
	}
	return nil
}

// newLog makes a key's log and its place in the recovery.
func (r *recovery) newLog(k Key) *replayState {
	st := &replayState{key: k, next: 1, exists: Live}
	if f := r.state.records[k]; f != nil && f.Kind == recordSnapshot {
		st.found = f
	}
	st.log = r.s.NewLog(k, r.options(k))
	st.log.member.replay = st
	r.byKey[k] = st
	r.logs = append(r.logs, st)
	return st
}

// stateOf returns the key's place, made and restored at first sight.
func (r *recovery) stateOf(k Key) *replayState {
	if st := r.byKey[k]; st != nil {
		return st
	}
	st := r.newLog(k)
	st.exists = r.s.machine.Known(k)
	if st.exists == Unknown && fault.On(fault.Rule12DiscardUnknown) {
		st.exists = Deleted
	}
	switch st.exists {
	case Deleted:
		st.deleted = true
		if st.found != nil {
			if _, err := st.log.restoreState(st.found.Log); err != nil {
				r.damage(st, CauseState, 0, nil, err)
			}
		}
	case Live:
		r.restore(st)
	default:
		st.log.member.orphan = true
		if st.found != nil {
			st.log.member.unknown, st.log.member.placed = st.found.raw, st.found.Placed
		}
		r.damage(st, CauseUnknown, 0, nil, fmt.Errorf("id %s has neither topic nor tombstone", k))
	}
	return st
}

// restore gives log and machine their snapshot.
func (r *recovery) restore(st *replayState) {
	f := st.found
	if f == nil {
		return
	}
	b := &st.log.member
	b.epoch = f.Epoch
	if _, err := st.log.restoreState(f.Log); err != nil {
		r.damage(st, CauseState, 0, nil, fmt.Errorf("snapshot of the log: %w", err))
		return
	}
	if err := r.s.machine.Restore(st.log, f.Machine); err != nil {
		r.damage(st, CauseState, 0, nil, fmt.Errorf("snapshot: %w", err))
		return
	}
	r.report.Snapshots++
	st.next, st.machine = f.Placed+1, f.Index
	b.placed, b.durable = f.Placed, f.Index
	if f.Cause != 0 {
		r.damageAt(st, Damage{Key: st.key, Cause: f.Cause, Index: f.Index, From: f.From, To: f.To, Err: errBefore})
	}
}

var errBefore = errors.New("found at an earlier start")

// pass reads the good blocks and applies the entries of meta, or of all others.
func (r *recovery) pass(meta bool) error {
	j := r.s.journal
	var failure error
	stream := entryStream{
		emit: func(e entryHeader, place uint64) {
			if failure == nil && (e.Key == Meta) == meta {
				failure = r.apply(&e, place)
			}
		},
		bad: func(place uint64) {
			if !meta {
				r.badEntry(place)
			}
		},
	}
	for _, run := range r.walk.runs {
		for place := run.from; place < run.to; place++ {
			h := r.scan.at(j, r.s.resumes, place)
			if meta && h.Flags&blockFlagMeta == 0 && !(stream.pending() && stream.next == place) {
				continue
			}
			ahead := min(run.to-place, j.perFile-place%j.perFile)
			if meta {
				ahead = min(ahead, 16)
			}
			raw, err := r.window.block(j.files[j.fileOf(place/j.perFile)].file, place%j.perFile, ahead)
			if err != nil {
				return err
			}
			if raw == nil {
				return fmt.Errorf("disk: %s: block %d cannot be read any more", journalPath(r.s.cfg.Shard, j.fileOf(place/j.perFile)), place%j.perFile)
			}
			stream.feed(h, raw[blockHeaderBytes:], place)
			if failure != nil {
				return failure
			}
		}
	}
	r.report.BytesRead += r.window.read
	r.window.read = 0
	return nil
}

func (r *recovery) badEntry(place uint64) {
	j := r.s.journal
	r.report.Blocks = append(r.report.Blocks, BlockDamage{
		File: journalPath(r.s.cfg.Shard, j.fileOf(place/j.perFile)), Generation: place / j.perFile, Block: int(place % j.perFile), Blocks: 1,
	})
	r.walk.damage = append(r.walk.damage, r.report.Blocks[len(r.report.Blocks)-1])
}

// apply takes one entry: only the one that follows may change anything.
func (r *recovery) apply(e *entryHeader, place uint64) error {
	st := r.stateOf(e.Key)
	b := &st.log.member
	if st.first == 0 {
		st.first = e.Index
	}
	st.last = place
	b.lastGen = place / r.s.journal.perFile
	if b.firstGen == 0 && e.Index > b.placed {
		b.firstGen = b.lastGen
	}
	switch {
	case st.deleted || st.damaged || e.Index < st.next && !fault.On(fault.Rule05NoIndex):
		r.report.Skipped++
		return nil
	case e.Index > st.next:
		if st.gap == 0 || e.Index < st.gap {
			st.gap = e.Index
		}
		r.report.Skipped++
		return nil
	}
	return r.redo(st, e)
}

func (r *recovery) redo(st *replayState, h *entryHeader) error {
	e := Entry{Key: h.Key, Index: h.Index, Epoch: h.Epoch, Kind: h.Kind}
	if h.Kind >= KindShard {
		e.Payload = h.Payload
	}
	for {
		err := st.log.redo(&e, h.Payload)
		if errors.Is(err, ErrBusy) && r.s.dev.InFlight() > 0 { // tails wait to be written
			if err := r.s.dev.Wait(); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, ErrBusy) {
			return err // no damage: this start has too little memory
		}
		if err != nil {
			cause := CauseEntry
			if errors.Is(err, ErrDamaged) {
				cause = CauseSegment
			}
			r.damage(st, cause, h.Index-1, &e, err)
			return nil
		}
		break
	}
	st.next = h.Index + 1
	b := &st.log.member
	b.epoch = h.Epoch
	if h.Index <= st.machine && !fault.On(fault.Rule05NoIndex) {
		r.report.Skipped++
		return nil
	}
	if err := r.s.machine.Replay(st.log, &e); err != nil {
		r.damage(st, CauseEntry, h.Index-1, &e, err)
		return nil
	}
	st.machine, b.durable = h.Index, h.Index
	r.report.Entries++
	if h.Kind == KindDrop {
		b.dropIndex = h.Index
	}
	return nil
}

// damage fences the key and tells machine and report.
func (r *recovery) damage(st *replayState, cause Cause, index uint64, e *Entry, err error) {
	d := Damage{Key: st.key, Cause: cause, Index: index, Err: err}
	if e != nil && (e.Kind == KindAppend || e.Kind == KindReference) {
		d.From, d.To = batch.Offset(e.Header.BaseOffset), batch.Offset(e.Header.NextOffset())
	}
	r.damageAt(st, d)
}

func (r *recovery) damageAt(st *replayState, d Damage) {
	if st.damaged {
		return
	}
	st.damaged = true
	st.log.member.damage = &d
	st.log.fence(fmt.Errorf("%w: partition %s after index %d: %w", ErrDamaged, d.Key, d.Index, d.Err))
	r.report.Damages = append(r.report.Damages, d)
	if st.exists != Unknown {
		r.s.machine.Damaged(st.log, d)
	}
}

// finish looks at what replay cannot see: entries that a snapshot has and the journal has not any more, snapshots that
// may be too old because a later chunk is lost, and partitions whose last entries may have been in a damaged block.
func (r *recovery) finish(st *replayState) {
	if st.deleted || st.damaged {
		return
	}
	if missing := max(st.gap, st.machine+1); st.next < missing {
		r.damage(st, CauseJournal, st.next-1, nil, fmt.Errorf("entries are missing between %d and %d", st.next-1, missing))
		return
	}
	if lost := r.state.lost; lost > 0 && st.first == 0 && (st.found == nil || st.found.chunk <= lost) {
		st.stale = true
		r.damage(st, CauseState, st.machine, nil, errors.New("a later snapshot may be lost"))
		return
	}
	n := len(r.walk.damage)
	if n == 0 || fault.On(fault.Rule05DamageUnnamed) {
		return
	}
	last := r.walk.damage[n-1]
	perFile := r.s.journal.perFile
	if place := last.Generation*perFile + uint64(last.Block); st.last > place || st.found != nil && st.found.Group > last.Group {
		return
	}
	r.report.Short = append(r.report.Short, st.key)
}

// recovered is the answer of one log; it fails alone.
func (st *replayState) recovered(r *recovery, err error) {
	st.pending = false
	if err != nil {
		r.damage(st, CauseSegment, st.machine, nil, err)
	}
}

// removeDeleted removes what is left of deleted partitions; Machine.Gone follows in its time.
func (r *recovery) removeDeleted() {
	for _, st := range r.logs {
		b := &st.log.member
		if !st.deleted && b.dropIndex == 0 {
			continue
		}
		b.dropped = true
		r.s.leaving = append(r.s.leaving, st.log)
		if b.firstGen == 0 {
			b.firstGen = max(b.lastGen, r.walk.marks.Dead+1) // for the checkpoint to say that it is gone
		}
		st.log.removeAll()
	}
}
