package disk

import "github.com/slipringmq/slipring/frame/batch"

// member is what journal, checkpoint and recovery keep about one log. It is the store's.
//
// A generation of the journal may die when no log has firstGen at or below it. firstGen is therefore that of the oldest
// entry which is not both placed in a segment and covered by a durable snapshot.
type member struct {
	image *image // that holds its last staged entry, and where in touched
	slot  int

	lastGroup uint64 // last group submitted with entries of it, the generation where that begins, and where it ends
	lastBegin uint64
	lastGen   uint64

	firstGen uint64 // 0: none
	afterGen uint64 // the same, of entries that the running checkpoint does not cover
	checking bool   // the running checkpoint has it in hand

	sent    uint64 // index of the last entry submitted
	durable uint64 // index of the last durable entry
	placing uint64 // durable when the running checkpoint called place
	placed  uint64 // the segments hold all entries up to it
	epoch   uint64 // of the last durable or replayed entry, for the state log

	damage       *Damage // why it is fenced over restarts, nil for most
	orphan       bool    // its id is unknown to meta
	unknown      []byte  // then: its state record as it was found, nil for none
	rescued      bool    // the running checkpoint writes its entries to a file of their own
	gone         bool    // the state log says that it is dropped
	dropIndex    uint64  // of its drop, 0 none
	dropped      bool    // its drop is durable
	recordedGone bool    // the running checkpoint says so

	replay    *replayState // during recovery only
	placeDone func(error)  // made once
}

// stagedIn notes that an entry of l went to m.
func (b *member) stagedIn(m *image, l *Log, index uint64) {
	if b.image == m && b.slot < len(m.touched) && m.touched[b.slot].log == l {
		m.touched[b.slot].index = max(m.touched[b.slot].index, index)
		return
	}
	b.image, b.slot = m, len(m.touched)
	m.touched = append(m.touched, touch{l, index})
}

// submitted notes that a group with entries of it up to index is under way to generations begin to end.
func (b *member) submitted(index, group, begin, end uint64) {
	b.sent = max(b.sent, index)
	b.lastGroup, b.lastBegin, b.lastGen = group, begin, end
	if b.firstGen == 0 {
		b.firstGen = begin
	}
	if b.checking && b.afterGen == 0 {
		b.afterGen = begin
	}
}

// beginCheck fixes what the checkpoint covers: all that is durable now. A group in flight counts as after it.
func (b *member) beginCheck(flushed uint64) {
	b.checking, b.placing, b.afterGen = true, b.durable, 0
	if b.lastGroup > flushed {
		b.afterGen = b.lastBegin
	}
}

// endCheck takes over what was covered, once the snapshot is durable.
func (b *member) endCheck() {
	b.checking, b.firstGen, b.afterGen = false, b.afterGen, 0
	b.gone = b.gone || b.recordedGone
}

// causeFields are the damage as a state record holds it.
func (b *member) causeFields() (Cause, batch.Offset, batch.Offset) {
	if b.damage == nil {
		return 0, 0, 0
	}
	return b.damage.Cause, b.damage.From, b.damage.To
}

// waiting says whether an entry of l is staged or in flight.
func (b *member) waiting(l *Log) bool {
	return b.image != nil && b.slot < len(b.image.touched) && b.image.touched[b.slot].log == l
}
