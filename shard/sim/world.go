package sim

import (
	"fmt"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/shard"
)

// World is one life of a shard, from a start to a stop or a crash, and the time it lives in.
type World struct {
	Shard  *shard.Shard
	Dev    *disk.Sim
	Pool   *block.Pool
	Net    *Network
	Report *disk.Report
	Events []string // what the shard reported, level and event

	mono, wall int64
	lent       []byte   // received bytes of this turn
	takenBack  [][]byte // more of them
}

// Options of a world. The zero value is a small shard on a perfect disk.
type Options struct {
	Start  uint64 // number of the start; 1 when 0
	Mono   int64  // where virtual time begins, nanoseconds
	Wall   int64  // Unix ms
	Memory int    // bytes of the pool; 8 MiB when 0
	Pool   *block.Pool
	Dir    [16]byte // DirectoryID when zero
	Limits shard.Limits
	Disk   disk.Config
}

// DirectoryID of every simulated directory.
var DirectoryID = [16]byte{'s', 'i', 'm'}

// Begin is a wall clock to start from: it fits no offset and no count.
const Begin = 1_700_000_000_000

// SmallDisk is a store whose rings, segments and thresholds are met within a few batches.
func SmallDisk() disk.Config {
	return disk.Config{
		JournalFiles: 8, JournalFileBytes: 64 << 10,
		DirectBytes: 8 << 10, GroupBytes: 64 << 10, StagedBytes: 128 << 10,
		HotBytes: 64 << 10, IndexBytes: 4 << 10,
	}
}

// Start opens a shard on dev and recovers what is there.
func Start(dev *disk.Sim, o Options) (*World, error) {
	w := &World{Dev: dev, Net: newNetwork(), mono: max(o.Mono, 1), wall: o.Wall}
	if w.wall == 0 {
		w.wall = Begin
	}
	if o.Pool == nil {
		memory := o.Memory
		if memory == 0 {
			memory = 8 << 20
		}
		o.Pool = block.NewPool(memory)
	}
	if o.Dir == [16]byte{} {
		o.Dir = DirectoryID
	}
	w.Pool = o.Pool
	cfg := shard.Config{
		DirectoryID: o.Dir,
		Start:       max(o.Start, 1),
		Endpoints:   []frame.Endpoint{{Host: "sim", Port: 1}},
		Limits:      o.Limits,
		Disk:        o.Disk,
		Report: func(level, event string, args ...any) {
			w.Events = append(w.Events, fmt.Sprint(append([]any{level, event}, args...)...))
		},
	}
	if cfg.Limits.OutputHigh == 0 {
		cfg.Limits.OutputHigh, cfg.Limits.OutputPause = highWater, 4*highWater
	}
	w.Shard = shard.New(cfg, w.Net)
	w.Shard.StartTurn(w.mono, w.wall)
	var err error
	w.Report, err = w.Shard.Open(dev, o.Pool)
	return w, err
}

// Now is the virtual time, monotonic nanoseconds; Wall Unix ms.
func (w *World) Now() int64  { return w.mono }
func (w *World) Wall() int64 { return w.wall }

// Advance lets time pass; what is due happens in the next turn.
func (w *World) Advance(nanos int64) {
	w.mono += nanos
	w.wall += nanos / 1e6
}

// Turn is one turn of the loop: at most completions ops of the disk end, connections are looked after, and what was staged
// is submitted. It returns what EndTurn asked for.
func (w *World) Turn(completions int) int64 {
	w.Advance(turnNanos)
	w.Shard.StartTurn(w.mono, w.wall)
	for ; completions > 0 && w.Dev.Step(w.mono); completions-- {
	}
	for i := 0; i < len(w.Net.order); i++ {
		l := w.Net.order[i]
		if l.drained {
			l.drained = false
			w.Shard.Drained(l.id)
		}
		if l.closing && (l.aborted || l.queued() == 0) {
			w.Net.drop(l)
			w.Shard.Closed(l.id, nil)
			i--
		}
	}
	defer w.takeBack()
	return w.Shard.EndTurn(w.mono, w.wall)
}

// lend copies p to where received bytes lie until the end of the turn.
func (w *World) lend(p []byte) []byte {
	at := len(w.lent)
	if cap(w.lent)-at < len(p) {
		w.takenBack = append(w.takenBack, w.lent)
		w.lent, at = make([]byte, 0, max(64<<10, 2*len(p))), 0
	}
	w.lent = append(w.lent, p...)
	return w.lent[at:len(w.lent):len(w.lent)]
}

// takeBack overwrites what was lent, so that whoever looks at it later is found out.
func (w *World) takeBack() {
	for _, b := range append(w.takenBack, w.lent) {
		for i := range b {
			b[i] = 0xdb
		}
	}
	clear(w.takenBack)
	w.takenBack, w.lent = w.takenBack[:0], w.lent[:0]
}

// turnNanos is what a turn takes, 100 µs.
const turnNanos = 100_000

// Settle turns until the disk has nothing to do, at most 10,000 times.
func (w *World) Settle() {
	for range 10_000 {
		w.Turn(1 << 20)
		if w.Dev.Off() || w.Dev.InFlight() == 0 {
			w.Turn(1 << 20)
			if w.Dev.Off() || w.Dev.InFlight() == 0 {
				return
			}
		}
	}
	panic("sim: the shard does not come to rest")
}

// Stop stops the shard cleanly and says whether that worked.
func (w *World) Stop() bool {
	w.Shard.Stop()
	for range 10_000 {
		if w.Shard.Stopped() {
			return true
		}
		for _, l := range w.Net.order {
			l.take(l.queued())
		}
		w.Turn(1 << 20)
		if w.Dev.Off() {
			return false
		}
	}
	return false
}

// NewPool is the memory of a shard.
func NewPool(bytes int) *block.Pool { return block.NewPool(bytes) }
