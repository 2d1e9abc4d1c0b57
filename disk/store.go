package disk

import (
	"slices"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/loop/block"
)

// Store is what one shard keeps on disk: one journal, one state log, a Log per partition.
//
// Thread: the shard's, for every call. Nothing waits but Open. Callbacks into Machine come from Open, EndTurn and the
// device's completions.
type Store struct {
	cfg     Config
	dev     Device
	pool    *block.Pool
	machine Machine

	logs       *logShare // what the logs have in common
	table      map[Key]*Log
	order      []*Log // all logs, in the order they came to be: what is done for each of them is done in this order
	journal    *journal
	state      *stateLog
	checkpoint checkpoint
	resumes    resumes

	record     stateRecord // scratch of the checkpoint
	recordLog  *Log
	fillRecord func(*stateRecord, []byte) ([]byte, int)

	now        int64 // of the last EndTurn
	sentAt     int64 // when the flying group was submitted
	arrived    bool  // a group was flushed since the last EndTurn
	idleSince  int64 // when the last group was flushed
	unmarked   bool  // that group is not covered by a durable flushed mark
	stalled    bool
	reported   bool // Machine.Failed was called
	leaving    []*Log
	mayBeGone  bool // something happened since that could make one of them go
	saidDead   uint64
	closing    closing
	flushNanos struct{ last, max int64 }
	recovering *recovery
}

// idleMarkNanos: when no group follows for this long, an empty one carries the flushed mark of the last (RULES 1).
const idleMarkNanos = 5e6

func newStore(cfg Config, dev Device, pool *block.Pool, m Machine) (*Store, error) {
	s := &Store{cfg: cfg, dev: dev, pool: pool, machine: m, table: make(map[Key]*Log)}
	s.journal = newJournal(&s.cfg, dev, pool)
	s.journal.landed = s.landed
	if err := s.journal.reserve(cfg.StagedBytes); err != nil {
		return nil, err
	}
	state, err := newStateLog(&s.cfg, dev, pool)
	if err != nil {
		s.journal.release()
		return nil, err
	}
	s.state = state
	s.logs = newLogShare(s)
	s.checkpoint.s = s
	s.checkpoint.rescue.init(&s.checkpoint)
	s.fillRecord = s.fill
	return s, nil
}

// Log returns the log of k, nil if there is none.
func (s *Store) Log(k Key) *Log { return s.table[k] }

// NewLog makes an empty log; no file is made for it yet. A key that has a log already gets that one.
func (s *Store) NewLog(k Key, opt LogOptions) *Log {
	if l := s.table[k]; l != nil {
		return l
	}
	l := newLog(s, k, opt)
	s.table[k] = l
	s.order = append(s.order, l)
	return l
}

// Room says whether a produce that stages this many bytes in the journal is admitted: nil, ErrBusy, ErrFailed or
// ErrClosing. A quarter of the ring is kept for everything else (RULES 9), and what a start could not read in well under
// a second.
func (s *Store) Room(bytes int) error {
	j := s.journal
	if err := s.open(); err != nil {
		return err
	}
	if s.stalled && !fault.On(fault.Rule30NoStall) || s.staged()+bytes > s.cfg.StagedBytes {
		return ErrBusy
	}
	keep := max(j.ringBlocks()/4, j.ringBlocks()-min(j.ringBlocks(), 2*liveBlocks))
	if fault.On(fault.Rule09NoShare) {
		keep = 0
	}
	return s.admit(bytes, keep)
}

// staged is what waits for a group, or for direct writes before it may be in one, bytes.
func (s *Store) staged() int { return s.journal.staged + s.logs.heldBytes }

// roomForNote is Room for all else: acks, commits, deletes. They may use the ring up to the two blocks that the marks need
// which give it back.
func (s *Store) roomForNote(bytes int) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.staged()+bytes > s.cfg.StagedBytes+s.cfg.GroupBytes {
		return ErrBusy
	}
	return s.admit(bytes, 2)
}

func (s *Store) open() error {
	switch {
	case s.journal.failed != nil:
		return ErrFailed
	case s.closing.begun:
		return ErrClosing
	}
	return nil
}

// admit answers ErrBusy unless the entries fit into the ring and leave keep blocks.
func (s *Store) admit(bytes int, keep uint64) error {
	j := s.journal
	need := uint64(bytes+s.logs.heldBytes)/blockBodyBytes + 1
	if j.used()+j.stagedBlocks()+need+keep > j.ringBlocks() {
		return ErrBusy
	}
	return nil
}

// stage copies one entry into the next commit group; its payload is given in up to three parts. Room was asked before.
// Cost: no allocation.
func (s *Store) stage(l *Log, kind Kind, index, epoch uint64, parts ...[]byte) {
	var p [3][]byte
	copy(p[:], parts)
	s.journal.stage(l, l.key, kind, index, epoch, p)
	l.member.epoch = epoch
	if kind == KindDrop {
		l.member.dropIndex = index
	}
}

// landed is the end of a commit group's flight.
func (s *Store) landed(m *image) {
	j := s.journal
	s.arrived = true
	if j.failed != nil {
		s.fail()
		return
	}
	s.unmarked = m.entries > 0
	s.announce(m)
	if s.stalled {
		s.stalled = false
		s.machine.Stalled(false)
	}
}

