package loop

import "net/netip"

// Conn names one connection of a loop: slot in the low 32 bits, generation above; 0 is none. A stale Conn is ignored by
// every call, so a handler may act on a connection that closed meanwhile.
type Conn uint64

// Handler is what a loop calls, always on the loop's thread. A turn is: completions in (Opened, Received, Drained,
// Closed, disk completions), then EndTurn once, then one submission.
type Handler interface {
	// Opened announces an accepted connection; listener is the index that Listen returned.
	Opened(c Conn, listener int, remote netip.AddrPort)
	// Received hands over bytes; p is the loop's and valid until the EndTurn of this turn has returned.
	Received(c Conn, p []byte)
	// Drained says that output queued for c fell below LowWater after it had reached HighWater.
	Drained(c Conn)
	// Closed is the last call about c: err is nil after an orderly end of both sides.
	Closed(c Conn, err error)
	// EndTurn runs once a turn, after all completions and before the submission. It returns when it wants to run again
	// at the latest, monotonic nanoseconds as of Now; 0: no such time.
	EndTurn(monoNanos, unixMillis int64) (wakeAt int64)
}

// Water marks of a connection's queued output, bytes.
const (
	HighWater = 256 << 10
	LowWater  = 64 << 10
)

// Loop moves bytes between sockets and a Handler. All methods but Wake and Stop belong to the loop's thread.
type Loop interface {
	// Listen opens a listener and returns its index and actual address; before Run.
	Listen(addr netip.AddrPort) (int, netip.AddrPort, error)
	// Run turns until Stop. The caller has locked its goroutine to a thread and created the loop on it.
	Run(h Handler) error
	// Stop ends Run after the current turn; from any thread.
	Stop()
	// Wake makes a parked loop turn; from any thread.
	Wake()
	// Send copies p to the end of c's queued output.
	Send(c Conn, p []byte)
	// Queued is the output of c that the kernel has not taken yet, bytes.
	Queued(c Conn) int
	// Pause stops reading from c; Resume starts again. Bytes already received may still arrive after Pause.
	Pause(c Conn)
	Resume(c Conn)
	// Close sends what is queued, then closes; Closed follows. Abort closes at once.
	Close(c Conn)
	Abort(c Conn)
	// CloseListeners stops accepting.
	CloseListeners()
	// Now is the monotonic time of this turn, nanoseconds; UnixMillis the wall clock's.
	Now() int64
	UnixMillis() int64
	Stats() Stats
}

// Stats are plain counters of one loop, to be read on its thread.
type Stats struct {
	Turns, Enters, Parks, Spins uint64
	BytesIn, BytesOut           uint64
	Accepted, Closed, Rearmed   uint64
	Refused                     uint64 // accepted and closed at once, above the limit
	Connections                 int
}
