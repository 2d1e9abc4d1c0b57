package slipring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/slipringmq/slipring/affinity"
	"github.com/slipringmq/slipring/loop"
	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/shard"
)

// Broker is a running broker.
type Broker struct {
	addr   netip.AddrPort
	host   *host
	events *events
	stop   sync.Once
	done   chan struct{} // closed when the shard's thread has ended
	err    error         // why it ended by itself; written before done closes
}

// Open recovers the data directory and returns when the broker serves. A nil log discards.
//
// Errors: one line that says what is missing, where, and what to do; nothing is left running then.
func Open(cfg Config, log *slog.Logger) (*Broker, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Shards != 1 {
		return nil, fmt.Errorf("shards: %d; this version runs 1", cfg.Shards)
	}
	sizes, err := divideMemory(cfg)
	if err != nil {
		return nil, err
	}
	plan, err := affinity.MakePlan(cfg.Shards)
	if err != nil {
		return nil, err
	}
	if cfg.OwnProcess {
		if err := ownProcess(plan, sizes, cfg.Pin); err != nil {
			return nil, err
		}
	}
	b := &Broker{events: newEvents(log), done: make(chan struct{})}
	b.host = &host{cfg: cfg, sizes: sizes, plan: plan, log: log, report: b.events.report, calls: make(chan func(), 16), ended: b.done}
	started := make(chan error, 1)
	go func() {
		b.err = b.host.run(started)
		b.events.close()
		close(b.done)
	}()
	if err := <-started; err != nil {
		<-b.done
		return nil, err
	}
	b.addr = b.host.addr
	log.Info("started", "event", "start", "version", Version, "data", cfg.Data, "memory_limit", sizes.limit,
		"journal", journalFiles*int64(sizes.journalFile), "engine", "io_uring", "shards", cfg.Shards, "address", b.addr.String())
	return b, nil
}

// Addr is where clients connect.
func (b *Broker) Addr() netip.AddrPort { return b.addr }

// Done is closed when the broker has ended, by Close or by itself; Err then says why.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err is nil while the broker runs and after a clean Close.
func (b *Broker) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// Close stops cleanly: new work is refused, staged work becomes durable and is answered, tails and snapshots are written.
// When ctx ends first the broker stops where it is; what was acknowledged is durable all the same.
func (b *Broker) Close(ctx context.Context) error {
	b.stop.Do(func() {
		b.host.stopping.Store(true)
		b.host.wake()
	})
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		b.host.giveUp.Store(true)
		b.host.wake()
		return fmt.Errorf("stop took too long, the next start recovers: %w", ctx.Err())
	}
}

// Stats are counters of a shard, copied on its thread.
type Stats struct {
	Loop  loop.Stats
	Pool  block.Stats
	Shard shard.Stats
}

// Stats asks the shard for a copy of its counters.
func (b *Broker) Stats(ctx context.Context) (Stats, error) {
	answer := make(chan Stats, 1)
	if err := b.host.call(ctx, func() { answer <- b.host.stats() }); err != nil {
		return Stats{}, err
	}
	select {
	case s := <-answer:
		return s, nil
	case <-b.done:
		return Stats{}, errStopped
	case <-ctx.Done():
		return Stats{}, ctx.Err()
	}
}

var errStopped = errors.New("slipring: the broker has stopped")
