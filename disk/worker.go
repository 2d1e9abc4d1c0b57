package disk

import (
	"sync"

	"golang.org/x/sys/unix"
)

// worker does the operations that have no good place on the ring, one after the other on a goroutine of its own:
// everything about names, and what may block for long. The shard's thread never waits for it.
//
// An op is the worker's from push until it is in done; the eventfd, read through the ring, tells the owner to look.
type worker struct {
	root *root
	bell int // eventfd

	mu    sync.Mutex
	more  sync.Cond
	todo  opQueue
	done  opQueue
	stop  bool
	ended chan struct{}
}

func startWorker(r *root) (*worker, error) {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	w := &worker{root: r, bell: bell, ended: make(chan struct{})}
	w.more.L = &w.mu
	go w.run()
	return w, nil
}

// push gives op to the worker.
func (w *worker) push(op *Op) {
	w.mu.Lock()
	w.todo.push(op)
	w.mu.Unlock()
	w.more.Signal()
}

// pop returns an op that is done, or nil.
func (w *worker) pop() *Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.pop()
}

// close ends the goroutine; nothing may be left to do.
func (w *worker) close() error {
	w.mu.Lock()
	w.stop = true
	w.mu.Unlock()
	w.more.Signal()
	<-w.ended
	return unix.Close(w.bell)
}

var bellRing = [8]byte{1}

func (w *worker) run() {
	defer close(w.ended)
	for op := w.next(); op != nil; op = w.next() {
		finished := w.do(op)
		w.mu.Lock()
		if finished {
			w.done.push(op)
		} else {
			w.todo.push(op) // behind what came meanwhile: nobody waits for a large removal
		}
		w.mu.Unlock()
		if finished {
			_, _ = unix.Write(w.bell, bellRing[:])
		}
	}
}

func (w *worker) next() *Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.todo.count == 0 && !w.stop {
		w.more.Wait()
	}
	return w.todo.pop()
}

// do carries out op, or a step of it; false: more steps follow. The result is in op.state.ring until the owner takes it.
func (w *worker) do(op *Op) bool {
	st := &op.state.ring
	r := w.root
	finished := true
	st.err = retry(func() (err error) {
		switch op.Kind {
		case OpCreate:
			st.fd, err = r.create(op.Path)
		case OpOpen:
			st.fd, err = r.open(op.Path, unix.O_RDWR|r.flags)
		case OpRename:
			err = r.rename(op.Path, op.NewPath)
		case OpRemove:
			finished, err = r.remove(op.Path, &st.removal)
		case OpSyncDir:
			err = r.syncDirectory(op.Path)
		case OpList:
			op.Names, err = r.list(op.Path, op.Names[:0])
		case OpAllocate:
			err = unix.Fallocate(st.fd, 0, int64(op.Pos), op.Size)
		case OpTruncate:
			err = unix.Ftruncate(st.fd, op.Size)
		case OpStat:
			var s unix.Stat_t
			err = unix.Fstat(st.fd, &s)
			op.Size = s.Size
		case OpClose:
			if err = unix.Close(st.fd); err == unix.EINTR {
				err = nil // the descriptor is gone all the same
			}
		}
		return err
	})
	return finished
}
