package shard

import (
	"encoding/binary"
	"errors"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame/batch"
)

// rememberedBatches is how many batches of a producer a partition can recognise again: what a client may have in flight.
const rememberedBatches = 5

// sent is one batch of an idempotent producer.
type sent struct {
	sequence uint32 // of its first record
	count    uint32
	base     uint64 // offset
	time     int64  // append time
}

// sequence is where a producer stands in a partition.
type sequence struct {
	epoch uint16
	n     uint8 // of batches, oldest first
	last  [rememberedBatches]sent
}

// expected is the sequence that must come next. Sequences wrap at 2^32.
func (q *sequence) expected() uint32 {
	if q.n == 0 {
		return 0
	}
	b := &q.last[q.n-1]
	return b.sequence + b.count
}

// add notes a batch that was accepted.
func (q *sequence) add(epoch uint16, b sent) {
	if epoch != q.epoch {
		*q = sequence{epoch: epoch}
	}
	if q.n == rememberedBatches {
		copy(q.last[:], q.last[1:])
		q.n--
	}
	q.last[q.n] = b
	q.n++
}

// find returns the batch that h repeats.
func (q *sequence) find(h *batch.Header) *sent {
	if q.epoch != h.ProducerEpoch {
		return nil
	}
	for i := range q.n {
		if b := &q.last[i]; b.sequence == h.BaseSequence && b.count == h.Count {
			return b
		}
	}
	return nil
}

// producer keeps both sides of RULES 15: what is durable, and what is staged over it and may still be dropped whole.
type producer struct {
	id              uint64
	applied, staged sequence
	inFlight        int32  // batches in staged that are not applied
	notedTo         uint64 // batches below this offset stand in an entry or snapshot of their own
	older, newer    int32  // neighbours in order of use; -1: none
}

// producers is the table of one partition. It forgets the producer that was idle for longest when it is full.
type producers struct {
	slots          []producer
	place          map[uint64]int32
	oldest, newest int32
}

const noPlace = -1

// lookup returns the producer, nil when it is not known.
func (t *producers) lookup(id uint64) *producer {
	if i, ok := t.place[id]; ok {
		return &t.slots[i]
	}
	return nil
}

// use returns the producer, made if need be, as the one used last; nil when the table is full of producers with batches
// in flight. The pointer is valid until the next use.
func (t *producers) use(id uint64, most int) *producer {
	i, ok := t.place[id]
	if !ok {
		if i = t.vacancy(most); i == noPlace {
			return nil
		}
		t.slots[i] = producer{id: id}
		t.place[id] = i
	} else {
		if i == t.newest {
			return &t.slots[i]
		}
		t.unlink(i)
	}
	t.link(i)
	return &t.slots[i]
}

// vacancy finds a place for one more.
func (t *producers) vacancy(most int) int32 {
	if t.place == nil {
		t.place = make(map[uint64]int32)
		t.oldest, t.newest = noPlace, noPlace
	}
	if len(t.slots) < most {
		t.slots = append(t.slots, producer{})
		return int32(len(t.slots) - 1)
	}
	for i := t.oldest; i != noPlace; i = t.slots[i].newer {
		if t.slots[i].inFlight == 0 {
			t.unlink(i)
			delete(t.place, t.slots[i].id)
			return i
		}
	}
	return noPlace
}

func (t *producers) link(i int32) {
	t.slots[i].older, t.slots[i].newer = t.newest, noPlace
	if t.newest != noPlace {
		t.slots[t.newest].newer = i
	} else {
		t.oldest = i
	}
	t.newest = i
}

func (t *producers) unlink(i int32) {
	p := &t.slots[i]
	if p.older != noPlace {
		t.slots[p.older].newer = p.newer
	} else {
		t.oldest = p.newer
	}
	if p.newer != noPlace {
		t.slots[p.newer].older = p.older
	} else {
		t.newest = p.older
	}
}

