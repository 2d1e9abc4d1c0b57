package shard

// Network is what a shard needs of its loop. Connections are named as the loop names them; a name whose connection is
// gone is ignored. Calls are per frame or per piece of a batch, never per record.
type Network interface {
	// Send copies p to the end of c's queued output.
	Send(c uint64, p []byte)
	// Queued is the output of c that the kernel has not taken yet, bytes.
	Queued(c uint64) int
	// Pause stops reading from c; Resume starts again.
	Pause(c uint64)
	Resume(c uint64)
	// Close sends what is queued, then closes; Abort closes at once. Closed follows both.
	Close(c uint64)
	Abort(c uint64)
}
