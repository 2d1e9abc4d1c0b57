package shard

import "github.com/slipringmq/slipring/frame"

// endWaits answers what waits for records when the broker stops.
func (s *Shard) endWaits() {
	for k := s.first; k != nil; k = k.next {
		for f := k.fetches; f != nil; {
			next := f.nextOf
			if !f.begun {
				s.refuse(k, f.id, refuseStopping)
				s.endFetch(f)
			}
			f = next
		}
		for k.sub != nil {
			s.refuse(k, k.sub.id, refuseStopping)
			s.endSubscription(k.sub)
		}
	}
}

// closeAll ends every connection once its replies are sent.
func (s *Shard) closeAll() {
	for k := s.first; k != nil; k = k.next {
		if !k.ending {
			k.ending = true
			s.release(k)
			s.net.Close(k.id)
			s.timers.set(&k.deadline, s.mono+s.limits.HelloNanos)
		}
	}
}

// endReaders tells those who read from p that its topic is no more.
func (s *Shard) endReaders(p *partition, why *refusal) {
	for p.fetchers != nil {
		f := p.fetchers.fetch
		for i := range f.parts {
			if f.parts[i].p == p {
				f.parts[i].code = why.code
			}
		}
		s.beginReply(f)
	}
	for p.subs != nil {
		x := p.subs.sub
		s.failWith(x.conn, x.id, &frame.Error{Code: why.code, Text: why.text})
		s.endSubscription(x)
	}
}
