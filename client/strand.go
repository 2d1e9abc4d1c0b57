package client

import (
	"errors"
	"fmt"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// strand is one SUBSCRIBE, made again whenever its connection is lost.
type strand struct {
	s         *Subscription
	partition uint32 // or frame.AllPartitions
	start     frame.SubscribeStart
	first     uint64 // records below are not wanted
	next      uint64 // offset that follows what was queued; the reader goroutine's while a session lasts
	failures  int
}

// session is a strand on one connection. Its methods part and end run on the reader goroutine.
type session struct {
	strand   *strand
	conn     *conn
	id       uint64
	accepted chan struct{} // closed by the reply to SUBSCRIBE
	ended    chan error    // of one element
	partial  map[uint32][]byte

	// The caller's of Poll: credit taken and not yet given back.
	records, bytes int64
}

// run keeps the strand subscribed. What became of the first attempt goes to first.
func (d *strand) run(first chan<- error) {
	s := d.s
	for s.ctx.Err() == nil {
		ss, err := d.subscribe()
		if err == nil {
			err = ss.wait(&first)
		}
		if s.ctx.Err() != nil {
			break
		}
		if final := d.final(err); final != nil {
			if first != nil {
				first <- final
			} else {
				s.put(delivery{err: fmt.Errorf("subscribe %s: %w", s.topic.name, final)})
			}
			<-s.ctx.Done()
			return
		}
		d.failures++
		o := &s.client.opts
		pause := jitter(backoff(o.BackoffMin, o.BackoffMax, d.failures))
		if e, answered := answer(err); answered {
			pause = max(pause, e.Delay)
		}
		o.Logger.Warn("subscription ended; subscribing again", "topic", s.topic.name, "error", err, "retry_in", pause)
		s.client.sleep(s.ctx, pause)
	}
	if first != nil {
		first <- ErrClosed
	}
}

// subscribe sends SUBSCRIBE.
func (d *strand) subscribe() (*session, error) {
	s := d.s
	owner := ""
	if d.partition != frame.AllPartitions {
		owner = s.topic.owners[d.partition]
	}
	cn, err := s.client.waitConn(s.ctx, owner)
	if err != nil {
		return nil, err
	}
	if cn.hello.DirectoryID != s.topic.directory {
		return nil, fmt.Errorf("%w (another data directory)", ErrTopicRecreated)
	}
	ss := &session{strand: d, conn: cn, accepted: make(chan struct{}), ended: make(chan error, 1), partial: map[uint32][]byte{}}
	if ss.id, err = cn.register(&call{cmd: frame.CmdSubscribe, stream: true, to: ss}); err != nil {
		return nil, err
	}
	cn.send(frame.CmdSubscribe, ss.id, &frame.Subscribe{
		Name: s.topic.name, Partition: d.partition, Start: d.start, Offset: d.next,
		Records: s.opts.CreditRecords, Bytes: s.opts.CreditBytes,
	})
	return ss, nil
}

// wait tells the first attempt's success and waits for the end of the session.
func (ss *session) wait(first *chan<- error) error {
	accepted := ss.accepted
	for {
		select {
		case <-accepted:
			accepted = nil
			ss.strand.failures = 0
			if *first != nil {
				*first <- nil
				*first = nil
			}
		case err := <-ss.ended:
			if accepted == nil && ss.strand.start == frame.SubscribeTail {
				ss.strand.s.mu.Lock()
				ss.strand.s.gaps++
				ss.strand.s.mu.Unlock()
			}
			if err == nil {
				err = errors.New("the broker ended the subscription")
			}
			return err
		case <-ss.strand.s.ctx.Done():
			ss.conn.post(frame.CmdUnsubscribe, ss.id, &frame.Empty{})
			ss.conn.forget(ss.id)
			return ErrClosed
		}
	}
}

// final gives the error that no retry can change.
func (d *strand) final(err error) error {
	if errors.Is(err, ErrTopicRecreated) || errors.Is(err, ErrClosed) {
		return err
	}
	e, answered := answer(err)
	switch {
	case answered && e.Retriable:
		return nil
	case answered:
		return err
	}
	// The name may mean another topic by the time the connection is back.
	now, err := d.s.client.refresh(d.s.ctx, d.s.topic.name)
	if isCode(err, frame.ErrUnknownTopic) {
		return err
	}
	if err == nil && !now.same(d.s.topic) {
		return ErrTopicRecreated
	}
	return nil
}

// part implements receiver.
func (ss *session) part(h frame.Header, payload []byte) error {
	switch h.Command {
	case frame.CmdSubscribe:
		select {
		case <-ss.accepted:
			return fmt.Errorf("%w: SUBSCRIBE answered twice", ErrProtocol)
		default:
			close(ss.accepted)
			return nil
		}
	case frame.CmdUnsubscribe:
		return nil
	}
	var m frame.Deliver
	if err := m.Decode(payload); err != nil {
		return fmt.Errorf("%w: DELIVER: %v", ErrProtocol, err)
	}
	return ss.deliver(&m, h.More())
}

// deliver puts the pieces of batches together and queues whole ones.
func (ss *session) deliver(m *frame.Deliver, more bool) error {
	s := ss.strand.s
	if m.Topic != s.topic.id || int(m.Partition) >= len(s.topic.owners) ||
		ss.strand.partition != frame.AllPartitions && m.Partition != ss.strand.partition {
		return fmt.Errorf("%w: DELIVER of %d/%d, which is not subscribed", ErrProtocol, m.Topic, m.Partition)
	}
	if m.Lost > 0 {
		s.mu.Lock()
		s.lost += uint64(m.Lost)
		s.mu.Unlock()
	}
	data := append(ss.partial[m.Partition], m.Data...) // fresh memory unless a piece is there
	if more {
		if len(data) > s.topic.batchMax()+frame.MaxPayload {
			return fmt.Errorf("%w: DELIVER of a batch above %d bytes", ErrProtocol, s.topic.batchMax())
		}
		ss.partial[m.Partition] = data
		return nil
	}
	delete(ss.partial, m.Partition)
	for rest := data; len(rest) > 0; {
		h, n := batchExtent(rest)
		if n == 0 {
			return fmt.Errorf("%w: DELIVER does not hold whole batches", ErrProtocol)
		}
		if ss.strand.partition != frame.AllPartitions {
			ss.strand.next = h.NextOffset()
			if ss.strand.start == frame.SubscribeLog {
				ss.strand.start = frame.SubscribeOffset // goes on where it stood
			}
		}
		rest = rest[n:]
	}
	if len(data) > 0 && !s.put(delivery{strand: ss.strand, session: ss, partition: m.Partition, data: data}) {
		return fmt.Errorf("%w: DELIVER far beyond the credit given", ErrProtocol)
	}
	return nil
}

// end implements receiver.
func (ss *session) end(err error) { ss.ended <- err }

// giveBack renews credit once half of it is used up.
func (ss *session) giveBack(records, bytes int64) {
	o := &ss.strand.s.opts
	ss.records += records
	ss.bytes += bytes
	if ss.records < o.CreditRecords/2 && ss.bytes < o.CreditBytes/2 {
		return
	}
	if ss.conn.alive() {
		ss.conn.post(frame.CmdCredit, ss.id, &frame.Credit{Records: ss.records, Bytes: ss.bytes})
	}
	ss.records, ss.bytes = 0, 0
}

// batchExtent gives the header of the batch at the start of p and its size in bytes; 0 when it is not there in full.
func batchExtent(p []byte) (batch.Header, int) {
	h, _, rest, err := batch.Next(p)
	if err != nil {
		return h, 0
	}
	return h, len(p) - len(rest)
}
