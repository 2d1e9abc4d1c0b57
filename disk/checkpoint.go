package disk

import (
	"errors"

	"github.com/slipringmq/slipring/fault"
)

// checkpoint gives generations of the journal back, oldest first. For one generation: every log with entries in it places
// its tail, the snapshots of those logs go to the state log, and once they are durable the journal's dead mark rises.
// Only a flushed group with that mark lets the file be overwritten (RULES 3, 5, 8).
//
// It runs in steps from EndTurn, never waits, and keeps few writes in flight. Tails are always padded and placed, never
// copied forward; entries of fenced logs that cannot be placed go to a file of their own (RULES 9).
type checkpoint struct {
	s          *Store
	phase      checkpointPhase
	generation uint64 // in hand
	todo       []*Log // logs with entries in it
	next       int    // of todo, to be placed
	placing    int    // places in flight
	rescue     rescue
	all        bool   // todo is every log: the state log is written anew
	position   uint64 // of the state stream that must be durable
	failing    error  // this attempt is to be given up
	err        error  // of the last attempt; a later one follows
	retryAt    int64
	now        int64
	finished   uint64
}

type checkpointPhase uint8

const (
	checkpointIdle     checkpointPhase = iota
	checkpointOpening                  // a state file aside is being made
	checkpointPlacing                  // tails are placed, snapshots taken
	checkpointRescuing                 // entries of fenced logs are written elsewhere
	checkpointWriting                  // snapshots on their way to the state log
	checkpointRenaming                 // the state file written aside takes its name
)

const (
	// placesMin to placesMax tails are placed at a time, more the fuller the ring is.
	placesMin, placesMax = 4, 64
	// snapshotAhead bounds the snapshots in memory, bytes.
	snapshotAhead = 1 << 20
	// liveBlocks is how much of the journal may be live before the checkpoint gives its oldest generation back, however
	// large the ring is: 192 MiB. A start reads it twice.
	liveBlocks = 192 << 20 / blockBytes
	// checkpointRetryNanos is how long an attempt that failed (a full disk) rests.
	checkpointRetryNanos = 1e9
	// stateSlack is how much a state log may grow over twice what is live before it is written anew, bytes.
	stateSlack = 256 << 10
)

// step does what can be done now; force: finish everything that is not in the current generation.
func (c *checkpoint) step(nowNanos int64, force bool) {
	c.now = nowNanos
	if c.s.journal.failed != nil {
		return
	}
	for {
		before := c.phase
		switch c.phase {
		case checkpointIdle:
			c.begin(force)
		case checkpointPlacing:
			c.place(force)
		case checkpointRescuing:
			c.rescueFenced()
		case checkpointWriting:
			c.write()
		}
		if c.phase == before {
			return
		}
	}
}

// begin chooses what is next: the state log when it must be written anew, else the oldest generation that is complete.
func (c *checkpoint) begin(force bool) {
	j, st := c.s.journal, c.s.state
	if c.now < c.retryAt && !force || st.busy {
		return
	}
	if st.err != nil || st.end > 2*st.live+stateSlack {
		c.beginRewrite()
		return
	}
	g := j.now.Dead + 1
	current := j.at / j.perFile
	if g >= current || j.flying != nil && j.flying.generation <= g || !force && !c.due() {
		return
	}
	c.start(g, false)
}

// due paces: nothing is done while the ring is less than half full, so that a tail is padded once for many appends, nor
// while a start could read what is live in a fraction of a second.
func (c *checkpoint) due() bool { return c.live() >= c.most() }

// behind says that giving back takes longer than filling.
func (c *checkpoint) behind() bool { return c.live() >= c.most()+c.most()/4 }

// live is how much of the ring only a checkpoint can give back, blocks; what is declared dead needs no more than its mark.
func (c *checkpoint) live() uint64 {
	j := c.s.journal
	return j.at - (j.now.Dead+1)*j.perFile + j.stagedBlocks()
}

func (c *checkpoint) most() uint64 { return min(c.s.journal.ringBlocks()/2, liveBlocks) }

// start collects the logs concerned.
func (c *checkpoint) start(generation uint64, all bool) {
	c.generation, c.all, c.next = generation, all, 0
	c.rescue.reset()
	clear(c.todo)
	c.todo = c.todo[:0]
	for _, l := range c.s.order {
		if all || l.member.firstGen != 0 && l.member.firstGen <= generation {
			c.todo = append(c.todo, l)
		}
	}
	c.phase = checkpointPlacing
}

// beginRewrite opens a state file aside; all logs go to it, and what was in hand with them.
func (c *checkpoint) beginRewrite() {
	c.phase = checkpointOpening
	c.s.state.beginRewrite(func() {
		c.s.recordResumes()
		c.start(0, true)
	}, c.rewritten)
}

func (c *checkpoint) rewritten(err error) {
	c.phase = checkpointIdle
	if err != nil {
		c.fail(err)
		return
	}
	c.settle()
}

// abort gives this attempt up, and the file aside with it. Nothing is in flight.
func (c *checkpoint) abort(err error) {
	if st := c.s.state; st.rewrite.on {
		c.phase = checkpointRenaming
		st.endRewrite(err)
		return
	}
	c.fail(err)
}

func (c *checkpoint) fail(err error) {
	c.err, c.retryAt = err, c.now+checkpointRetryNanos
	c.phase, c.failing = checkpointIdle, nil
	for _, l := range c.todo {
		l.member.checking, l.member.recordedGone = false, false
	}
}

