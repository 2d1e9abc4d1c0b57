package shard

import (
	"math"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// partition is one ordered log as the rules see it. Three ends are kept apart: next (log end, staged), durable, and high
// (high watermark); what leaves the shard reads the applied side only (RULES 15).
type partition struct {
	topic  *topic
	number uint32
	place  int32 // in Shard.partitions
	tag    uint32
	log    *disk.Log // nil for storage none

	// Applied state: on stable media. start, durable, ceiling and the applied side of producers are what a snapshot holds.
	start   uint64 // log start
	durable uint64 // durable end
	ceiling uint64 // no offset at or above it has been shown to anyone (RULES 13); 0: only durable ones were
	index   uint64 // of the last entry that is durable

	// Staged state, over the applied one; it may be dropped whole.
	next          uint64
	floor         uint64 // next never falls below it: lower offsets may be known to somebody
	time          int64  // append time of the last batch, Unix ms
	lastIndex     uint64
	ceilingStaged uint64
	ceilingIndex  uint64
	startStaged   uint64
	overlay       ring[entry]
	notes         ring[note]

	high      uint64
	gapFrom   uint64 // no record lies at or above it and below gapTo
	gapTo     uint64
	producers producers
	waits     ring[waiter] // answers by the index they depend on, ascending
	atEnd     ring[waiter] // answers of unjournaled logs, by the durable end they depend on
	fenced    error
	damages   []span // that were reported
	deleted   bool   // its topic is; kept until disk says Gone

	asked    uint64     // number of the FETCH that named it last
	fetchers *fetchPart // waiting for records
	subs     *subPart   // every subscription
}

// entry is one staged batch.
type entry struct {
	index    uint64
	base     uint64
	next     uint64
	time     int64
	bytes    int64
	producer uint64
	sequence uint32
	count    uint32
	epoch    uint16
	promised bool // its offsets were told to a producer before they are durable
}

// note is one staged entry of the shard's own, or a trim.
type note struct {
	index uint64
	value uint64
	kind  disk.Kind
}

// waiter is an answer that waits for the disk.
type waiter struct {
	index   uint64
	conn    uint64
	request uint64
	base    uint64
	next    uint64
	time    int64
	charged int32
	command frame.Command
}

// Entries of a partition beyond disk's own.
const (
	kindCeiling = disk.KindShard     // payload: the new ceiling, u64
	kindStands  = disk.KindShard + 8 // payload: where producers stand, as in a snapshot
)

// ceilingAhead is how far ahead of the log end the ceiling is journaled, offsets.
const ceilingAhead = 1_000_000

func (p *partition) key() disk.Key { return disk.Key{Topic: p.topic.id, Partition: p.number} }

// journaled says whether batches go through the journal: durability sync.
func (p *partition) journaled() bool { return p.topic.settings.Durability == frame.DurabilitySync }

// writable says whether p has a log that takes entries.
func (p *partition) writable() bool { return p.log != nil && p.fenced == nil && !p.deleted }

// staged notes a batch that the log took.
func (p *partition) staged(index uint64, h *batch.Header, promised bool, mostProducers int) {
	p.lastIndex = index
	p.next = h.NextOffset()
	p.time = h.AppendTime
	if h.ProducerID != batch.NoProducer {
		if q := p.producers.use(h.ProducerID, mostProducers); q != nil {
			q.staged.add(h.ProducerEpoch, sent{h.BaseSequence, h.Count, h.BaseOffset, h.AppendTime})
			q.inFlight++
		}
	}
	p.overlay.push(entry{
		index: index, base: h.BaseOffset, next: h.NextOffset(), time: h.AppendTime, bytes: h.TotalBytes(),
		producer: h.ProducerID, sequence: h.BaseSequence, count: h.Count, epoch: h.ProducerEpoch, promised: promised,
	})
	if fault.On(fault.Rule15ApplyAtStage) {
		p.high = p.next
	}
}

// apply makes the overlay's first entry applied state.
func (p *partition) apply(most int) int64 {
	e := p.overlay.pop()
	p.durable = e.next
	if e.producer != batch.NoProducer {
		if q := p.producers.lookup(e.producer); q != nil && q.inFlight > 0 {
			q.applied.add(e.epoch, sent{e.sequence, e.count, e.base, e.time})
			q.inFlight--
		}
	}
	return e.bytes
}

// wait queues w until index is durable. Answers of a partition go out in the order they were queued.
func (p *partition) wait(w waiter, index uint64) {
	if n := p.waits.len(); n > 0 {
		index = max(index, p.waits.at(n-1).index)
	}
	w.index = index
	p.waits.push(w)
}

// keepCeiling journals the ceiling ahead of upTo, the log end to be, when it comes near. It must be called before the
// batch is staged, so that the ceiling is durable no later than the batch.
func (s *Shard) keepCeiling(p *partition, upTo uint64) *refusal {
	if fault.On(fault.Rule13NoCeiling) {
		p.ceiling = 1 << 62
		return nil
	}
	if p.ceilingStaged >= upTo+ceilingAhead/2 {
		return nil
	}
	s.scratch.note = le.AppendUint64(s.scratch.note[:0], upTo+ceilingAhead)
	index, err := p.log.Note(kindCeiling, s.cfg.Start, s.scratch.note)
	switch {
	case err == nil:
		p.ceilingStaged, p.ceilingIndex = upTo+ceilingAhead, index
		p.notes.push(note{index: index, kind: kindCeiling, value: p.ceilingStaged})
		return nil
	case p.ceilingStaged >= upTo:
		return nil
	}
	return refuseDisk(err)
}

// raise moves the high watermark of a partition whose records may be read before they are durable, as far as the ceiling
// allows.
func (s *Shard) raise(p *partition) {
	if p.next > p.ceiling || p.next == p.high {
		return
	}
	bytes := int64(0)
	for i := p.overlay.len() - 1; i >= 0 && p.overlay.at(i).base >= p.high; i-- {
		bytes += p.overlay.at(i).bytes
	}
	p.high = p.next
	s.readable(p, bytes)
}

// Durable is disk's word that all entries of l up to index are on stable media (disk.Machine).
func (s *Shard) Durable(l *disk.Log, index uint64) {
	if l.Key() == disk.Meta {
		s.metaDurable(index)
		return
	}
	p := s.partitionOf(l)
	if p == nil {
		return
	}
	p.index = max(p.index, index)
	for p.notes.len() > 0 && p.notes.at(0).index <= index {
		s.applyNote(p, p.notes.pop())
	}
	bytes := int64(0)
	for p.overlay.len() > 0 && landed(p.overlay.at(0), l, index) {
		bytes += p.apply(s.limits.Producers)
	}
	if p.journaled() {
		if p.durable > p.high {
			p.high = p.durable
		}
		if bytes > 0 {
			s.readable(p, bytes)
		}
	} else {
		s.raise(p)
	}
	s.settleDurable(p, index)
}

// landed says whether e is on stable media. A batch outside the journal carries the index of the entry before it, and is
// there when the durable end has passed it.
func landed(e *entry, l *disk.Log, index uint64) bool {
	return e.index <= index && e.next <= uint64(l.DurableEnd())
}

// settleDurable sends the answers that waited for index or for the durable end.
func (s *Shard) settleDurable(p *partition, index uint64) {
	for p.waits.len() > 0 && p.waits.at(0).index <= index {
		w := p.waits.pop()
		s.settle(p, &w)
	}
	for p.atEnd.len() > 0 && p.atEnd.at(0).next <= p.durable {
		w := p.atEnd.pop()
		s.settle(p, &w)
	}
}

func (s *Shard) applyNote(p *partition, n note) {
	switch n.kind {
	case kindCeiling:
		p.ceiling = n.value
	case disk.KindTrim:
		p.start = max(p.start, n.value)
	}
}

// DropStaged takes back what p has staged and the journal has not taken yet, as a leader that lost its term will (RULES
// 15). Everybody who waited for it is told that nothing was done. Offsets that a producer was told already are not used
// again.
func (s *Shard) DropStaged(topic, number uint32) {
	p, why := s.find(topic, number)
	if why != nil || p.log == nil || !p.journaled() {
		return
	}
	p.log.DropStaged()
	kept := p.log.NextIndex()
	n := p.overlay.len()
	for n > 0 && p.overlay.at(n-1).index >= kept {
		n--
	}
	from := uint64(math.MaxUint64)
	if n < p.overlay.len() {
		from = p.overlay.at(n).base
	}
	p.dropEntries(n)
	for i := p.notes.len(); i > 0 && p.notes.at(i-1).index >= kept; i-- {
		p.notes.cut(i - 1)
	}
	p.ceilingStaged, p.startStaged = p.ceiling, p.start
	for i := range p.notes.len() {
		switch n := p.notes.at(i); n.kind {
		case kindCeiling:
			p.ceilingStaged = n.value
		case disk.KindTrim:
			p.startStaged = n.value
		}
	}
	p.lastIndex, p.ceilingIndex = min(p.lastIndex, kept-1), min(p.ceilingIndex, kept-1)
	s.dropWaits(p, kept, from)
}

// dropWaits refuses the answers that depend on an entry from kept on, or stand for records from offset from on. The others
// keep their order.
func (s *Shard) dropWaits(p *partition, kept, from uint64) {
	n := 0
	for i := range p.waits.len() {
		w := p.waits.at(i)
		if w.index >= kept || w.base >= from {
			s.giveUp(w, frame.Error{Code: frame.ErrBusy, Text: "taken back before it was written"})
			continue
		}
		*p.waits.at(n) = *w
		n++
	}
	p.waits.cut(n)
}

// dropEntries keeps the first n entries of the overlay and takes the others' effects back.
func (p *partition) dropEntries(n int) {
	if fault.On(fault.Rule15KeepSequences) {
		p.overlay.cut(n)
		return
	}
	next := max(p.durable, p.floor)
	for i := range p.overlay.len() {
		e := p.overlay.at(i)
		if e.promised || i < n {
			next = max(next, e.next)
		}
		if e.promised {
			p.floor = max(p.floor, e.next)
		}
		if q := p.producers.lookup(e.producer); q != nil {
			q.staged, q.inFlight = q.applied, 0
		}
	}
	p.next = next
	p.overlay.cut(n)
	for i := range n {
		e := p.overlay.at(i)
		if q := p.producers.lookup(e.producer); q != nil && e.producer != batch.NoProducer {
			q.staged.add(e.epoch, sent{e.sequence, e.count, e.base, e.time})
			q.inFlight++
		}
	}
}

// Fenced is disk's word that l's segment failed twice (disk.Machine).
func (s *Shard) Fenced(l *disk.Log, err error) {
	if l.Key() == disk.Meta {
		s.Failed(err)
		return
	}
	if p := s.partitionOf(l); p != nil {
		s.fence(p, err)
	}
}

// fence stops p for good: no more appends, and what waited is told that its outcome is unknown. Reads go on.
func (s *Shard) fence(p *partition, err error) {
	if p.fenced == nil {
		p.fenced = err
		s.report("error", "partition fenced", "topic", p.topic.name, "partition", p.number, "error", err)
	}
	s.abandon(p, frame.Error{Code: frame.ErrFenced, Outcome: frame.OutcomeUnknown, Text: refuseFenced.text})
}

// abandon answers everything that waits for p's flushes.
func (s *Shard) abandon(p *partition, e frame.Error) {
	for p.waits.len() > 0 {
		w := p.waits.pop()
		s.giveUp(&w, e)
	}
	for p.atEnd.len() > 0 {
		w := p.atEnd.pop()
		s.giveUp(&w, e)
	}
}

// Failed is disk's word that the journal failed (disk.Machine): final until a restart recovers.
func (s *Shard) Failed(err error) {
	if s.failed != nil {
		return
	}
	s.failed = err
	s.report("error", "journal failed: nothing more is acknowledged; restart to recover", "error", err)
	for _, p := range s.partitions {
		if p != nil {
			s.abandon(p, frame.Error{Code: frame.ErrFenced, Outcome: frame.OutcomeUnknown, Text: s.refuseFailure().text})
		}
	}
	s.metaFailed()
}

// Stalled is disk's word that a journal flush takes too long, or that it has ended (disk.Machine, RULES 30).
func (s *Shard) Stalled(on bool) {
	s.stall = on
	level, event := "info", "disk answers again"
	if on {
		level, event = "warn", "disk is stalled: produce is answered BUSY until the flush completes"
		s.stats.Stalls++
	}
	s.report(level, event)
}

// lowerCeilings brings ceilings back to the log end at a clean stop, so that the next start leaves no gap.
func (s *Shard) lowerCeilings() {
	for _, p := range s.partitions {
		if p == nil || !p.writable() || s.failed != nil || p.ceilingStaged <= p.next {
			continue
		}
		s.scratch.note = le.AppendUint64(s.scratch.note[:0], p.next)
		if index, err := p.log.Note(kindCeiling, s.cfg.Start, s.scratch.note); err == nil {
			p.ceilingStaged = p.next
			p.notes.push(note{index: index, kind: kindCeiling, value: p.next})
		}
	}
}
