package fault

// Fault is the name of one bug that can be planted, as SLIPRING_FAULT spells it.
type Fault string

// The faults. Each says what the broker does wrong while it is on; names.go is the only place to add one.
const (
	// AckBeforeFlush releases replies when the journal write is submitted, not when it is on stable media.
	AckBeforeFlush Fault = "ack-before-flush"

	// Rule04LockInRing leaves the lock's descriptor out of the ring, so the lock is free while a dead process still writes.
	Rule04LockInRing Fault = "rule04-lock-in-ring"

	// Rule01CutDamage takes every bad journal block for a torn one and ends the log there, as if it had never been acknowledged.
	Rule01CutDamage Fault = "rule01-cut-damage"

	// Rule01NoIdleMarks writes no empty group after the last one, so nothing says that it was flushed.
	Rule01NoIdleMarks Fault = "rule01-no-idle-marks"

	// Rule02DataFirst stages the reference to a direct batch while its data is still on the way to the segment.
	Rule02DataFirst Fault = "rule02-data-first"

	// Rule02HoldLater lets later appends of a partition pass a direct batch that has not landed.
	Rule02HoldLater Fault = "rule02-hold-later"

	// Rule02WholeBlocks leaves the end of a direct batch, less than a block, to nobody.
	Rule02WholeBlocks Fault = "rule02-whole-blocks"

	// Rule02NoCopy writes a direct batch from the memory it arrived in, at whatever phase that has.
	Rule02NoCopy Fault = "rule02-no-copy"

	// Rule03ReuseUndeclared overwrites a journal file before the mark that declares its generation dead is flushed.
	Rule03ReuseUndeclared Fault = "rule03-reuse-undeclared"

	// Rule03TrustStale believes journal blocks that an earlier start left behind the place where a later one went on.
	Rule03TrustStale Fault = "rule03-trust-stale"

	// Rule03KeepDead replays generations of the journal that a mark declares dead.
	Rule03KeepDead Fault = "rule03-keep-dead"

	// Rule03NoMadeMark does not say in the journal which of its files exist, so a lost newest file reads as a clean end.
	Rule03NoMadeMark Fault = "rule03-no-made-mark"

	// Rule05NoIndex replays entries whatever their index: gaps pass, and what a snapshot covers is applied again.
	Rule05NoIndex Fault = "rule05-no-index"

	// Rule05StateReset goes on with the older snapshots when a chunk of the state log is lost.
	Rule05StateReset Fault = "rule05-state-reset"

	// Rule05DamageUnnamed does not say which partitions a damaged journal block may have shortened.
	Rule05DamageUnnamed Fault = "rule05-damage-unnamed"

	// Rule08CopyForward keeps the entries of every small tail aside at each checkpoint instead of padding and placing it.
	Rule08CopyForward Fault = "rule08-copy-forward"

	// Rule08HandOutPadding takes the zeros between two batches for bytes of the log.
	Rule08HandOutPadding Fault = "rule08-hand-out-padding"

	// Rule08KeepTails keeps the last block of each tail in memory instead of padding it out.
	Rule08KeepTails Fault = "rule08-keep-tails"

	// Rule09NoShare lets produce fill the whole journal ring.
	Rule09NoShare Fault = "rule09-no-share"

	// Rule12UnlinkEarly removes segments before the log start that frees them is durable.
	Rule12UnlinkEarly Fault = "rule12-unlink-early"

	// Rule12IgnoreTrims does not apply log starts at replay: what had expired comes back.
	Rule12IgnoreTrims Fault = "rule12-ignore-trims"

	// Rule12DiscardUnknown takes an id without topic and without tombstone for a deleted one.
	Rule12DiscardUnknown Fault = "rule12-discard-unknown"

	// Rule12GoneEarly lets a tombstone go while the journal still names its partition.
	Rule12GoneEarly Fault = "rule12-gone-early"

	// Rule25ChunkPerPartition flushes the state log for every partition of a checkpoint by itself.
	Rule25ChunkPerPartition Fault = "rule25-chunk-per-partition"

	// Rule30NoStall admits produce while a journal flush hangs.
	Rule30NoStall Fault = "rule30-no-stall"

	// Rule05NewWithoutManifest takes a data directory that lost its manifest for a new one.
	Rule05NewWithoutManifest Fault = "rule05-new-without-manifest"

	// Rule05StartNotFirst goes on with a start number that is not on the medium yet.
	Rule05StartNotFirst Fault = "rule05-start-not-first"

	// Rule27UnlinkWhole unlinks a large file in one step, and everything behind it waits.
	Rule27UnlinkWhole Fault = "rule27-unlink-whole"

	// Rule05ForgetProducers leaves the sequences of producers out of what a start recovers.
	Rule05ForgetProducers Fault = "rule05-forget-producers"

	// Rule05OldStands lays where producers stood when an entry was staged over a snapshot that knows more.
	Rule05OldStands Fault = "rule05-old-stands"

	// Rule07RepeatAtOnce answers a repeated batch before its first copy is durable.
	Rule07RepeatAtOnce Fault = "rule07-repeat-at-once"

	// Rule07MetaAtOnce applies and answers changes of metadata before they are durable.
	Rule07MetaAtOnce Fault = "rule07-meta-at-once"

	// Rule12NoTombstone forgets that a topic was deleted, so what is left of it on disk looks like damage.
	Rule12NoTombstone Fault = "rule12-no-tombstone"

	// Rule13ForgetSegments leaves segments outside the journal out of a snapshot until something in them is durable.
	Rule13ForgetSegments Fault = "rule13-forget-segments"

	// Rule13ScanWholeBlocks looks for the end of a segment outside the journal from the next block on, not the next byte.
	Rule13ScanWholeBlocks Fault = "rule13-scan-whole-blocks"

	// Rule13NoCeiling shows offsets before they are durable without a ceiling, so a restart gives them to other records.
	Rule13NoCeiling Fault = "rule13-no-ceiling"

	// Rule15ApplyAtStage lets readers see records that are staged only.
	Rule15ApplyAtStage Fault = "rule15-apply-at-stage"

	// Rule15KeepSequences drops staged records and keeps what they did to log end and producers.
	Rule15KeepSequences Fault = "rule15-keep-sequences"

	// Rule16SameSegment goes on in the same segment file after an unclean start.
	Rule16SameSegment Fault = "rule16-same-segment"

	// Rule16ScanForEnd takes whatever checks behind the last durable batch of a segment for a part of the log.
	Rule16ScanForEnd Fault = "rule16-scan-for-end"

	// Rule17TrustRecords does not check the record framing of a produced batch.
	Rule17TrustRecords Fault = "rule17-trust-records"

	// Rule21IgnoreRecordCredit delivers more than one batch beyond a subscription's credit in records.
	Rule21IgnoreRecordCredit Fault = "rule21-ignore-record-credit"

	// Rule23KeepDirectoryID tells the same directory id for every data directory.
	Rule23KeepDirectoryID Fault = "rule23-keep-directory-id"

	// Rule31HoldBlocks lets unfinished frames hold a block of 1 MiB each, whatever has arrived of them.
	Rule31HoldBlocks Fault = "rule31-hold-blocks"
)

