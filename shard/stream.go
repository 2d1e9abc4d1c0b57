package shard

// stream is something that sends as a connection takes it: the reply to a FETCH or a subscription. What waits for a slow
// socket is this struct with its cursors, never bytes (RULES 26).
type stream struct {
	next   *stream
	conn   *conn
	queued bool
	fetch  *fetch        // one of the two
	sub    *subscription // is set
}

// turn is what a stream did with its turn.
type turn uint8

const (
	again turn = iota // sent something and has more
	rests             // nothing to do now; whoever has news queues it again
)

// enqueue lets x go on at the end of the turn.
func (s *Shard) enqueue(x *stream) {
	if x.queued {
		return
	}
	x.queued, x.next = true, nil
	k := x.conn
	if k.tail == nil {
		k.head = x
	} else {
		k.tail.next = x
	}
	k.tail = x
	s.touch(k)
}

// dequeue takes x out of its connection's queue.
func (x *stream) dequeue() {
	if !x.queued {
		return
	}
	k := x.conn
	var before *stream
	for y := k.head; y != x; y = y.next {
		before = y
	}
	if before == nil {
		k.head = x.next
	} else {
		before.next = x.next
	}
	if k.tail == x {
		k.tail = before
	}
	x.queued, x.next = false, nil
}

// touch marks k to be served at the end of the turn.
func (s *Shard) touch(k *conn) {
	if !k.dirty {
		k.dirty = true
		s.dirty = append(s.dirty, k)
	}
}

// pumpDirty serves the connections that have something to stream.
func (s *Shard) pumpDirty() {
	for i := 0; i < len(s.dirty); i++ {
		k := s.dirty[i]
		k.dirty = false
		if k.gone {
			s.retire(k)
			continue
		}
		s.pump(k)
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}

// pump lets the streams of k send in turn until its output is high; Drained comes when it is low again.
func (s *Shard) pump(k *conn) {
	for k.head != nil && !k.ending && s.net.Queued(k.id) < s.limits.OutputHigh {
		x := k.head
		x.dequeue()
		var did turn
		if x.fetch != nil {
			did = s.stepFetch(x.fetch)
		} else {
			did = s.stepSubscription(x.sub)
		}
		if did == again {
			s.requeue(x)
		}
	}
}

// requeue puts x, which has just had its turn, behind the others.
func (s *Shard) requeue(x *stream) {
	if k := x.conn; k != nil && !k.ending {
		dirty := k.dirty
		k.dirty = true // it is being served
		s.enqueue(x)
		k.dirty = dirty
	}
}

// sendPieces sends the first n bytes of data.
func (s *Shard) sendPieces(k *conn, data [][]byte, n int) {
	for _, piece := range data {
		piece = piece[:min(len(piece), n)]
		if len(piece) > 0 {
			s.send(k, piece)
		}
		n -= len(piece)
	}
}
