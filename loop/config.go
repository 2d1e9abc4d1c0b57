package loop

import (
	"errors"
	"log/slog"
	"runtime"
	"time"
)

// Config of an engine. Zero values take the defaults.
type Config struct {
	MaxConnections int           // further ones are accepted and closed; default 20,000
	ReceiveBuffers int           // pieces of receive memory, a power of two; default 64
	ReceiveBytes   int           // bytes of each, a power of two from 4 KiB to 1 MiB; default 64 KiB
	Spin           time.Duration // longest spin before parking; default 50 µs, 0 on one CPU; negative: none
	CloseTimeout   time.Duration // for the output still queued at Close; then the connection is cut; default 5 s
	ReusePort      bool          // let another socket listen on the same port
	Log            *slog.Logger  // default: slog.Default()
}

// Errors that Closed reports beside the kernel's.
var (
	// ErrAborted: this side called Abort.
	ErrAborted = errors.New("loop: connection aborted by this side")
	// ErrNoMemory: there was no block for the connection's output.
	ErrNoMemory = errors.New("loop: out of memory for output")
	// ErrCloseTimeout: after Close the peer did not take its output, or did not end its side, in time.
	ErrCloseTimeout = errors.New("loop: peer did not finish in time")
)

const (
	maxConnections = 1 << slotBits

	// turnBytes is what one connection may deliver in one turn; more waits in its buffers for the next.
	turnBytes = 256 << 10

	// lingerNanos is how long a connection whose output is out waits for the peer's end, discarding what comes: closing
	// earlier with unread bytes would reset it and could destroy that output on its way.
	lingerNanos = int64(500 * time.Millisecond)

	// acceptRetryNanos passes before accepting goes on after the process or the host ran out of descriptors or memory.
	acceptRetryNanos = int64(100 * time.Millisecond)

	listenBacklog = 4096 // the kernel cuts it to net.core.somaxconn
)

func (c Config) withDefaults() Config {
	if c.MaxConnections == 0 {
		c.MaxConnections = 20_000
	}
	c.MaxConnections = min(c.MaxConnections, maxConnections)
	if c.ReceiveBuffers == 0 {
		c.ReceiveBuffers = 64
	}
	if c.ReceiveBytes == 0 {
		c.ReceiveBytes = 64 << 10
	}
	if c.Spin == 0 && runtime.NumCPU() > 1 {
		c.Spin = 50 * time.Microsecond
	}
	c.Spin = max(c.Spin, 0)
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}
