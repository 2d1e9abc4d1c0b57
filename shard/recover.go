package shard

import (
	"errors"
	"fmt"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// Known is the store's question whether k's topic exists (disk.Machine).
func (s *Shard) Known(k disk.Key) disk.Existence {
	switch {
	case k == disk.Meta:
		return disk.Live
	case s.partitionByKey(k) != nil:
		return disk.Live
	case s.topics.tomb(k.Topic) != nil && !fault.On(fault.Rule12NoTombstone):
		return disk.Deleted
	}
	// Whatever became of the topic, its id must not be given to another one.
	s.topics.nextID = max(s.topics.nextID, k.Topic+1)
	return disk.Unknown
}

// Restore takes a snapshot back (disk.Machine).
func (s *Shard) Restore(l *disk.Log, state []byte) error {
	if l.Key() == disk.Meta {
		return s.restoreMeta(state)
	}
	p := s.attach(l)
	if p == nil {
		return nil
	}
	return p.restore(state, s.limits.Producers)
}

// Replay applies one entry after a start (disk.Machine). Entries hold outcomes, so this needs no clock and no judgement.
func (s *Shard) Replay(l *disk.Log, e *disk.Entry) error {
	if e.Key == disk.Meta {
		return s.replayMeta(e)
	}
	p := s.attach(l)
	if p == nil {
		return nil
	}
	p.index = e.Index
	switch e.Kind {
	case disk.KindAppend, disk.KindReference:
		p.recovered(&e.Header, s.limits.Producers)
	case disk.KindTrim:
		p.start = max(p.start, uint64(e.Trim))
	case disk.KindDrop:
	case kindCeiling:
		if len(e.Payload) != 8 {
			return fmt.Errorf("shard: ceiling entry of %d bytes", len(e.Payload))
		}
		p.ceiling = le.Uint64(e.Payload)
	case kindStands:
		if rest, err := p.producers.restore(e.Payload, s.limits.Producers); err != nil || len(rest) != 0 {
			return errState
		}
	default:
		return fmt.Errorf("shard: entry of kind %d, which this version does not know", e.Kind)
	}
	return nil
}

// attach gives l to its partition, nil for one that meta does not know.
func (s *Shard) attach(l *disk.Log) *partition {
	p := s.partitionByKey(l.Key())
	if p != nil {
		p.log = l
	}
	return p
}

// recovered notes a durable batch that was found after a start.
func (p *partition) recovered(h *batch.Header, mostProducers int) {
	if fault.On(fault.Rule05ForgetProducers) {
		return
	}
	p.durable = max(p.durable, h.NextOffset())
	p.time = max(p.time, h.AppendTime)
	p.producers.apply(h, mostProducers)
}

// errMetaDamaged: the log of topics and producer ids is fenced, so nothing can be stored.
var errMetaDamaged = errors.New("metadata is damaged")

// refuseFailure says why nothing is stored any more; s.failed is set.
func (s *Shard) refuseFailure() *refusal {
	if errors.Is(s.failed, errMetaDamaged) {
		return refuseMetaLost
	}
	return refuseFailed
}

// Damaged is the store's word that entries or bytes of l are lost (disk.Machine): what lies below is served, nothing is
// added.
func (s *Shard) Damaged(l *disk.Log, d disk.Damage) {
	s.report("error", "damage found", "key", d.Key, "cause", d.Cause, "after_index", d.Index,
		"first_offset", d.From, "last_offset", d.To, "error", d.Err)
	if d.Key == disk.Meta {
		if s.failed == nil {
			s.failed = fmt.Errorf("%w: %w", errMetaDamaged, d.Err)
		}
		return
	}
	p := s.partitionByKey(d.Key)
	if p == nil {
		return
	}
	if p.log == nil {
		p.log = l
	}
	if p.fenced == nil {
		p.fenced = fmt.Errorf("damaged: %w", d.Err)
	}
}

// Snapshot of a partition, version 1, little-endian. The log's own part (segments, ends) is disk's.
//
//	u8 version | u64 log start | u64 durable end | u64 ceiling | i64 last append time | producers
const snapshotVersion = 1

// Snapshot appends the applied state of l to dst (disk.Machine).
func (s *Shard) Snapshot(l *disk.Log, dst []byte) (index uint64, out []byte) {
	if l.Key() == disk.Meta {
		return s.meta.index, s.snapshotMeta(dst)
	}
	p := s.partitionOf(l)
	if p == nil {
		return l.NextIndex() - 1, dst
	}
	return p.index, p.appendState(dst)
}

func (p *partition) appendState(dst []byte) []byte {
	dst = append(dst, snapshotVersion)
	dst = le.AppendUint64(dst, p.start)
	dst = le.AppendUint64(dst, p.durable)
	dst = le.AppendUint64(dst, p.ceiling)
	dst = le.AppendUint64(dst, uint64(p.time))
	return p.producers.append(dst)
}

func (p *partition) restore(state []byte, mostProducers int) error {
	const fixed = 1 + 4*8
	if len(state) == 0 { // taken before the shard knew anything of it
		return nil
	}
	if len(state) < fixed || state[0] != snapshotVersion {
		return errState
	}
	p.start, p.durable, p.ceiling = le.Uint64(state[1:]), le.Uint64(state[9:]), le.Uint64(state[17:])
	p.time = int64(le.Uint64(state[25:]))
	if fault.On(fault.Rule05ForgetProducers) {
		return nil
	}
	rest, err := p.producers.restore(state[fixed:], mostProducers)
	if err == nil && len(rest) != 0 {
		err = errState
	}
	return err
}

// openPartition joins p with its log, made if the store has none.
func (s *Shard) openPartition(p *partition) {
	if p.topic.settings.Storage == frame.StorageNone {
		return
	}
	if p.log == nil {
		p.log = s.store.Log(p.key())
	}
	if p.log == nil {
		p.log = s.store.NewLog(p.key(), p.options())
	}
}

// resume sets the ends of all partitions after recovery. A partition whose offsets may have been shown before they were
// durable goes on at its ceiling, so that no offset means two records (RULES 13); a clean stop has brought that back to
// the log end.
func (s *Shard) resume(dev disk.Device) error {
	for _, p := range s.partitions {
		if p == nil || p.log == nil {
			continue
		}
		scanned := p.durable
		p.start = max(p.start, uint64(p.log.LogStart()))
		p.durable, p.next = uint64(p.log.DurableEnd()), uint64(p.log.LogEnd())
		if !p.journaled() && scanned < p.durable && p.fenced == nil {
			if err := s.scanProducers(dev, p, scanned); err != nil {
				return err
			}
		}
		if p.ceiling > p.next && !fault.On(fault.Rule13NoCeiling) {
			p.next = p.ceiling
		}
		p.floor, p.ceilingStaged, p.startStaged = p.next, p.ceiling, p.start
		p.high = p.durable
		if !p.journaled() {
			p.high = p.next
		}
	}
	return nil
}

// scanProducers reads batches that are in the log and in no entry: those of a log outside the journal which became durable
// after the last snapshot. Their producers' sequences come from their headers.
func (s *Shard) scanProducers(dev disk.Device, p *partition, from uint64) error {
	w := &s.scratch.walk
	done := false
	p.high = p.durable
	r := disk.Read{From: disk.Cursor{Offset: batch.Offset(max(from, p.start))}, Limit: batch.Offset(p.durable), MaxBytes: scanBytes}
	r.Done = func(*disk.Read) { done = true }
	for uint64(r.From.Offset) < p.durable {
		for done = p.log.Read(&r); !done; {
			if err := dev.Wait(); err != nil {
				return err
			}
		}
		if s.failedRead(p, &r) != frame.ErrNone {
			s.report("warn", "sequences of producers may be incomplete", "topic", p.topic.name, "partition", p.number, "error", r.Err)
			return nil
		}
		w.reset(r.Data)
		for r.From.Skip == 0 && w.next() {
			p.recovered(&w.header, s.limits.Producers)
		}
		w.data = nil
		stuck := r.Next == r.From
		r.From = r.Next
		r.Release()
		if stuck {
			return nil
		}
	}
	return nil
}

const scanBytes = 256 << 10
