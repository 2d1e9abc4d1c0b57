package slipring

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/affinity"
	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/loop"
	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
	"github.com/slipringmq/slipring/shard"
)

// host is one shard on its thread. Everything but the fields marked so belongs to that thread.
type host struct {
	cfg    Config
	sizes  sizes
	plan   affinity.Plan
	log    *slog.Logger
	report func(level, event string, args ...any)
	addr   netip.AddrPort // written before Open returns, read after
	ended  <-chan struct{}

	calls    chan func()  // any thread: run at the end of a turn
	stopping atomic.Bool  // any thread: Close was called
	giveUp   atomic.Bool  // any thread: stop without finishing
	waker    atomic.Value // any thread: func(), once there is a loop

	ring  *uring.Ring
	pool  *block.Pool
	loop  *loop.Uring
	shard *shard.Shard
	undo  []func() error // what start made, in order
}

// run lives as long as the shard. It answers started once and returns why it ended.
func (h *host) run(started chan<- error) (err error) {
	runtime.LockOSThread() // never unlocked: a pinned thread must not serve other goroutines, so it ends with this one
	nameThread(0)
	defer func() { err = errors.Join(err, h.tearDown()) }()
	if err := h.start(); err != nil {
		started <- err
		return err
	}
	started <- nil
	if err := h.loop.Run(h); err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	return nil
}

// start builds ring, memory, device, shard and listeners, in that order: each stands on the one before.
func (h *host) start() error {
	if h.cfg.Pin {
		if err := affinity.Pin(h.plan.Shards[0]); err != nil {
			return err
		}
	}
	var err error
	if h.ring, err = uring.New(uring.Config{}); err != nil {
		return disk.ExplainRing(err)
	}
	h.later(h.ring.Close)
	mask := h.plan.HousekeepingMask()
	if err := h.ring.RegisterIOWQAff(&mask); err != nil {
		h.log.Warn("kernel workers share the shard's CPU", "event", "iowq.affinity", "error", err)
	}
	h.pool = block.NewPool(int(h.sizes.pool))
	h.later(h.pool.Close)
	var memlock error // said once the broker serves: a start that is refused says one thing only
	h.pool.Refused = func(err error) { memlock = err }
	if err := h.pool.Register(h.ring); err != nil {
		memlock = err
	}
	if h.loop, err = loop.NewUring(h.ring, h.pool, loop.Config{MaxConnections: h.cfg.MaxConnections, Spin: h.spin(), Log: h.log}); err != nil {
		return err
	}
	h.later(h.loop.Free)
	h.waker.Store(h.loop.Wake)
	if err := h.lock(); err != nil {
		return err
	}
	// Before the recovery, which a port in use then does not cost. Connections wait in the backlog until the loop runs.
	if err := h.listen(); err != nil {
		return err
	}
	if err := h.openShard(); err != nil {
		return err
	}
	h.pool.Refused = h.warnMemlock
	if memlock != nil {
		h.warnMemlock(memlock)
	}
	return nil
}

// lock claims the data directory and hands the claim to the ring.
func (h *host) lock() error {
	lock, err := disk.TakeLock(h.cfg.Data, disk.LockOptions{Wait: h.cfg.LockWait, Waiting: func(why string) {
		h.log.Info(why, "event", "lock.wait", "data", h.cfg.Data)
	}})
	if err != nil {
		return err
	}
	h.later(lock.Release)
	return lock.Hold(h.ring)
}

// Kernel work on behalf of a killed process goes on after the process is gone: its ring holds the listener until the
// requests on it are cancelled. So a port that is in use gets a moment before it is an error.
const (
	listenWait  = time.Second
	listenRetry = 10 * time.Millisecond
)

func (h *host) listen() (err error) {
	for deadline := time.Now().Add(listenWait); ; time.Sleep(listenRetry) {
		_, h.addr, err = h.loop.Listen(h.cfg.Listen)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return explainListen(h.cfg.Listen, err)
		}
	}
}

// explainListen says what to do about an address that cannot be listened on.
func explainListen(addr netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; another program or broker uses %s: stop it, or choose another with --listen", err, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; %s is no address of this host: choose one with --listen", err, addr.Addr())
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; port %d needs a privilege: choose one above 1023 with --listen", err, addr.Port())
	}
	return err
}

