package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

const (
	testNote  = KindShard + 1
	testEpoch = 1
)

// testMachine is a shard that remembers the text of every entry. Its state is the list of them.
type testMachine struct {
	parts   map[Key]*testPart
	exist   map[Key]Existence // Live when absent
	damages []Damage
	failed  []error
	stalls  []bool
	gone    []Key
	fenced  []Key
	order   []Key // of Restore and Replay
}

type testPart struct {
	applied uint64
	entries []string // entry i has index i+1
	staged  []string // behind applied
}

func newTestMachine() *testMachine {
	return &testMachine{parts: make(map[Key]*testPart), exist: make(map[Key]Existence)}
}

func (m *testMachine) part(k Key) *testPart {
	if m.parts[k] == nil {
		m.parts[k] = new(testPart)
	}
	return m.parts[k]
}

func (m *testMachine) Known(k Key) Existence {
	if e, ok := m.exist[k]; ok {
		return e
	}
	return Live
}

func (m *testMachine) Restore(l *Log, state []byte) error {
	m.order = append(m.order, l.Key())
	p := m.part(l.Key())
	if len(p.entries) > 0 {
		return errors.New("restored twice")
	}
	for len(state) > 0 {
		n := int(binary.LittleEndian.Uint32(state))
		p.entries = append(p.entries, string(state[4:4+n]))
		state = state[4+n:]
	}
	p.applied = uint64(len(p.entries))
	return nil
}

func (m *testMachine) Replay(l *Log, e *Entry) error {
	m.order = append(m.order, l.Key())
	p := m.part(l.Key())
	if e.Index != p.applied+1 {
		return fmt.Errorf("replay of index %d behind %d", e.Index, p.applied)
	}
	p.applied = e.Index
	p.entries = append(p.entries, entryText(e))
	return nil
}

// entryText is what the machine remembers of an entry.
func entryText(e *Entry) string {
	switch e.Kind {
	case KindAppend, KindReference:
		return fmt.Sprintf("batch %d+%d crc %08x", e.Header.BaseOffset, e.Header.Count, e.Header.BodyCRC)
	case KindTrim:
		return fmt.Sprintf("trim %d", e.Trim)
	case KindDrop:
		return "drop"
	}
	return string(e.Payload)
}

func (m *testMachine) Damaged(l *Log, d Damage) { m.damages = append(m.damages, d) }
func (m *testMachine) Fenced(l *Log, err error) { m.fenced = append(m.fenced, l.Key()) }
func (m *testMachine) Failed(err error)         { m.failed = append(m.failed, err) }
func (m *testMachine) Stalled(on bool)          { m.stalls = append(m.stalls, on) }
func (m *testMachine) Gone(k Key)               { m.gone = append(m.gone, k) }
func (m *testMachine) Durable(l *Log, index uint64) {
	p := m.part(l.Key())
	for p.applied < index && len(p.staged) > 0 {
		p.entries = append(p.entries, p.staged[0])
		p.staged = p.staged[1:]
		p.applied++
	}
}

func (m *testMachine) Snapshot(l *Log, dst []byte) (uint64, []byte) {
	p := m.part(l.Key())
	for _, e := range p.entries {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e)))
		dst = append(dst, e...)
	}
	return p.applied, dst
}

// harness is a store on a simulated disk, with its machine.
type harness struct {
	t      testing.TB
	cfg    Config
	dev    *Sim
	pool   *block.Pool
	m      *testMachine
	s      *Store
	report *Report
	now    int64
	next   map[Key]batch.Offset // log ends as staged

	logOptions func(Key) LogOptions // nil: options
}

func smallConfig() Config {
	return Config{
		JournalFiles: 4, JournalFileBytes: 64 << 10, GroupBytes: 32 << 10, StagedBytes: 128 << 10,
		DirectBytes: 16 << 10, HotBytes: 1 << 20, IndexBytes: 4 << 10,
	}
}

func newHarness(t testing.TB, seed uint64, cfg Config) *harness {
	h := &harness{t: t, cfg: cfg, dev: NewSim(SimOptions{Seed: seed}), pool: block.NewPool(32 << 20)}
	h.open()
	return h
}

func (h *harness) options(k Key) LogOptions {
	if h.logOptions != nil {
		return h.logOptions(k)
	}
	return LogOptions{Journaled: true, SegmentBytes: 1 << 20, Tag: batch.PartitionTag(h.cfg.DirectoryID, k.Topic, k.Partition)}
}

func (h *harness) tryOpen() error {
	h.cfg.Start++
	exist := map[Key]Existence{}
	if h.m != nil {
		exist = h.m.exist
	}
	h.m = newTestMachine()
	h.m.exist = exist
	h.next = make(map[Key]batch.Offset)
	h.now += 1e9
	var err error
	h.s, h.report, err = Open(h.cfg, h.dev, h.pool, h.m, h.options)
	return err
}

