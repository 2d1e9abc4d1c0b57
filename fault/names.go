package fault

// Fault is the name of one bug that can be planted, as SLIPRING_FAULT spells it.
type Fault string

// The faults. Each says what the broker does wrong while it is on; names.go is the only place to add one.
const (
	// AckBeforeFlush releases replies when the journal write is submitted, not when it is on stable media.
	AckBeforeFlush Fault = "ack-before-flush"

	// Rule04LockInRing leaves the lock's descriptor out of the ring, so the lock is free while a dead process still writes.
	Rule04LockInRing Fault = "rule04-lock-in-ring"
)

// names lists every constant above; a test compares the two.
var names = []Fault{
	AckBeforeFlush,
	Rule04LockInRing,
}

// Names returns all faults in the order of their declaration. The caller owns the slice.
func Names() []Fault { return append([]Fault(nil), names...) }
