package disk

import (
	"fmt"
	"slices"
	"testing"
)

// Bytes of journal and state log are changed one by one, by two masks, and whole blocks lost or misdirected: recovery never panics, never gives
// back an entry that was not written, and whenever something acknowledged is not there it says so.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	cfg := smallConfig()
	cfg.JournalFileBytes = 32 << 10
	h := newHarness(t, 51, cfg)
	for i := range 40 {
		_ = h.tryNote(Meta, fmt.Sprintf("meta %d", i))
		_ = h.tryNote(Key{1, uint32(i % 3)}, fmt.Sprintf("note %d %0*d", i, 200, 0))
		_ = h.produce(Key{2, 0}, 300)
		h.settle()
	}
	if h.s.journal.durable.Dead == 0 || h.s.state.durable < 3 {
		t.Fatalf("nothing was checkpointed: dead %d, state %d", h.s.journal.durable.Dead, h.s.state.durable)
	}
	want := h.state()
	step := 4
	if testing.Short() {
		step = 37
	}
	for _, path := range h.dev.Paths() {
		if len(path) < 6 || path[:6] != "shard-" {
			continue
		}
		for at, good := range h.dev.Peek(path) {
			if at%step != 0 || good == 0 && at%61 != 0 {
				continue // padding is sampled
			}
			for _, mask := range []byte{^byte(1), ^byte(0x80)} {
				h.damagedAt(path, int64(at), []byte{good ^ mask}, want)
			}
		}
		file := h.dev.Peek(path)
		for at := 0; at < len(file); at += blockBytes { // lost and misdirected writes
			h.damagedAt(path, int64(at), make([]byte, blockBytes), want)
			other := (at + 3*blockBytes) % len(file)
			h.damagedAt(path, int64(at), file[other:other+blockBytes], want)
		}
	}
}

// damagedAt recovers from a copy of the disk with other bytes at one place.
func (h *harness) damagedAt(path string, at int64, bad []byte, want map[Key][]string) {
	h.t.Helper()
	dev := h.dev.Fork()
	dev.Poke(path, at, bad)
	h.pool.Reclaim()
	f := &harness{t: h.t, cfg: h.cfg, dev: dev, pool: h.pool, now: h.now}
	f.open()
	defer dev.Release()
	got := f.state()
	for k, entries := range got {
		if n := len(entries); n > len(want[k]) || !slices.Equal(entries, want[k][:n]) {
			h.t.Fatalf("%s byte %d: %s: what comes back was not written: %v", path, at, k, entries)
		}
	}
	for k, entries := range want {
		if len(got[k]) == len(entries) {
			continue
		}
		named := slices.Contains(f.report.Short, k) || slices.ContainsFunc(f.report.Damages, func(d Damage) bool { return d.Key == k })
		if !f.report.Damaged() || !named {
			h.t.Fatalf("%s byte %d: %s has %d of %d entries and the report does not name it:\n%s", path, at, k, len(got[k]), len(entries), f.report)
		}
	}
}
