package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// Result is what a campaign found.
type Result struct {
	Cuts  int // power cuts and kills
	Runs  int
	Acked int // batches acknowledged as durable
	Read  int // batches that consumers were given
	Stops int // clean stops among the lives
	Hash  uint64
	Seed  uint64 // of the run that failed
	Err   error  // the first broken promise
	Holes int    // sequences of producers that a lost segment outside the journal interrupted
}

func (r Result) String() string {
	lost := 0
	if r.Err != nil {
		lost = 1
	}
	return fmt.Sprintf("%d cuts, lost %d, hash %016x (%d runs, %d clean stops, %d batches acknowledged, %d read, %d holes)",
		r.Cuts, lost, r.Hash, r.Runs, r.Stops, r.Acked, r.Read, r.Holes)
}

// cutsPerRun is how often the power fails before a run begins with a fresh directory.
const cutsPerRun = 8

// Campaign runs until n cuts were made or a promise was broken. The same seed gives the same result, hash included. trace,
// if not nil, is told what happens: for a seed that failed.
func Campaign(seed uint64, n int, trace func(format string, args ...any)) Result {
	var all Result
	pages, pool := new(disk.SimPages), block.NewPool(poolBytes)
	for all.Cuts < n {
		r := newRun(seed+uint64(all.Runs), pages, pool)
		r.trace = trace
		err := r.live(min(cutsPerRun, n-all.Cuts))
		all.Runs++
		all.Cuts += r.cuts
		all.Acked += r.stats.acked
		all.Read += r.stats.read
		all.Stops += r.stats.stops
		all.Holes += r.stats.holes
		all.Hash = all.Hash*0x9e3779b97f4a7c15 + r.hash
		if err != nil {
			all.Seed, all.Err = r.seed, fmt.Errorf("seed %d, cut %d: %w", r.seed, r.cuts, err)
			break
		}
	}
	if err := pool.Close(); err != nil && all.Err == nil {
		all.Err = err
	}
	return all
}

// run is one directory through several lives.
type run struct {
	seed  uint64
	rng   *rand.PCG
	w     *World
	dev   *disk.Sim
	pool  *block.Pool
	start uint64
	mono  int64
	wall  int64
	cuts  int
	life  uint64
	hash  uint64
	stats struct{ acked, read, stops, holes int }
	trace func(format string, args ...any)

	model     model
	actors    []*actor
	streams   []*streamModel
	producers map[uint64]bool

	builder batch.Builder
	value   []byte
}

// filler is what records are made of.
var filler = func() (f [32 << 10]byte) {
	for i := range f {
		f[i] = byte(i * 7)
	}
	return f
}()

const (
	actorsOfRun   = 3
	actionsOfLife = 400
	poolBytes     = 8 << 20
)

func newRun(seed uint64, pages *disk.SimPages, pool *block.Pool) *run {
	r := &run{
		seed: seed, pool: pool, rng: rand.NewPCG(seed, 0xc0ffee), mono: 1, wall: Begin,
		producers: make(map[uint64]bool),
	}
	r.model.ids = make(map[uint32]*topicModel)
	r.dev = disk.NewSim(disk.SimOptions{Seed: seed, MaxLatencyNanos: 2e6, Pages: pages})
	return r
}

// say traces what happens.
func (r *run) say(format string, args ...any) {
	if r.trace != nil {
		r.trace(fmt.Sprintf("%d.%d: ", r.seed, r.cuts)+format, args...)
	}
}

func (r *run) below(n int) int {
	return int(r.rng.Uint64() % uint64(n))
}

func (r *run) mix(v uint64) { r.hash = (r.hash ^ v) * 0xff51afd7ed558ccd }

// live goes through lives until the power failed n times.
func (r *run) live(n int) error {
	panicking := true
	defer func() {
		if panicking {
			fmt.Printf("panic in the run of seed %d, after %d cuts\n", r.seed, r.cuts)
			return
		}
		r.dev.Release()
		r.pool.Reclaim()
	}()
	err := r.lives(n)
	panicking = false
	return err
}

func (r *run) lives(n int) error {
	for r.cuts < n {
		if err := r.oneLife(); err != nil {
			return err
		}
		r.mix(r.dev.Hash())
	}
	return nil
}

// oneLife starts the shard, checks what it recovered, works until the power fails or the shard is stopped.
func (r *run) oneLife() error {
	if r.below(4) == 0 { // fails while it recovers
		r.dev.CutAfter(r.dev.Events() + uint64(r.below(40)))
	}
	again := r.below(8) == 0 // recovers twice
	if ok, err := r.open(); !ok || err != nil {
		return err
	}
	if err := r.verify(); r.dev.Off() {
		return r.cut()
	} else if err != nil {
		return err
	}
	if again {
		if err := r.recoverAgain(); err != nil {
			return err
		}
	}
	r.dev.CutAfter(^uint64(0))
	if r.below(8) > 0 { // the others end by a stop, or idle
		r.dev.CutAfter(r.dev.Events() + 1 + uint64(r.below(100)))
	}
	for range actorsOfRun {
		r.actors = append(r.actors, r.newActor())
	}
	for range actionsOfLife {
		if err := r.act(); err != nil {
			return err
		}
		if r.dev.Off() {
			break
		}
	}
	if !r.dev.Off() && r.below(3) > 0 {
		r.dev.CutAfter(^uint64(0))
		if !r.w.Stop() {
			return errors.New("the shard does not stop")
		}
		r.stats.stops++
		for _, a := range r.actors {
			if err := a.hear(); err != nil {
				return err
			}
		}
	}
	return r.cut()
}

// open starts the shard; false: the power failed meanwhile.
func (r *run) open() (bool, error) {
	r.start++
	w, err := Start(r.dev, Options{Start: r.start, Mono: r.mono, Wall: r.wall, Pool: r.pool, Disk: SmallDisk()})
	r.w = w
	if r.dev.Off() {
		return false, r.cut()
	}
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	r.say("start %d: %v", r.start, w.Report)
	return true, nil
}

// cut ends a life: power or process.
func (r *run) cut() error {
	for _, a := range r.actors {
		r.forget(a)
	}
	r.actors = r.actors[:0]
	r.mono, r.wall = r.w.mono+1e6, r.w.wall+1
	r.mix(r.w.Net.hash)
	r.say("power cut")
	r.cuts++
	if r.below(4) == 0 {
		r.dev = r.dev.Kill()
	} else {
		r.dev = r.dev.Crash()
	}
	r.pool.Reclaim()
	return nil
}

// recoverAgain fails right after a recovery: the next one must find the same.
func (r *run) recoverAgain() error {
	r.dev.CutAfter(^uint64(0))
	before := r.hash
	r.hash = 0
	if err := r.verify(); err != nil {
		return err
	}
	first := r.hash
	r.hash = before
	if err := r.cut(); err != nil {
		return err
	}
	if ok, err := r.open(); !ok || err != nil {
		return err
	}
	before, r.hash = r.hash, 0
	if err := r.verify(); err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	if r.hash != first {
		return errors.New("a second recovery found something else than the first")
	}
	r.hash = before
	return nil
}

func (r *run) newActor() *actor {
	a := &actor{Client: r.w.Connect(), r: r}
	a.Chop = func(n int) int { // one frame in four arrives in pieces
		if r.below(4) > 0 {
			return 0
		}
		return r.below(n)
	}
	return a
}
