package disk

import (
	"cmp"
	"errors"
)

// closing is the way down: what is staged is flushed, every tail placed, every changed snapshot written, an empty group
// carries the marks, and the state log says that the journal ends there.
type closing struct {
	begun bool
	swept bool // the last checkpoint was begun
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
	closeLogs                       // the segments' files
	closeFiles                      // journal and state log
	closeDone
)

// Close flushes what is staged and ends cleanly; then no op is in flight and done is called. EndTurn must go on being
// called meanwhile. After a failed journal nothing is written any more and done gets the failure.
func (s *Store) Close(done func(error)) {
	s.closing.begun, s.closing.done = true, done
	s.closing.op.Done = func(*Op) { s.closing.fileClosed(s) }
	s.logs.closing = true
}

func (c *closing) step(s *Store) {
	switch {
	case !c.begun:
	case c.phase == closeFlushing:
		c.flush(s)
	case c.phase == closeSaying:
		c.say(s)
	}
}

// flush waits until nothing is left but the record.
func (c *closing) flush(s *Store) {
	j, cp := s.journal, &s.checkpoint
	if s.dev.InFlight() > 0 {
		return
	}
	switch {
	case j.failed != nil:
		c.end(s, j.failed)
	case cp.err != nil && cp.phase == checkpointIdle: // a clean end needs the disk; the next start replays the journal
		c.end(s, cp.err)
	case j.stuck() && cp.phase == checkpointIdle: // nothing can be written to the ring, and nothing will change that
		c.end(s, cmp.Or(j.maker.err, errRing))
	case j.image.entries > 0 || len(j.queue) > 0 || s.unmarked || s.holding() || cp.phase != checkpointIdle:
	case !c.swept || s.behind():
		c.swept = true
		cp.startAll()
	case j.now.Dead != j.durable.Dead:
	default:
		c.phase = closeSaying
		r := stateRecord{Kind: recordClean, Placed: j.at, Group: j.flushed}
		s.state.flushed, s.state.dead = j.flushed, j.now.Dead
		s.state.record(&r, nil)
		cp.position = s.state.position()
		s.state.step(true)
	}
}

// errRing is the end of a store whose journal has no place to go on.
var errRing = errors.New("disk: journal: no place to go on; restart to recover")

// stuck says that entries or marks wait and none of them can be submitted.
func (j *journal) stuck() bool {
	return (j.waits() || j.now.Dead != j.durable.Dead) && j.next() == nil && !j.canMark()
}

// holding says whether a log keeps entries back behind a direct write.
func (s *Store) holding() bool {
	for _, l := range s.order {
		if len(l.held) > 0 && l.fenced == nil {
			return true
		}
	}
	return false
}

// behind says whether a log has entries that no snapshot covers.
func (s *Store) behind() bool {
	for _, l := range s.order {
		if l.member.firstGen != 0 && l.fenced == nil {
			return true
		}
	}
	return false
}

func (c *closing) say(s *Store) {
	st := s.state
	switch {
	case s.dev.InFlight() > 0:
	case st.err == nil && st.written < s.checkpoint.position:
		st.step(true)
	default:
		c.end(s, st.err)
	}
}

// end closes the segments, the journal's files and the state log, and gives the memory back.
func (c *closing) end(s *Store, err error) {
	c.err, c.phase = err, closeLogs
	s.logs.close(func() {
		c.phase = closeFiles
		c.fileClosed(s)
	})
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
	c.phase = closeDone
	s.journal.release()
	s.state.release()
	c.done(c.err)
}
