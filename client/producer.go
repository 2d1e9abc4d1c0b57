package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// Producer sends records to one topic. Within a partition, records keep the order of the Produce calls, and each is stored
// once in spite of retries, restarts and lost connections (unless NotIdempotent, acks none or storage none).
type Producer struct {
	client     *Client
	topic      *topic
	opts       ProducerOptions
	acks       frame.Acks
	idempotent bool
	room       *gate
	senders    []*sender // by partition
	ctx        context.Context
	cancel     context.CancelFunc
	running    sync.WaitGroup // senders

	mu     sync.Mutex
	closed bool
	fatal  error // the topic is gone; every record fails
	failed error // the first failure since the last Flush
	id     frame.ProducerIDReply
}

// Producer opens a producer on a topic.
//
// Errors: ErrUnknownTopic, ErrDurability, ErrConnection.
func (c *Client) Producer(ctx context.Context, name string, o ProducerOptions) (*Producer, error) {
	if err := validName("produce "+name, name); err != nil {
		return nil, err
	}
	t, err := c.refresh(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &Producer{client: c, topic: t, opts: o.withDefaults()}
	if p.acks, err = o.Acks.resolve(t); err != nil {
		return nil, err
	}
	p.idempotent = !o.NotIdempotent && p.acks != frame.AcksNone && t.settings.Storage != frame.StorageNone
	p.room = newGate(int64(p.opts.MaxBufferedBytes))
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.senders = make([]*sender, len(t.owners))
	for i := range p.senders {
		p.senders[i] = newSender(p, uint32(i))
	}
	return p, nil
}

// Partitions is how many partitions the topic has.
func (p *Producer) Partitions() int { return len(p.senders) }

// MaxRecordBytes is the topic's bound on key, value and headers of a record.
func (p *Producer) MaxRecordBytes() int { return int(p.topic.settings.MaxRecordBytes) }

// Acks is what acknowledgements wait for.
func (p *Producer) Acks() frame.Acks { return p.acks }

// Produce hands over a record; its bytes are copied. done, if not nil, is called once with what became of it, on a
// goroutine of the partition: it must be quick and must not wait for the producer. Produce blocks while MaxBufferedBytes
// are under way, until ctx is done.
//
// Errors, done is then not called: ErrClosed, ErrTooLarge, ErrUnknownPartition, ErrTopicRecreated, that of ctx.
// Cost: one copy and, amortised, no allocation.
func (p *Producer) Produce(ctx context.Context, r *Record, done func(Result)) error {
	payload := batch.PayloadBytes(r.Key, r.Value, r.Headers)
	if limit := p.topic.settings.MaxRecordBytes; uint64(payload) > uint64(limit) {
		return &Error{Op: "produce " + p.topic.name, Code: frame.ErrTooLarge,
			Text: fmt.Sprintf("record of %d bytes, max record of the topic is %d; raise it or split the record", payload, limit)}
	}
	n := p.opts.Partitioner(r, len(p.senders))
	if n < 0 || n >= len(p.senders) {
		return &Error{Op: "produce " + p.topic.name, Code: frame.ErrUnknownPartition,
			Text: fmt.Sprintf("partition %d of %d", n, len(p.senders))}
	}
	size := batch.MaxRecordBytes(r.Key, r.Value, r.Headers)
	if err := p.room.take(ctx, p.ctx.Done(), int64(size)); err != nil {
		return err
	}
	if err := p.senders[n].add(r, size, done); err != nil {
		p.room.give(int64(size))
		return err
	}
	return nil
}

// ProduceSync is Produce and waits for the result. When ctx ends first the record is still under way.
func (p *Producer) ProduceSync(ctx context.Context, r *Record) (Result, error) {
	ch := make(chan Result, 1)
	if err := p.Produce(ctx, r, func(res Result) { ch <- res }); err != nil {
		return Result{Err: err}, err
	}
	select {
	case res := <-ch:
		return res, res.Err
	case <-ctx.Done():
		err := context.Cause(ctx)
		return Result{Err: err}, err
	}
}

// Flush sends what has gathered and waits until every record handed over before has its result.
//
// Errors: that of ctx; otherwise the first failure of a record since the last Flush.
func (p *Producer) Flush(ctx context.Context) error {
	waits := make([]<-chan struct{}, 0, len(p.senders))
	for _, s := range p.senders {
		if w := s.flush(); w != nil {
			waits = append(waits, w)
		}
	}
	for _, w := range waits {
		select {
		case <-w:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.failed
	p.failed = nil
	return err
}

// Close flushes and ends the producer. When ctx ends before the flush does, the records that are left fail with ErrClosed.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		return nil
	}
	for _, s := range p.senders {
		s.close()
	}
	err := p.Flush(ctx)
	p.cancel()
	p.running.Wait()
	if p.acks == frame.AcksNone {
		p.awaitReading(ctx)
	}
	return err
}

// awaitReading waits until the broker has read what was sent without a reply: closing a socket may drop what is on its way.
func (p *Producer) awaitReading(ctx context.Context) {
	asked := map[*conn]bool{}
	for _, s := range p.senders {
		if cn := s.conn; cn != nil && !asked[cn] {
			asked[cn] = true
			p.client.ask(ctx, cn, frame.CmdPing, &frame.Empty{}, &frame.Empty{})
		}
	}
}

// fail notes that the topic is gone: every record fails from now on.
func (p *Producer) fail(err error) {
	p.mu.Lock()
	if p.fatal == nil {
		p.fatal = fmt.Errorf("produce %s: %w", p.topic.name, err)
	}
	p.mu.Unlock()
	for _, s := range p.senders {
		signal(s.wake)
	}
}

func (p *Producer) fatalError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fatal
}

func (p *Producer) noteFailure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
}

// producerID gives the id that the partitions share, or a new one when a partition has spoilt its sequence there.
func (p *Producer) producerID(ctx context.Context, spoilt bool) (frame.ProducerIDReply, error) {
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	if id.ProducerID != batch.NoProducer && !spoilt {
		return id, nil
	}
	var fresh frame.ProducerIDReply
	if err := p.client.do(ctx, "producer id", true, frame.CmdProducerID, &frame.Empty{}, &fresh); err != nil {
		return fresh, err
	}
	if fresh.ProducerID == batch.NoProducer {
		return fresh, fmt.Errorf("producer id: %w: id 0", ErrProtocol)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id.ProducerID == batch.NoProducer {
		p.id = fresh
	}
	if !spoilt {
		return p.id, nil
	}
	return fresh, nil
}

// checkTopic asks whether the topic is still the one that this producer was opened on.
//
// Errors: ErrTopicRecreated and ErrUnknownTopic are final; others are a matter of time.
func (p *Producer) checkTopic(ctx context.Context) error {
	now, err := p.client.refreshSoon(ctx, p.topic.name)
	if err != nil {
		return err
	}
	if !now.same(p.topic) {
		return ErrTopicRecreated
	}
	return nil
}

// owner is the address of a partition's shard as far as is known.
func (p *Producer) owner(partition uint32) string {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	t := p.client.topics[p.topic.name]
	if t == nil || int(partition) >= len(t.owners) {
		t = p.topic
	}
	return t.owners[partition]
}

const never = 24 * time.Hour