// names lists every constant above; a test compares the two.
var names = []Fault{
	AckBeforeFlush,
	Rule04LockInRing,
	Rule01CutDamage,
	Rule01NoIdleMarks,
	Rule02DataFirst,
	Rule02HoldLater,
	Rule02WholeBlocks,
	Rule02NoCopy,
	Rule03ReuseUndeclared,
	Rule03TrustStale,
	Rule03KeepDead,
	Rule03NoMadeMark,
	Rule05NoIndex,
	Rule05StateReset,
	Rule05DamageUnnamed,
	Rule08CopyForward,
	Rule08HandOutPadding,
	Rule08KeepTails,
	Rule09NoShare,
	Rule12UnlinkEarly,
	Rule12IgnoreTrims,
	Rule12DiscardUnknown,
	Rule12GoneEarly,
	Rule25ChunkPerPartition,
	Rule30NoStall,
	Rule05NewWithoutManifest,
	Rule05StartNotFirst,
	Rule27UnlinkWhole,
	Rule05ForgetProducers,
	Rule05OldStands,
	Rule07RepeatAtOnce,
	Rule07MetaAtOnce,
	Rule12NoTombstone,
	Rule13ForgetSegments,
	Rule13ScanWholeBlocks,
	Rule13NoCeiling,
	Rule15ApplyAtStage,
	Rule15KeepSequences,
	Rule16SameSegment,
	Rule16ScanForEnd,
	Rule17TrustRecords,
	Rule21IgnoreRecordCredit,
	Rule23KeepDirectoryID,
	Rule31HoldBlocks,
}

// Names returns all faults in the order of their declaration. The caller owns the slice.
func Names() []Fault { return append([]Fault(nil), names...) }