func (c *checkpoint) width() int {
	j := c.s.journal
	free := j.ringBlocks() - min(j.used(), j.ringBlocks())
	if free*4 < j.ringBlocks() {
		return placesMax
	}
	return placesMin + int((j.ringBlocks()-free)*8/j.ringBlocks())
}

// place keeps some logs in flight; when the last is done the snapshots are complete.
func (c *checkpoint) place(force bool) {
	st := c.s.state
	st.step(false)
	if fault.On(fault.Rule25ChunkPerPartition) && st.busy {
		return
	}
	width := c.width()
	if force {
		width = placesMax
	}
	for c.next < len(c.todo) && c.placing < width && st.pending() < snapshotAhead && st.err == nil {
		l := c.todo[c.next]
		c.next++
		c.placeOne(l)
		if fault.On(fault.Rule25ChunkPerPartition) {
			st.step(true)
			return
		}
	}
	switch {
	case c.placing > 0 || st.busy && c.next < len(c.todo):
	case (st.err != nil || c.failing != nil) && !st.busy:
		c.abort(errors.Join(st.err, c.failing))
	case c.next == len(c.todo):
		c.phase = checkpointRescuing
		c.rescue.begin()
	}
}

func (c *checkpoint) placeOne(l *Log) {
	b := &l.member
	if (l.stuck || fault.On(fault.Rule08CopyForward)) && !b.dropped {
		b.placed = max(b.placed, l.placedIndex())
		c.rescueOne(l)
		c.snapshot(l)
		return
	}
	b.beginCheck(c.s.journal.flushed)
	if b.dropped {
		c.snapshot(l)
		return
	}
	if b.placeDone == nil {
		b.placeDone = func(err error) { c.placed(l, err) }
	}
	c.placing++
	l.place(b.placeDone)
}

// placed: all that was durable when place was called lies in the segments. Entries that became durable meanwhile are in
// the snapshot but count as not placed: replay gives their bytes back to the tail, and skips the machine.
func (c *checkpoint) placed(l *Log, err error) {
	c.placing--
	switch b := &l.member; {
	case err == nil:
		b.placed = max(b.placed, b.placing)
		if l.fenced != nil { // behind a gap there may be more
			c.rescueOne(l)
		}
	case b.dropped:
	case l.stuck:
		b.placed = max(b.placed, l.placedIndex())
		c.rescueOne(l)
	default:
		c.failing = err
	}
	c.snapshot(l)
}

// rescueOne: what the journal has of l and its segments have not is written elsewhere.
func (c *checkpoint) rescueOne(l *Log) {
	l.member.checking = false
	if l.member.firstGen != 0 {
		c.rescue.add(l)
	}
}

// snapshot appends l's record to the state log.
func (c *checkpoint) snapshot(l *Log) {
	b := &l.member
	if b.orphan {
		c.s.state.raw(b.unknown)
		return
	}
	r := &c.s.record
	*r = stateRecord{Kind: recordSnapshot, Key: l.key, Group: c.s.journal.flushed, Epoch: b.epoch, Placed: b.placed, Index: b.durable}
	r.Cause, r.From, r.To = b.causeFields()
	if b.dropped {
		r.Kind = recordGone
		c.s.state.record(r, nil)
		b.recordedGone = true
		return
	}
	c.s.recordLog = l
	c.s.state.record(r, c.s.fillRecord)
	c.s.recordLog = nil
}

// rescueFenced waits for the entries of fenced logs to be durable elsewhere.
func (c *checkpoint) rescueFenced() {
	c.s.state.step(false)
	switch {
	case c.s.state.busy || !c.rescue.ready:
	case c.rescue.err != nil:
		c.abort(c.rescue.err)
	default:
		c.position = c.s.state.position()
		c.phase = checkpointWriting
	}
}

// write waits for the snapshots to be durable.
func (c *checkpoint) write() {
	st := c.s.state
	st.step(true)
	switch {
	case st.busy:
	case st.err != nil:
		c.abort(st.err)
	case st.written < c.position:
	case st.rewrite.on:
		c.phase = checkpointRenaming
		st.finishRewrite()
	default:
		c.phase = checkpointIdle
		c.settle()
	}
}

// settle takes over what the durable snapshots cover and lets the mark rise as far as no log holds it back.
func (c *checkpoint) settle() {
	c.err = nil
	for _, l := range c.todo {
		if l.member.checking {
			l.member.endCheck()
		}
	}
	c.rescue.settle(c.generation)
	j := c.s.journal
	dead := j.at/j.perFile - 1
	if j.flying != nil {
		dead = min(dead, j.flying.generation-1)
	}
	for _, l := range c.s.order {
		if g := l.member.firstGen; g != 0 {
			dead = min(dead, g-1)
		}
	}
	if dead > j.now.Dead {
		j.now.Dead = dead
		c.finished++
	}
	j.now.State = c.s.state.durable
	c.s.mayBeGone = true
	clear(c.todo)
	c.todo = c.todo[:0]
}

// startAll begins a checkpoint of everything that is durable, whatever the generation: the last one, at a stop. Nothing
// is staged or in flight. Fenced logs leave their entries where they are.
func (c *checkpoint) startAll() {
	c.start(^uint64(0), false)
	for _, l := range c.s.order {
		if l.member.firstGen == 0 && (!l.opt.Journaled || !l.placed()) {
			c.todo = append(c.todo, l)
		}
	}
	c.generation = 0
}
