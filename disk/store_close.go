package disk

import "errors"

// closing is the way down: what is staged is flushed, every tail placed, every changed snapshot written, an empty group
// carries the marks, and the state log says that the journal ends there.
type closing struct {
	begun bool
	phase closePhase
	done  func(error)
	op    Op
	file  int // next of the ring to be closed
	err   error
}

type closePhase uint8

const (
	closeFlushing closePhase = iota // groups, tails, snapshots
	closeSaying                     // the record of the clean stop
	closeFiles
	closed
)

// Close flushes what is staged and ends cleanly; then no op is in flight and done is called, from EndTurn. EndTurn must go
// on being called meanwhile. After a failed journal nothing is written any more and done gets the failure.
func (s *Store) Close(done func(error)) {
	s.closing.begun, s.closing.done = true, done
	s.closing.op.Done = func(*Op) { s.closing.fileClosed(s) }
	s.logs.closing = true
}

func (c *closing) step(s *Store) {
	if !c.begun || c.phase == closed {
		return
	}
	switch c.phase {
	case closeFlushing:
		c.flush(s)
	case closeSaying:
		c.say(s)
	}
}

// flush waits until nothing is left but the files.
func (c *closing) flush(s *Store) {
	j, st := s.journal, s.state
	if j.failed != nil {
		if j.flying == nil && !st.busy && !j.maker.busy && s.checkpoint.placing == 0 && !s.checkpoint.copier.busy {
			c.err = j.failed
			c.closeFiles(s)
		}
		return
	}
	if s.checkpoint.err != nil && s.checkpoint.phase == checkpointIdle {
		c.err = s.checkpoint.err // a clean end needs the disk; recovery does not
		c.unclean(s)
		return
	}
	if j.flying != nil || j.image.entries > 0 || len(j.queue) > 0 || s.unmarked || j.maker.busy || st.busy {
		return
	}
	if s.checkpoint.phase != checkpointIdle {
		return
	}
	if s.behind() {
		s.checkpoint.startAll()
		return
	}
	if j.now.Dead != j.durable.Dead {
		return
	}
	c.phase = closeSaying
	r := stateRecord{Kind: recordClean, Placed: j.at, Group: j.flushed}
	st.flushed, st.dead = j.flushed, j.now.Dead
	st.record(&r, nil)
	s.checkpoint.position = st.position()
	st.step(true)
}

// unclean ends without the record once nothing is in flight: the next start replays the journal.
func (c *closing) unclean(s *Store) {
	if s.journal.flying == nil && !s.state.busy && !s.journal.maker.busy {
		c.closeFiles(s)
	}
}

// behind says whether a log has entries that no snapshot covers.
func (s *Store) behind() bool {
	for _, l := range s.order {
		if (l.member.firstGen != 0 || l.unsaved) && l.fenced == nil {
			return true
		}
	}
	return false
}

func (c *closing) say(s *Store) {
	st := s.state
	switch {
	case st.busy:
	case st.err != nil:
		c.err = st.err
		c.closeFiles(s)
	case st.written < s.checkpoint.position:
		st.step(true)
	default:
		c.closeFiles(s)
	}
}

// closeFiles closes the segments, then the journal's files and the state log, one by one, and ends.
func (c *closing) closeFiles(s *Store) {
	c.phase = closeFiles
	s.logs.close(func() { c.fileClosed(s) })
}

func (c *closing) fileClosed(s *Store) {
	if c.op.Kind == OpClose {
		c.err = errors.Join(c.err, c.op.Err)
	}
	for c.file <= len(s.journal.files) {
		f := s.state.file
		if c.file < len(s.journal.files) {
			f = s.journal.files[c.file].file
		}
		c.file++
		if f != 0 {
			c.op.Kind, c.op.Class, c.op.File, c.op.Err = OpClose, ClassTail, f, nil
			s.dev.Submit(&c.op)
			return
		}
	}
	c.phase = closed
	s.journal.release()
	s.state.release()
	c.done(c.err)
}