func (h *harness) open() {
	h.t.Helper()
	if err := h.tryOpen(); err != nil {
		h.t.Fatalf("open: %v", err)
	}
	for h.dev.InFlight() > 0 { // tails that replay filled are still being written
		if err := h.dev.Wait(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// crash cuts the power and opens again; the old process is gone and its memory with it.
func (h *harness) crash() {
	h.t.Helper()
	h.cut()
	h.open()
}

func (h *harness) cut() {
	h.dev = h.dev.Crash()
	h.pool.Reclaim()
}

func (h *harness) log(k Key) *Log { return h.s.NewLog(k, h.options(k)) }

// note stages one entry.
func (h *harness) note(k Key, text string) {
	h.t.Helper()
	if err := h.tryNote(k, text); err != nil {
		h.t.Fatalf("note %s %.20q: %v", k, text, err)
	}
}

func (h *harness) tryNote(k Key, text string) error {
	if _, err := h.log(k).Note(testNote, testEpoch, []byte(text)); err != nil {
		return err
	}
	p := h.m.part(k)
	p.staged = append(p.staged, text)
	return nil
}

// produce stages a batch of one record with a body of n bytes that only this offset has.
func (h *harness) produce(k Key, n int) error {
	l := h.log(k)
	base := max(h.next[k], l.LogEnd())
	b := testBatch(h.cfg.DirectoryID, k, uint64(base), h.cfg.Start, n)
	head, err := batch.ParseHeader(b)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := l.Append(h.cfg.Start, &head, [][]byte{b}); err != nil {
		return err
	}
	h.next[k] = batch.Offset(head.NextOffset())
	p := h.m.part(k)
	p.staged = append(p.staged, entryText(&Entry{Kind: KindAppend, Header: head}))
	return nil
}

// testBatch is a stamped batch whose body holds n bytes derived from its offset.
func testBatch(dir [16]byte, k Key, base, epoch uint64, n int) []byte {
	var bd batch.Builder
	bd.Reset(1)
	value := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, base*31+uint64(k.Partition)), n/8+1)[:n]
	bd.Add(nil, false, value, nil, 1)
	b := bd.Finish(nil, batch.Options{})
	batch.Stamp(b, base, epoch, 1000+int64(base), batch.PartitionTag(dir, k.Topic, k.Partition))
	return b
}

// turn runs one turn: completions that are due, then EndTurn.
func (h *harness) turn() {
	h.now += 100_000
	for h.dev.Step(h.now) {
	}
	h.s.EndTurn(h.now)
}

// settle turns until nothing is in flight or staged and the marks of the last group are written.
func (h *harness) settle() {
	h.t.Helper()
	for range 10_000 {
		h.turn()
		h.now += 1e6
		j := h.s.journal
		if j.failed != nil && h.dev.InFlight() == 0 {
			return
		}
		if h.dev.InFlight() == 0 && j.image.entries == 0 && len(j.queue) == 0 && !h.s.unmarked && h.s.checkpoint.phase == checkpointIdle {
			return
		}
	}
	h.t.Fatalf("does not settle: %d in flight, checkpoint phase %d, at %d of %d, image %d queue %d, unmarked %v, made %d durable %d dead %d %d maker %v %v", h.dev.InFlight(), h.s.checkpoint.phase, h.s.journal.at, h.s.journal.limit(), h.s.journal.image.entries, len(h.s.journal.queue), h.s.unmarked, h.s.journal.now.Made, h.s.journal.durable.Made, h.s.journal.now.Dead, h.s.journal.durable.Dead, h.s.journal.maker.busy, h.s.journal.maker.err)
}

// close ends the store cleanly.
func (h *harness) close() {
	h.t.Helper()
	done := false
	h.s.Close(func(err error) {
		if err != nil {
			h.t.Errorf("close: %v", err)
		}
		done = true
	})
	for range 10_000 {
		h.turn()
		h.now += 1e6
		if done {
			if n := h.dev.InFlight(); n != 0 {
				h.t.Fatalf("close left %d ops in flight", n)
			}
			return
		}
	}
	h.t.Fatalf("close does not end: in flight %d phase %d, checkpoint %d", h.dev.InFlight(), h.s.closing.phase, h.s.checkpoint.phase)
}

// state is what the machine holds, for comparing.
func (h *harness) state() map[Key][]string {
	out := make(map[Key][]string)
	for k, p := range h.m.parts {
		if len(p.entries) > 0 {
			out[k] = slices.Clone(p.entries)
		}
	}
	return out
}

func sameState(a, b map[Key][]string) bool { return maps.EqualFunc(a, b, slices.Equal) }

func (h *harness) mustBeClean() {
	h.t.Helper()
	if h.report.Damaged() {
		h.t.Fatalf("damage reported:\n%s", h.report)
	}
}

func TestStoreRecoversWhatWasFlushed(t *testing.T) {
	h := newHarness(t, 1, smallConfig())
	if !h.report.Fresh {
		t.Fatal("a new directory is not fresh")
	}
	for i := range 20 {
		h.note(Key{1, uint32(i % 3)}, fmt.Sprintf("entry %d", i))
		h.note(Meta, fmt.Sprintf("meta %d", i))
		if i%4 == 0 {
			h.turn()
		}
	}
	h.settle()
	want := h.state()
	if len(want) != 4 || len(want[Meta]) != 20 {
		t.Fatalf("not everything became durable: %v", want)
	}
	h.crash()
	h.mustBeClean()
	if got := h.state(); !sameState(got, want) {
		t.Fatalf("recovered %v, want %v", got, want)
	}
	if h.report.Fresh || h.report.Clean || h.report.Entries != 40 {
		t.Errorf("report: %s", h.report)
	}
	if i := slices.IndexFunc(h.m.order, func(k Key) bool { return k != Meta }); i != 20 {
		t.Errorf("meta was not recovered first: %v", h.m.order)
	}
}

// Ten times the ring passes through; what is recovered is snapshots and the live rest.
func TestJournalGivesFilesBack(t *testing.T) {
	h := newHarness(t, 2, smallConfig())
	text := string(bytes.Repeat([]byte("x"), 1000))
	for i := 0; h.s.journal.at < 40*h.s.journal.perFile; i++ {
		k := Key{1 + uint32(i%2), uint32(i % 3)}
		if err := h.tryNote(k, fmt.Sprint(i, text)); err != nil {
			h.settle()
			continue
		}
		if i%8 == 0 {
			h.turn()
		}
	}
	h.settle()
	want := h.state()
	h.crash()
	h.mustBeClean()
	if got := h.state(); !sameState(got, want) {
		t.Fatal("state differs after many generations")
	}
	if h.report.Snapshots != 7 { // meta's too
		t.Errorf("restored %d snapshots, want 7", h.report.Snapshots)
	}
}

func TestCloseIsClean(t *testing.T) {
	h := newHarness(t, 3, smallConfig())
	for i := range 10 {
		h.note(Key{1, 0}, fmt.Sprint(i))
		if err := h.produce(Key{1, 1}, 700); err != nil {
			t.Fatal(err)
		}
		h.turn()
	}
	h.close()
	want := h.state()
	if len(want[Key{1, 1}]) != 10 {
		t.Fatalf("close left entries behind: %v", want)
	}
	h.cut()
	h.open()
	h.mustBeClean()
	if !h.report.Clean || h.report.Entries != 0 || !sameState(h.state(), want) {
		t.Fatalf("after a clean stop: %s", h.report)
	}
	h.close()
	h.open()
	if !h.report.Clean {
		t.Errorf("a second clean stop is not seen: %s", h.report)
	}
}

func TestRecoverTwiceIsTheSame(t *testing.T) {
	h := newHarness(t, 4, smallConfig())
	for i := range 200 {
		h.note(Key{1, uint32(i % 5)}, fmt.Sprint(i))
		h.turn()
	}
	h.crash()
	first := h.state()
	h.crash()
	if !sameState(h.state(), first) {
		t.Fatal("the second recovery found something else")
	}
	h.mustBeClean()
}

// The overlay of one partition is dropped: its staged entries never reach the journal, those of others do, and what was
// submitted already stays.
func TestDropStagedTakesOnlyItsOwn(t *testing.T) {
	h := newHarness(t, 5, smallConfig())
	a, b := Key{1, 0}, Key{1, 1}
	h.note(a, "submitted")
	h.note(b, "submitted")
	h.now++
	h.s.EndTurn(h.now)  // submits
	for i := range 60 { // more than one group's worth waits
		h.note(a, fmt.Sprintf("dropped %d %0*d", i, 1000, 0))
		h.note(b, fmt.Sprintf("kept %d", i))
	}
	h.log(a).DropStaged()
	h.m.part(a).staged = h.m.part(a).staged[:1]
	if got := h.log(a).NextIndex(); got != 2 {
		t.Fatalf("next index %d, want 2", got)
	}
	h.note(a, "instead")
	h.settle()
	want := h.state()
	if !slices.Equal(want[a], []string{"submitted", "instead"}) || len(want[b]) != 61 {
		t.Fatalf("durable: a %.60v, b %d entries", want[a], len(want[b]))
	}
	h.crash()
	h.mustBeClean()
	if !sameState(h.state(), want) {
		t.Errorf("recovered %.200v", h.state())
	}
}