// apply notes a durable batch that was not staged in this life: replay and scans.
func (t *producers) apply(h *batch.Header, most int) {
	if h.ProducerID == batch.NoProducer {
		return
	}
	p := t.use(h.ProducerID, most)
	if p.knows(h.BaseOffset) {
		return
	}
	p.applied.add(h.ProducerEpoch, sent{h.BaseSequence, h.Count, h.BaseOffset, h.AppendTime})
	p.staged = p.applied
}

// Producers in a partition's snapshot, oldest use first, little-endian:
//
//	u32 count, then for each: u64 id, u16 epoch, u8 batches, and for each batch u32 sequence, u32 count, u64 base offset,
//	i64 append time
const (
	producerBytes = 8 + 2 + 1
	sentBytes     = 4 + 4 + 8 + 8
)

// append writes the applied side. A producer of which nothing is durable yet is left out.
func (t *producers) append(dst []byte) []byte {
	return t.appendSome(dst, func(p *producer) bool { return p.applied.n > 0 })
}

func (t *producers) appendSome(dst []byte, wanted func(*producer) bool) []byte {
	at, n := len(dst), uint32(0)
	dst = append(dst, 0, 0, 0, 0)
	for i := t.first(); i != noPlace; i = t.slots[i].newer {
		if p := &t.slots[i]; wanted(p) {
			dst = p.append(dst)
			n++
		}
	}
	le.PutUint32(dst[at:], n)
	return dst
}

// knows says whether the last durable batch lies at base or behind it.
func (p *producer) knows(base uint64) bool {
	n := p.applied.n
	return n > 0 && base <= p.applied.last[n-1].base
}

func (p *producer) append(dst []byte) []byte {
	dst = le.AppendUint64(dst, p.id)
	dst = le.AppendUint16(dst, p.applied.epoch)
	dst = append(dst, p.applied.n)
	for j := range p.applied.n {
		b := &p.applied.last[j]
		dst = le.AppendUint32(dst, b.sequence)
		dst = le.AppendUint32(dst, b.count)
		dst = le.AppendUint64(dst, b.base)
		dst = le.AppendUint64(dst, uint64(b.time))
	}
	return dst
}

// forgotten returns, in the form of append, up to most producers with a batch below start that stands in no entry. A log
// outside the journal would forget it with the batch.
func (t *producers) forgotten(dst []byte, start uint64, most int) []byte {
	return t.appendSome(dst, func(p *producer) bool {
		for i := range p.applied.n {
			if base := p.applied.last[i].base; most > 0 && p.notedTo <= base && base < start {
				most--
				p.notedTo = p.applied.last[p.applied.n-1].base + 1
				return true
			}
		}
		return false
	})
}

// unnote takes the marks of forgotten back: an entry was not staged.
func (t *producers) unnote() {
	for i := range t.slots {
		t.slots[i].notedTo = 0
	}
}

func (t *producers) first() int32 {
	if t.place == nil {
		return noPlace
	}
	return t.oldest
}

var errState = errors.New("shard: snapshot does not parse")

// restore lays what append wrote over what is known and returns the rest. Never over newer: batches outside the journal
// have no index, so a snapshot of before the entry may know batches that the entry was staged without.
func (t *producers) restore(p []byte, most int) ([]byte, error) {
	if len(p) < 4 {
		return nil, errState
	}
	n := le.Uint32(p)
	p = p[4:]
	for range n {
		if len(p) < producerBytes {
			return nil, errState
		}
		id, epoch, batches := le.Uint64(p), le.Uint16(p[8:]), int(p[10])
		p = p[producerBytes:]
		if batches == 0 || batches > rememberedBatches || len(p) < batches*sentBytes || id == batch.NoProducer {
			return nil, errState
		}
		q := sequence{epoch: epoch}
		for range batches {
			q.add(epoch, sent{le.Uint32(p), le.Uint32(p[4:]), le.Uint64(p[8:]), int64(le.Uint64(p[16:]))})
			p = p[sentBytes:]
		}
		if known := t.lookup(id); known != nil && known.knows(q.last[q.n-1].base) && !fault.On(fault.Rule05OldStands) {
			continue
		}
		slot := t.use(id, most)
		slot.applied, slot.staged, slot.notedTo = q, q, q.last[q.n-1].base+1
	}
	return p, nil
}

var le = binary.LittleEndian
