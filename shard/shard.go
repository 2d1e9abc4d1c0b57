package shard

import (
	"fmt"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// Shard owns connections and partitions outright; everything below it is plain data of one thread.
type Shard struct {
	cfg    Config
	limits *Limits
	net    Network
	report func(level, event string, args ...any)
	store  *disk.Store
	pool   *block.Pool
	mono   int64 // nanoseconds, of this turn
	wall   int64 // Unix ms, of this turn

	conns  map[uint64]*conn
	first  *conn   // of all
	idle   []*conn // closed ones, for the next
	dirty  []*conn // have something to stream; served at the end of the turn
	timers timers

	topics     topicTable
	meta       metaState
	partitions []*partition            // by disk.LogOptions.Owner; nil where one is gone
	vacant     []int32                 // free places of partitions
	dropping   map[disk.Key]*partition // of deleted topics, until Gone
	retention  sweep

	publishing  publishing
	fetches     []*fetch        // free
	subscribers []*subscription // free
	lists       []*listing      // free
	uploads     []*upload       // free
	borrowers   []*upload       // that may hold bytes of this turn in the loop's buffers
	uploadBytes int             // held in blocks of unfinished frames
	slots       [][]byte        // reserve of small slots, for when the pool is empty
	scratch     scratch

	state  stage
	failed error // the journal failed, or metadata is damaged
	stall  bool  // a journal flush does not end
	stats  Stats
}

// stage of a shard's life.
type stage uint8

const (
	opening stage = iota
	serving
	draining // Stop was called, staged work is on its way
	closing  // the store writes its last
	stopped
)

// scratch is memory that one call uses and the next one overwrites; it keeps what would escape off the heap.
type scratch struct {
	out     []byte // a frame being built
	header  [batch.HeaderBytes]byte
	batch   batch.Header
	chunks  [][]byte
	single  [1][]byte // the body of a batch that lies whole in the received bytes
	one     [1][]byte
	fetch   frame.Fetch
	offsets frame.ListOffsets
	credit  frame.Credit
	note    []byte
	walk    walk
}

// New makes a shard that sends through net. Nothing is read or written before Open.
func New(cfg Config, net Network) *Shard {
	s := &Shard{cfg: cfg.withDefaults(), net: net, conns: make(map[uint64]*conn), dropping: make(map[disk.Key]*partition)}
	s.limits, s.report = &s.cfg.Limits, s.cfg.Report
	s.topics.init()
	s.scratch.out = make([]byte, 0, 64<<10)
	return s
}

// Open recovers the store and makes the shard ready to serve. It blocks while dev works; before it, no connection may be
// announced.
//
// Errors: what made the recovery impossible. Damage is no error: what it touched is fenced and the report names it.
func (s *Shard) Open(dev disk.Device, pool *block.Pool) (*disk.Report, error) {
	s.pool = pool
	store, report, err := disk.Open(s.cfg.Disk, dev, pool, s, s.logOptions)
	if err != nil {
		return report, err
	}
	s.store = store
	if s.meta.log = store.Log(disk.Meta); s.meta.log == nil {
		s.meta.log = store.NewLog(disk.Meta, s.logOptions(disk.Meta))
	}
	s.meta.begin()
	for _, t := range s.topics.sorted {
		for i := range t.partitions {
			s.openPartition(&t.partitions[i])
		}
	}
	if err := s.resume(dev); err != nil {
		return report, err
	}
	s.countGraves()
	s.state = serving
	return report, nil
}

// StartTurn tells the time of the turn that begins: monotonic nanoseconds and Unix milliseconds.
func (s *Shard) StartTurn(mono, unixMillis int64) {
	s.mono = max(s.mono, mono)
	s.wall = unixMillis
}

// EndTurn closes a turn: due timers, streams, a step of retention, and what was staged goes to the journal. It returns
// when it wants to run again at the latest, monotonic nanoseconds; 0: no such time.
func (s *Shard) EndTurn(mono, unixMillis int64) (wakeAt int64) {
	s.StartTurn(mono, unixMillis)
	s.keepLent()
	s.timers.run(s.mono, timersPerTurn)
	s.meta.send(s)
	if s.state == serving {
		s.retention.step(s)
	}
	s.pumpDirty()
	s.stopStep()
	if s.state != stopped {
		wakeAt = s.store.EndTurn(s.mono)
	}
	wakeAt = sooner(wakeAt, s.timers.next())
	if s.state == serving {
		wakeAt = sooner(wakeAt, s.retention.wakeAt(s))
	}
	return wakeAt
}

const timersPerTurn = 256

// sooner is the earlier of two times of which 0 means never.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Stop begins a clean stop: waiting requests are answered, new ones refused, what is staged becomes durable, then the store
// is closed. Turns must go on until Stopped.
func (s *Shard) Stop() {
	if s.state == serving {
		s.state = draining
		s.report("info", "stopping")
		s.endWaits()
		s.syncAll()
	}
}

// Stopped says that nothing is in flight and all is on stable media, as far as the disk allowed.
func (s *Shard) Stopped() bool { return s.state == stopped }

// stopStep closes the store once nothing waits for a flush.
func (s *Shard) stopStep() {
	if s.state != draining || (!s.quiet() && s.failed == nil) {
		return
	}
	s.state = closing
	s.closeAll()
	s.lowerCeilings()
	s.store.Close(func(err error) {
		if err != nil {
			s.report("error", "store did not close cleanly", "error", err)
		}
		s.state = stopped
	})
}

// quiet says that no reply waits for the disk. What is staged outside the journal is written when the store closes.
func (s *Shard) quiet() bool {
	if s.meta.pending.len() > 0 {
		return false
	}
	for _, p := range s.partitions {
		if p != nil && p.writable() && (p.waits.len() > 0 || p.atEnd.len() > 0 || p.journaled() && p.overlay.len() > 0) {
			return false
		}
	}
	return true
}

// syncAll starts the flush of logs that have their own time for it.
func (s *Shard) syncAll() {
	for _, p := range s.partitions {
		if p != nil && p.writable() && !p.journaled() && p.overlay.len() > 0 {
			p.log.SyncNow()
		}
	}
}

// broken ends the process: an invariant does not hold, and only recovery may speak now.
func broken(format string, args ...any) {
	panic("shard: " + fmt.Sprintf(format, args...))
}
