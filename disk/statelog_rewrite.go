package disk

import (
	"errors"
	"fmt"
	"syscall"
)

// stateRewrite writes the state log anew: a file aside, all records, rename, directory. Until the directory is durable
// the old file counts; a crash leaves one or the other, and both hold everything that the journal's dead mark builds on.
type stateRewrite struct {
	on   bool
	file File
	old  struct {
		end   int64
		last  uint64
		chain uint32
		err   error
	}
	next    func(*stateLog)
	done    func(error)
	failure error
}

// beginRewrite makes the file aside and calls ready when records may be appended; on failure done is called instead.
// Nothing is in flight.
func (s *stateLog) beginRewrite(ready func(), done func(error)) {
	s.drop()
	r := &s.rewrite
	r.old.end, r.old.last, r.old.chain, r.old.err = s.end, s.last, s.chain, s.err
	r.on, r.done, r.failure = true, done, nil
	s.err = nil
	s.end = 0
	s.submit(OpRemove, s.aside(), func(s *stateLog) { // left by a start that was cut short
		if s.op.Err != nil && !errors.Is(s.op.Err, syscall.ENOENT) {
			s.endRewrite(s.op.Err)
			return
		}
		s.op.File = 0
		s.submit(OpCreate, s.aside(), func(s *stateLog) {
			if s.op.Err != nil {
				s.endRewrite(s.op.Err)
				return
			}
			r.file = s.op.File
			ready()
		})
	})
}

func (s *stateLog) submit(kind OpKind, path string, next func(*stateLog)) {
	op := &s.op
	op.Kind, op.Class, op.Sync, op.Err = kind, ClassTail, false, nil
	op.Path, op.NewPath, op.Pos, op.Size = path, "", 0, 0
	if kind == OpRename {
		op.NewPath = s.path()
	}
	s.rewrite.next = next
	s.busy = true
	s.dev.Submit(op)
}

func (s *stateLog) rewriteDone(*Op) { s.rewrite.next(s) }

// finishRewrite puts the new file into the old one's place. All records are durable and nothing is in flight.
func (s *stateLog) finishRewrite() {
	s.submit(OpRename, s.aside(), func(s *stateLog) {
		if s.op.Err != nil {
			s.endRewrite(s.op.Err)
			return
		}
		s.submit(OpSyncDir, s.dir, (*stateLog).renamed)
	})
}

// renamed ends it with the new file in any case: the old one has lost its name. Without a durable directory a power cut
// may bring either back, so durable stays where it was and the file has to be written anew once more.
func (s *stateLog) renamed() {
	err := s.op.Err
	s.file, s.rewrite.file = s.rewrite.file, s.file
	s.live = s.end
	if err == nil {
		s.durable = s.last
		s.rewrites++
	} else {
		err = fmt.Errorf("disk: %s: write anew: %w", s.path(), err)
		s.drop()
		s.err = err
	}
	s.closeUseless(err)
}

// endRewrite gives the new file up; the old one goes on as it was.
func (s *stateLog) endRewrite(err error) {
	o := &s.rewrite.old
	s.drop()
	s.end, s.last, s.chain, s.err = o.end, o.last, o.chain, o.err
	s.closeUseless(fmt.Errorf("disk: %s: write anew: %w", s.path(), err))
}

// closeUseless closes the file that does not count any more and tells the owner.
func (s *stateLog) closeUseless(err error) {
	s.rewrite.failure = err
	s.op.File, s.rewrite.file = s.rewrite.file, 0
	if s.op.File == 0 {
		s.closeRewrite()
		return
	}
	s.submit(OpClose, "", (*stateLog).closeRewrite)
}

func (s *stateLog) closeRewrite() {
	r := &s.rewrite
	r.on = false
	done := r.done
	r.done = nil
	done(r.failure)
}