// warnMemlock says that blocks are used unregistered. It may come at any time, as the pool grows.
func (h *host) warnMemlock(err error) {
	limit := "unknown"
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) == nil {
		limit = strconv.FormatUint(r.Cur, 10)
	}
	h.report("warn", "blocks are not registered with the ring; raise LimitMEMLOCK (ulimit -l) for less CPU per I/O", "event", "memlock",
		"limit", limit, "needed", h.sizes.pool, "error", err)
}

// spinPinned covers a journal write on a fast disk: with a CPU of its own a shard that waits for one looks for its end, where
// parking would add two wake-ups. A loop that finds nothing soon stops looking, whatever the bound.
const spinPinned = 200 * time.Microsecond

// spin is the longest time that the loop looks for work before it parks; 0 leaves it to the loop.
func (h *host) spin() time.Duration {
	if h.cfg.Pin && !affinity.Unpinned() && runtime.NumCPU() > 1 {
		return spinPinned
	}
	return 0
}

// later remembers how to undo a step of start.
func (h *host) later(undo func() error) { h.undo = append(h.undo, undo) }

// tearDown undoes start in reverse. The loop has ended; disk operations that are still under way end first.
func (h *host) tearDown() error {
	var errs []error
	for i := len(h.undo) - 1; i >= 0; i-- {
		errs = append(errs, h.undo[i]())
	}
	return errors.Join(errs...)
}

func (h *host) openShard() error {
	found, err := disk.Probe(h.cfg.Data, disk.ProbeOptions{AllowBuffered: h.cfg.Buffered})
	if err != nil {
		return err
	}
	if !found.Direct {
		h.log.Warn("buffered I/O: slower, and the page cache is not part of memory.limit", "event", "disk.buffered", "data", h.cfg.Data, "reason", found.Reason)
	}
	dev, err := disk.NewUring(h.ring, h.cfg.Data, disk.UringOptions{Alignment: found.Alignment, Buffered: !found.Direct, Registered: h.pool.RegisteredAt})
	if err != nil {
		return err
	}
	h.later(dev.Close)
	fresh := disk.Manifest{Shards: h.cfg.Shards, JournalFiles: journalFiles, JournalFileBytes: h.sizes.journalFile}
	_, _ = rand.Read(fresh.DirectoryID[:]) // never fails: crypto/rand
	m, _, err := disk.BeginStart(dev, fresh)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", h.cfg.Data, err)
	}
	h.shard = shard.New(h.shardConfig(m), network{h.loop})
	report, err := h.shard.Open(dev, h.pool)
	if err != nil {
		return err
	}
	h.reportRecovery(report)
	return nil
}

func (h *host) shardConfig(m disk.Manifest) shard.Config {
	defaults := frame.DefaultSettings()
	defaults.SegmentBytes = uint32(h.cfg.SegmentBytes)
	limits := shard.DefaultLimits()
	if h.cfg.limits != nil {
		limits = *h.cfg.limits
	}
	limits.MaxRecordBytes = uint32(h.cfg.MaxRecordBytes)
	limits.UploadBytes = int(h.sizes.pool / 4)
	return shard.Config{
		Shards:      h.cfg.Shards,
		DirectoryID: m.DirectoryID,
		Start:       m.Start,
		Endpoints:   []frame.Endpoint{{Host: h.advertised(), Port: h.addr.Port()}},
		Defaults:    defaults,
		Limits:      limits,
		Version:     Version,
		Report:      h.report,
		Disk: disk.Config{
			JournalFiles: m.JournalFiles, JournalFileBytes: m.JournalFileBytes, HotBytes: h.sizes.hot,
		},
	}
}

// advertised is the host that METADATA names; empty stands for the address that the client used.
func (h *host) advertised() string {
	if h.cfg.Advertise != "" || h.addr.Addr().IsUnspecified() {
		return h.cfg.Advertise
	}
	return h.addr.Addr().String()
}

func (h *host) wake() {
	if wake, ok := h.waker.Load().(func()); ok {
		wake()
	}
}

// call runs f on the shard's thread at the end of a turn.
func (h *host) call(ctx context.Context, f func()) error {
	select {
	case h.calls <- f:
		h.wake()
		return nil
	case <-h.ended:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) stats() Stats {
	return Stats{Loop: h.loop.Stats(), Pool: h.pool.Stats(), Shard: h.shard.Stats()}
}
