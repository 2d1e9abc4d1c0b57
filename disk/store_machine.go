package disk

import "github.com/slipringmq/slipring/frame/batch"

// Existence is what meta says of a partition's topic.
type Existence uint8

const (
	Unknown Existence = iota // neither topic nor tombstone: fenced and reported, never discarded
	Live
	Deleted // a tombstone: what is left of it on disk may go
)

// Cause says what kind of damage was found.
type Cause uint8

const (
	CauseJournal Cause = iota + 1 // acknowledged journal entries are lost: there is a gap in the partition's index
	CauseEntry                    // an entry that checks cannot be applied: it contradicts the log's state
	CauseSegment                  // bytes of a segment do not check or are missing
	CauseState                    // the snapshot is lost or cannot be restored
	CauseUnknown                  // the partition's id has neither topic nor tombstone
)

// String is the word that reports use.
func (c Cause) String() string {
	switch c {
	case CauseJournal:
		return "journal"
	case CauseEntry:
		return "entry"
	case CauseSegment:
		return "segment"
	case CauseState:
		return "state"
	case CauseUnknown:
		return "unknown id"
	}
	return "none"
}

// Damage is one finding about one partition. Entries up to Index are good; later ones are lost or their bytes are.
// From and To bound the record offsets concerned, To exclusive; equal when they are not known.
type Damage struct {
	Key      Key
	Cause    Cause
	Index    uint64
	From, To batch.Offset
	Err      error // what was seen, for the report; never nil
}

// Machine is the shard as its store sees it. Every call comes on the shard's thread, never inside a call of the shard
// into the store other than Open, EndTurn and the device's completions.
type Machine interface {
	// Known says whether k's topic exists; asked after meta is recovered.
	Known(k Key) Existence
	// Restore gives back what Snapshot returned; it comes before any Replay of l. state is valid during the call.
	Restore(l *Log, state []byte) error
	// Replay applies the next entry of l. An error fences l and is reported as damage.
	Replay(l *Log, e *Entry) error
	// Damaged says that entries of l after d.Index are lost or its bytes are. l takes no appends; what lies below is served.
	Damaged(l *Log, d Damage)

	// Durable says that all entries of l up to index are on stable media: once for each partition and flushed group.
	Durable(l *Log, index uint64)
	// Snapshot appends to dst the applied (durable) state of l and the index it was taken at, which is that of the last
	// Durable call, or of the last Replay.
	Snapshot(l *Log, dst []byte) (index uint64, out []byte)
	// Fenced says that l's segment failed twice: l takes no more appends.
	Fenced(l *Log, err error)
	// Failed says that the journal failed; nothing more is acknowledged from this shard. Called once.
	Failed(err error)
	// Stalled says that a journal flush is older than Config.StallNanos, or that it has completed.
	Stalled(on bool)
	// Gone follows a durable KindDrop: the files are removed and neither journal nor state names k, so its tombstone may go.
	Gone(k Key)
}