// announce tells logs and machine what the group made durable.
func (s *Store) announce(m *image) {
	for i := range m.touched {
		l, index := m.touched[i].log, m.touched[i].index
		b := &l.member
		b.durable = index
		if b.dropIndex != 0 && index >= b.dropIndex && !b.dropped {
			b.dropped = true
			s.leaving = append(s.leaving, l)
		}
		l.isDurable(index)
		s.machine.Durable(l, index)
	}
}

// fail is final: no group is submitted any more, and the machine hears of it once.
func (s *Store) fail() {
	if !s.reported {
		s.reported = true
		s.machine.Failed(s.journal.failed)
	}
}

// EndTurn submits the next commit group when none is in flight, and moves placing, checkpoint and files of the ring on.
// monoNanos never falls. It returns when it wants to run again at the latest, 0 for no such time.
// Cost: no allocation; a few loads when there is nothing to do.
func (s *Store) EndTurn(monoNanos int64) (wakeAt int64) {
	s.now = monoNanos
	if s.arrived { // completions bring no time of their own
		s.arrived, s.idleSince = false, monoNanos
		took := monoNanos - s.sentAt
		s.flushNanos.last, s.flushNanos.max = took, max(s.flushNanos.max, took)
	}
	ended := s.journal.failed != nil || s.closing.phase > closeFlushing
	if !ended {
		s.submit(monoNanos) // first of all that this turn gives to the kernel
	}
	wakeAt = s.logs.endTurn(monoNanos)
	if ended {
		s.closing.step(s)
		return wakeAt
	}
	s.checkpoint.step(monoNanos, s.closing.begun)
	s.submit(monoNanos) // marks, if the checkpoint has some
	s.journal.maker.step(monoNanos)
	s.sayGone()
	s.closing.step(s)
	return earlier(wakeAt, s.watch(monoNanos))
}

// submit sends the next group: staged entries, else marks that somebody waits for.
func (s *Store) submit(now int64) {
	j := s.journal
	j.now.State = s.state.durable
	s.state.flushed, s.state.dead = j.flushed, j.now.Dead
	switch {
	case j.next() != nil:
		s.sentAt = now
		j.submit()
	case j.canMark() && s.marksDue(now):
		s.sentAt = now
		j.submitMarks()
	}
}

// marksDue says whether an empty group should be written: to give files back, or because nothing followed the last one.
func (s *Store) marksDue(now int64) bool {
	j := s.journal
	if j.now.Dead != j.durable.Dead || j.now.Made != j.durable.Made {
		return true
	}
	if fault.On(fault.Rule01NoIdleMarks) {
		return false
	}
	if j.at+2 > j.limit() {
		return false // the last block is for the marks that make room
	}
	return s.unmarked && (now-s.idleSince >= idleMarkNanos || s.closing.begun)
}

// watch raises the stall and says when there is something to do without any completion.
func (s *Store) watch(now int64) (wakeAt int64) {
	j := s.journal
	switch {
	case j.flying != nil && !s.stalled:
		if now-s.sentAt < s.cfg.StallNanos {
			return s.sentAt + s.cfg.StallNanos
		}
		s.stalled = true
		s.machine.Stalled(true)
	case j.flying == nil && s.unmarked && s.idleSince+idleMarkNanos > now:
		wakeAt = s.idleSince + idleMarkNanos
	}
	if s.checkpoint.retryAt > now {
		wakeAt = earlier(wakeAt, s.checkpoint.retryAt)
	}
	if j.maker.err != nil && j.maker.retryAt > now {
		wakeAt = earlier(wakeAt, j.maker.retryAt)
	}
	return wakeAt
}

// earlier is the lesser of two times of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// sayGone reports dropped logs whose files are removed and whose key neither journal nor state log names any more.
// Cost: nothing while nothing happens to them; else a few loads for each, and one pass over all logs.
func (s *Store) sayGone() {
	if dead := s.journal.durable.Dead; len(s.leaving) == 0 || !s.mayBeGone && dead == s.saidDead {
		return
	}
	s.mayBeGone, s.saidDead = false, s.journal.durable.Dead
	kept := s.leaving[:0]
	for _, l := range s.leaving {
		b := &l.member
		if !fault.On(fault.Rule12GoneEarly) && (!l.removed || !b.gone || b.firstGen != 0 || b.lastGen > s.journal.durable.Dead || b.waiting(l)) {
			kept = append(kept, l)
			continue
		}
		delete(s.table, l.key)
		s.machine.Gone(l.key)
	}
	if len(kept) < len(s.leaving) {
		s.order = slices.DeleteFunc(s.order, func(l *Log) bool { return s.table[l.key] != l })
	}
	clear(s.leaving[len(kept):])
	s.leaving = kept
}

// fill appends log state and machine state of recordLog.
func (s *Store) fill(r *stateRecord, dst []byte) ([]byte, int) {
	dst = s.recordLog.appendState(dst)
	logEnd := len(dst)
	r.Index, dst = s.machine.Snapshot(s.recordLog, dst)
	return dst, logEnd
}
