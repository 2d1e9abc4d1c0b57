package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard/sim"
)

// damagedWorld has a topic of one partition with 40 records in several segments, and starts again after harm was done to
// its segment files.
func damagedWorld(t *testing.T, harm func(dev *disk.Sim, files []string)) (w *sim.World, c *sim.Client, id uint32) {
	t.Helper()
	w = start(t)
	c = w.Connect()
	id = create(t, c, "rotten", 1, frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 64 << 10})
	for i := range 40 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, valueAt(i)))
	}
	w.Stop()
	dev := w.Dev.Crash()
	var files []string
	for _, p := range dev.Paths() {
		if strings.HasPrefix(p, fmt.Sprintf("topics/%d/0/", id)) && strings.HasSuffix(p, ".log") {
			files = append(files, p)
		}
	}
	if len(files) < 3 {
		t.Fatalf("%d segments", len(files))
	}
	harm(dev, files)
	w = startOn(t, dev, sim.Options{Start: 2, Mono: w.Now(), Wall: w.Wall(), Disk: sim.SmallDisk()})
	return w, w.Connect(), id
}

func valueAt(i int) string { return strings.Repeat(string(rune('a'+i%26)), 4000) + fmt.Sprint(i) }

// fetchEvery asks for each offset and returns those that are damaged; any other one must give its own record.
func fetchEvery(t *testing.T, c *sim.Client, id uint32) (damaged []int) {
	t.Helper()
	for i := range 40 {
		got := fetch(t, c, id, 0, uint64(i))
		switch {
		case got.Error == frame.ErrDamaged && len(got.values) == 0:
			damaged = append(damaged, i)
		case len(got.values) == 0 || got.values[0] != valueAt(i):
			t.Fatalf("the fetch of %d gives %d records, %s, and not its own first", i, len(got.values), got.Error.Name())
		}
		for j, v := range got.values {
			if v != valueAt(i+j) {
				t.Fatalf("the fetch of %d gives another record than %d", i, i+j)
			}
		}
	}
	return damaged
}

// Damage that a read finds is an event with its range and file, once for all the requests that meet it.
func TestDamageOfSegmentsIsReportedOnce(t *testing.T) {
	swap := func(dev *disk.Sim, a, b string) {
		x, y := dev.Peek(a), dev.Peek(b)
		n := min(len(x), len(y))
		dev.Poke(a, 0, y[:n])
		dev.Poke(b, 0, x[:n])
	}
	for name, harm := range map[string]func(dev *disk.Sim, files []string){
		"removed": func(dev *disk.Sim, f []string) { dev.Unlink(f[1]) },
		"swapped": func(dev *disk.Sim, f []string) { swap(dev, f[0], f[1]) },
		"zeroed":  func(dev *disk.Sim, f []string) { dev.Poke(f[1], 16384, make([]byte, 12288)) },
		"flipped": func(dev *disk.Sim, f []string) { dev.Flip(f[0], 20_000, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			var files []string
			w, c, id := damagedWorld(t, func(dev *disk.Sim, f []string) { files = f; harm(dev, f) })
			damaged := fetchEvery(t, c, id)
			if len(damaged) == 0 {
				t.Fatal("nothing was noticed")
			}
			events := w.Events
			for range 3 {
				if again := fetchEvery(t, c, id); fmt.Sprint(again) != fmt.Sprint(damaged) {
					t.Fatalf("%v damaged, then %v", damaged, again)
				}
			}
			if len(w.Events) != len(events) {
				t.Errorf("requests for what was reported are events: %q", w.Events[len(events):])
			}
			told := 0
			for _, e := range events {
				if strings.HasPrefix(e, "error") && strings.Contains(e, "read.damage") && strings.Contains(e, "rotten") &&
					(strings.Contains(e, files[0]) || strings.Contains(e, files[1])) {
					told++
				}
			}
			if told == 0 || told > 4 {
				t.Errorf("%d events for %v: %q", told, damaged, events)
			}
		})
	}
}
