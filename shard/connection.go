package shard

import (
	"github.com/slipringmq/slipring/frame"
)

// conn is what the shard knows of one connection. An idle one is this struct and no block.
type conn struct {
	id     uint64
	remote string
	client string // its name in HELLO
	ready  bool   // HELLO is done
	ending bool   // closing: what arrives is ignored
	paused bool   // not read because it does not read
	dirty  bool   // in Shard.dirty
	gone   bool   // Closed; kept while dirty

	in       assembly
	uploads  []*upload // PRODUCE requests with parts still to come
	window   int       // bytes of unanswered PRODUCE and PUBLISH
	deadline timer     // of HELLO, then of a frame in progress

	waits   int // unanswered FETCH and LIST OFFSETS
	fetches *fetch
	subs    map[uint64]*subscription // by request id
	sub     *subscription            // all of them, in a list

	head, tail *stream // streams that can go on, in turn
	next, prev *conn   // all connections, the latest first
}

// Opened announces an accepted connection; remote is for people.
func (s *Shard) Opened(c uint64, remote string) {
	k := s.newConn()
	k.id, k.remote = c, remote
	s.conns[c] = k
	s.link(k)
	s.stats.Opened++
	if s.state != serving {
		s.goAway(k, 0, frame.ErrStopping, "the broker is stopping")
		return
	}
	s.timers.set(&k.deadline, s.mono+s.limits.HelloNanos)
}

func (s *Shard) newConn() *conn {
	if n := len(s.idle); n > 0 {
		k := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return k
	}
	k := &conn{}
	k.deadline.fire = func() { s.deadline(k) }
	return k
}

// Received takes bytes that arrived; p is the caller's, who leaves it as it is until EndTurn has returned.
func (s *Shard) Received(c uint64, p []byte) {
	k := s.conns[c]
	if k == nil {
		return
	}
	s.stats.BytesIn += uint64(len(p))
	k.in.progress += len(p)
	for len(p) > 0 && !k.ending {
		p = s.feed(k, p)
		k.in.rested = k.in.rested || !k.busy()
	}
	s.endPublish()
	if k.ending {
		return
	}
	if k.busy() && k.deadline.place == 0 {
		s.awaitProgress(k)
	}
	s.pauseIfDeaf(k)
}

// awaitProgress gives what is in progress until the deadline to go on.
func (s *Shard) awaitProgress(k *conn) {
	k.in.progress, k.in.rested = 0, false
	s.timers.set(&k.deadline, s.mono+s.limits.FrameNanos)
}

// busy says that a frame or an upload is in progress.
func (k *conn) busy() bool { return k.in.started() || len(k.uploads) > 0 }

// deadline closes a connection that did not say HELLO in time, or whose frame in progress comes too slowly. A connection
// that completed HELLO and is between frames may be silent for ever.
func (s *Shard) deadline(k *conn) {
	switch {
	case k.ending:
		s.net.Abort(k.id)
	case !k.ready:
		s.stats.Deadlines++
		s.goAway(k, 0, frame.ErrTimeout, "no HELLO in time")
	case !k.busy():
	case k.in.progress < s.limits.FrameMinBytes && !k.paused && !k.in.rested:
		s.stats.Deadlines++
		s.goAway(k, k.in.header.RequestID, frame.ErrTimeout, "a frame in progress came too slowly")
	default:
		s.awaitProgress(k)
	}
}

// pauseIfDeaf stops reading from a connection that leaves its replies unread.
func (s *Shard) pauseIfDeaf(k *conn) {
	if !k.paused && s.net.Queued(k.id) > s.limits.OutputPause {
		k.paused = true
		s.stats.Pauses++
		s.net.Pause(k.id)
	}
}

// Drained says that c's queued output fell below its low water mark.
func (s *Shard) Drained(c uint64) {
	k := s.conns[c]
	if k == nil {
		return
	}
	if k.paused {
		k.paused = false
		s.net.Resume(c)
	}
	if k.head != nil {
		s.touch(k)
	}
}

// Closed is the last word about c: everything it waited for is forgotten. What it produced goes on.
func (s *Shard) Closed(c uint64, err error) {
	k := s.conns[c]
	if k == nil {
		return
	}
	s.stats.Closed++
	delete(s.conns, c)
	s.unlink(k)
	s.release(k)
	k.ending, k.gone = true, true
	if !k.dirty {
		s.retire(k)
	}
}

// release gives back what k holds, streams included.
func (s *Shard) release(k *conn) {
	s.timers.clear(&k.deadline)
	s.dropInput(k)
	for k.fetches != nil {
		s.endFetch(k.fetches)
	}
	for k.sub != nil {
		s.endSubscription(k.sub)
	}
	k.head, k.tail = nil, nil
}

// retire makes k ready for another connection; its memory stays.
func (s *Shard) retire(k *conn) {
	fire, uploads, subs := k.deadline.fire, k.uploads[:0], k.subs
	*k = conn{uploads: uploads, subs: subs}
	k.deadline.fire = fire
	if len(s.idle) < idleConns {
		s.idle = append(s.idle, k)
	}
}

const idleConns = 1024

// goAway answers with an error and closes once that is sent, or by force when the peer does not take it.
func (s *Shard) goAway(k *conn, req uint64, code frame.ErrorCode, text string) {
	if k.ending {
		return
	}
	s.fail(k, req, code, text)
	k.ending = true
	s.release(k)
	s.net.Close(k.id)
	s.timers.set(&k.deadline, s.mono+s.limits.HelloNanos)
}

func (s *Shard) link(k *conn) {
	if k.next = s.first; k.next != nil {
		k.next.prev = k
	}
	s.first = k
}

func (s *Shard) unlink(k *conn) {
	if k.prev != nil {
		k.prev.next = k.next
	} else {
		s.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	}
	k.next, k.prev = nil, nil
}
