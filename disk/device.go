package disk

// Position counts bytes in a file.
type Position int64

// File is a device's handle of an open file; 0 is none.
type File int32

// OpKind says what an Op does.
type OpKind uint8

const (
	OpRead     OpKind = iota + 1
	OpWrite           // Data at Pos; with Sync durable when done
	OpSync            // make earlier completed writes of File durable (fdatasync)
	OpAllocate        // reserve Size bytes from Pos, the file is at least that long after it; EOPNOTSUPP is no failure of the owner
	OpCreate          // open Path for direct reads and writes, making it and its parent directories; EEXIST if there is one. The name needs OpSyncDir; the directories above are durable when done
	OpOpen            // open an existing Path for direct reads and writes
	OpClose           // close File
	OpRename          // Path to NewPath in the same directory, replacing it
	OpRemove          // unlink Path; a large file is punched out in steps first (RULES 27), so nobody may read it any more; a directory must be empty
	OpSyncDir         // make the names in directory Path durable
	OpList            // names in directory Path, sorted, in Names; a missing directory is an empty list
	OpStat            // size of File in Size
	OpTruncate        // set the size of File to Size
)

// Class orders what waits in the device for a place: journal before direct before tails before cold reads. Ops that
// find a place at once reach the kernel in the order of Submit.
type Class uint8

const (
	ClassJournal Class = iota
	ClassDirect
	ClassTail
	ClassCold
)

// Op is one operation. It belongs to the device from Submit until Done is called; the owner then may use it again.
// Data pieces are block.Pool memory: address, length and Pos are multiples of Device.Alignment.
// Done runs on the owner's thread and never inside Submit. Short reads and writes, EINTR and EAGAIN are the device's
// business: an op is done when all of Data is, at the end of the file (reads: N says how much), or with Err.
// Ops have no order among each other, those of one file or one name included: wait for Done where order matters.
// After a failed write or sync it is unknown which of its bytes are on the medium, and a later sync tells nothing.
type Op struct {
	Kind    OpKind
	Class   Class
	Sync    bool
	File    File // in; out for OpCreate and OpOpen
	Pos     Position
	Data    [][]byte
	Path    string // relative to the data directory
	NewPath string
	Size    int64
	Done    func(*Op)

	N     int // bytes done
	Names []string
	Err   error // wraps the errno; errors.Is(err, syscall.ENOSPC) and the like work

	state opState // the device's
}

// Device is the narrow interface to kernel and disk, one per shard, used by one thread.
// Implementations: uring (NewUring), sim (NewSim); later posix. One test suite holds them all.
type Device interface {
	// Submit queues op. It is sent to the kernel at the end of the turn.
	Submit(op *Op)
	// Wait blocks until at least one op has completed and its Done has run; for start and stop, when no loop turns.
	// It returns at once when nothing is in flight.
	Wait() error
	// InFlight is the number of ops whose Done has not run.
	InFlight() int
	// Alignment of memory, length and position of direct I/O, bytes: a power of two, at most 4096.
	Alignment() int
}
