package client

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// fetcher reads the partitions that one shard owns, many per request. As soon as a reply is complete and the next offsets
// are known the next request goes out; only then are the records of the first decoded and handed over.
type fetcher struct {
	c       *Consumer
	cursors []*cursor
	wake    chan struct{}

	mu     sync.Mutex
	flight *fetch // for interrupt

	// The goroutine's own.
	opener   opener
	failures int
}

// batchMax is the largest batch of the topic, in bytes.
func (t *topic) batchMax() int {
	return int(frame.MaxBatchBytes(min(t.settings.MaxRecordBytes, frame.MaxRecordLimit)))
}

func (f *fetcher) run() {
	var flight *fetch
	for f.c.ctx.Err() == nil {
		if flight == nil {
			var err error
			if flight, err = f.start(); err != nil {
				f.recover(err)
				continue
			}
			if flight == nil { // every partition is paused
				f.idle(never)
				continue
			}
		}
		select {
		case err := <-flight.done:
			if err != nil {
				flight = nil
				f.recover(err)
				continue
			}
			flight = f.turn(flight)
		case <-f.c.ctx.Done():
		}
	}
	if flight != nil {
		flight.conn.cancel(flight.id)
		flight.conn.forget(flight.id)
	}
}

// start sends a request for all partitions that are not paused; nil when there is none.
func (f *fetcher) start() (*fetch, error) {
	fl := &fetch{topic: f.c.topic.id, done: make(chan error, 1)}
	o := &f.c.opts
	request := frame.Fetch{MaxWaitMillis: uint32(o.MaxWait.Milliseconds()), MinBytes: uint32(o.MinBytes), MaxBytes: uint32(o.MaxBytes)}
	f.c.mu.Lock()
	for _, cur := range f.cursors {
		if cur.paused {
			continue
		}
		fl.asked = append(fl.asked, asked{cursor: cur, seeks: cur.seeks, from: cur.next})
		request.Partitions = append(request.Partitions, frame.FetchPartition{
			Topic: fl.topic, Partition: cur.partition, Offset: cur.next, MaxBytes: uint32(o.MaxPartitionBytes)})
	}
	f.c.mu.Unlock()
	if len(fl.asked) == 0 {
		return nil, nil
	}
	fl.limit = o.MaxBytes + f.c.topic.batchMax() + 64<<10
	cn, err := f.c.client.waitConn(f.c.ctx, f.owner())
	if err != nil {
		return nil, err
	}
	if cn.hello.DirectoryID != f.c.topic.directory {
		return nil, fmt.Errorf("%w (another data directory)", ErrTopicRecreated)
	}
	fl.conn = cn
	if fl.id, err = cn.register(&call{cmd: frame.CmdFetch, to: fl}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.flight = fl
	f.mu.Unlock()
	cn.send(frame.CmdFetch, fl.id, &request)
	f.c.mu.Lock()
	for i := range fl.asked { // a Seek that came before the request was noted has interrupted nothing
		fl.stopped = fl.stopped || fl.asked[i].seeks != fl.asked[i].cursor.seeks
	}
	f.c.mu.Unlock()
	if fl.stopped || f.c.ctx.Err() != nil {
		cn.cancel(fl.id)
	}
	return fl, nil
}

// owner is the address of the shard as far as is known.
func (f *fetcher) owner() string {
	f.c.client.mu.Lock()
	defer f.c.client.mu.Unlock()
	t, p := f.c.client.topics[f.c.topic.name], f.cursors[0].partition
	if t == nil || int(p) >= len(t.owners) {
		t = f.c.topic
	}
	return t.owners[p]
}

// interrupt makes the request in flight come back now, and an idle fetcher look again.
func (f *fetcher) interrupt() {
	f.mu.Lock()
	fl := f.flight
	f.mu.Unlock()
	if fl != nil {
		fl.conn.cancel(fl.id)
	}
	signal(f.wake)
}

// turn takes a complete reply: it moves the cursors, sends the next request and hands over what came.
func (f *fetcher) turn(fl *fetch) (next *fetch) {
	var trouble error // that the partition's next answer may not have
	for i := range fl.asked {
		a := &fl.asked[i]
		f.advance(a, fl.total == 0)
		if !a.void && a.code != 0 && retriableCode(a.code) && trouble == nil {
			trouble = &Error{Code: a.code, Retriable: true}
		}
	}
	if trouble == nil {
		f.failures = 0
		next, trouble = f.start()
	}
	for i := range fl.asked {
		if !f.deliver(&fl.asked[i]) {
			break
		}
	}
	if trouble != nil {
		f.recover(trouble)
	}
	return next
}

// advance moves the cursor behind the batches of a, so that the next request can go before they are decoded. Bytes behind
// the last whole batch are cut: a broker sends whole ones.
func (f *fetcher) advance(a *asked, emptyReply bool) {
	next, rest := a.from, a.data
	for len(rest) > 0 {
		h, _, after, err := batch.Next(rest)
		if err != nil || h.LastOffset() < next || h.BaseOffset < next && len(rest) < len(a.data) {
			break // deliver says what is wrong
		}
		next, rest = h.NextOffset(), after
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	cur := a.cursor
	if cur.seeks != a.seeks {
		return
	}
	if cur.paused {
		a.void = true
		return
	}
	if a.code != 0 && !retriableCode(a.code) {
		cur.next, cur.paused = next, true
		return
	}
	// Nothing at all came although the partition is readable further: offsets up to there were never used, as happens after
	// an unclean stop of a broker whose high watermark may pass the durable end.
	if f.c.opts.UntilEnd && emptyReply && a.seen && a.last > next {
		next = min(a.last, cur.end)
	}
	cur.next = next
	if f.c.opts.UntilEnd && next >= cur.end {
		cur.paused = true
	}
}

// retriableCode: the partition is asked again without bothering the caller.
func retriableCode(c frame.ErrorCode) bool {
	return c.Retriable() || c == frame.ErrCancelled || c == frame.ErrUnknownTopic
}

// deliver decodes what came for one partition and hands it to the caller; false when the consumer was closed.
func (f *fetcher) deliver(a *asked) bool {
	if a.void {
		return true
	}
	from, rest, below := a.from, a.data, a.cursor.below()
	for len(rest) > 0 && from < below {
		records, next, after, err := f.opener.open(a.cursor.partition, from, below, len(rest) == len(a.data), rest)
		if len(records) > 0 && !f.hand(run{cursor: a.cursor, seeks: a.seeks, records: records}) {
			return false
		}
		if err != nil {
			f.pause(a, next)
			return f.hand(f.failed(a, f.c.partitionError(a.cursor.partition, corrupt(next, err))))
		}
		from, rest = next, after
	}
	if a.code != 0 && !retriableCode(a.code) {
		e := &frame.Error{Code: a.code, First: a.first, Last: a.last}
		if a.code == frame.ErrOffsetOutOfRange {
			e.Text = fmt.Sprintf("offset %d is not in the log", from)
		}
		return f.hand(f.failed(a, f.c.partitionError(a.cursor.partition, e)))
	}
	if f.atEnd(a) {
		return f.hand(run{cursor: a.cursor, seeks: a.seeks, end: true})
	}
	return true
}

// failed is an error of one partition. Where the caller waits for the ends of all, it is this one's end.
func (f *fetcher) failed(a *asked, err error) run {
	return run{cursor: a.cursor, seeks: a.seeks, err: err, end: f.c.opts.UntilEnd}
}

// pause stops a partition at an offset that cannot be read. What the next request brings for it is dropped.
func (f *fetcher) pause(a *asked, at uint64) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if cur := a.cursor; cur.seeks == a.seeks {
		cur.paused, cur.next = true, at
	}
}

func (f *fetcher) atEnd(a *asked) bool {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	cur := a.cursor
	return f.c.opts.UntilEnd && cur.paused && cur.seeks == a.seeks && cur.next >= cur.end
}

// hand gives a run to the caller, waiting until there is room; false when the consumer was closed.
func (f *fetcher) hand(r run) bool {
	select {
	case f.c.runs <- r:
		return true
	case <-f.c.ctx.Done():
		return false
	}
}

// recover deals with a request that failed as a whole.
func (f *fetcher) recover(err error) {
	if f.c.ctx.Err() != nil || isCode(err, frame.ErrCancelled) {
		return
	}
	e, answered := answer(err)
	if answered && (e.Code == frame.ErrUnknownTopic || e.Code == frame.ErrWrongShard) || errors.Is(err, ErrTopicRecreated) {
		if fatal := f.checkTopic(); fatal != nil {
			f.stop(fatal)
			return
		}
	} else if answered && !e.Retriable {
		f.stop(withOp("consume "+f.c.topic.name, err))
		return
	}
	f.failures++
	o := &f.c.client.opts
	pause := jitter(backoff(o.BackoffMin, o.BackoffMax, f.failures))
	if answered {
		pause = max(pause, e.Delay)
	}
	o.Logger.Warn("fetch failed; trying again", "topic", f.c.topic.name, "error", err, "retry_in", pause)
	f.idle(pause)
}

// checkTopic gives the final error when the topic is no longer the one that was opened.
func (f *fetcher) checkTopic() error {
	now, err := f.c.client.refreshSoon(f.c.ctx, f.c.topic.name)
	switch {
	case isCode(err, frame.ErrUnknownTopic):
		return err
	case err == nil && !now.same(f.c.topic):
		return fmt.Errorf("consume %s: %w", f.c.topic.name, ErrTopicRecreated)
	}
	return nil
}

// stop reports a final error and waits for Close.
func (f *fetcher) stop(err error) {
	if f.hand(run{err: err, fatal: true}) {
		<-f.c.ctx.Done()
	}
}

// idle waits for d, a wake-up or the end.
func (f *fetcher) idle(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.wake:
	case <-f.c.ctx.Done():
	}
}
