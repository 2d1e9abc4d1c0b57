package slipring_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/shard"
)

// Readers that stop reading keep a bounded piece of memory each and nothing more: clients that read keep their rate, and a
// deaf reader that reads again gets everything.
func TestDeafReaders(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	addr := b.Addr().String()
	c := connect(t, addr)
	id, err := c.CreateTopic(within(t, 10*time.Second), "deaf", 1, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopic(within(t, 10*time.Second), "other", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	start := poolInUse(t, b)
	fillTopic(t, dial(t, addr), id, 16<<20)
	alone := rate(t, c)
	limits := shard.DefaultLimits()
	before := poolInUse(t, b)

	const subscribers, fetchers, pingers = 4, 4, 2
	var deaf []*wire
	for range subscribers {
		w := dial(t, addr)
		w.send(t, frame.CmdSubscribe, &frame.Subscribe{Name: "deaf", Start: frame.SubscribeLog, Partition: frame.AllPartitions, Records: 1 << 40, Bytes: 1 << 40})
		deaf = append(deaf, w)
	}
	for range fetchers {
		w := dial(t, addr)
		for range 100 {
			w.send(t, frame.CmdFetch, &frame.Fetch{MaxBytes: 4 << 20, Partitions: []frame.FetchPartition{{Topic: id, MaxBytes: 4 << 20}}})
		}
		deaf = append(deaf, w)
	}
	var pings []int
	for range pingers {
		w := dial(t, addr)
		before := statsNow(t, b).Shard.Pauses
		pings = append(pings, pingUntilDeaf(t, w, func() bool { return statsNow(t, b).Shard.Pauses > before }))
		deaf = append(deaf, w)
	}
	// A stream may overshoot its mark by one piece, and blocks are charged whole. What the kernel had received before a
	// pinger was paused, 4 MiB at most, is still answered.
	allowed := (subscribers+fetchers)*(limits.OutputHigh+512<<10) + pingers*(limits.OutputPause+4<<20+512<<10)
	grown := poolInUse(t, b) - before
	t.Logf("%d KiB more are in use for %d deaf readers", grown>>10, len(deaf))
	if grown > allowed {
		t.Errorf("%d bytes more are in use, allowed are %d", grown, allowed)
	}
	with := 0.0
	for range 10 { // the disk is shared with whatever else runs; a broker that waits for the deaf ones has no good moment
		if with = max(with, rate(t, c)); with >= alone/2 {
			break
		}
	}
	t.Logf("durable round trips a second: %.0f alone, %.0f with %d deaf readers", alone, with, len(deaf))
	if with < alone/2 {
		t.Errorf("%.0f durable round trips a second with deaf readers, %.0f without", with, alone)
	}
	if s := statsNow(t, b).Shard; s.Pauses < pingers {
		t.Errorf("%d connections were paused, want %d", s.Pauses, pingers)
	}
	checkHearsAll(t, deaf[0], deaf[subscribers], deaf[subscribers+fetchers], pings[0])
	for _, w := range deaf {
		w.Close()
	}
	for _, topic := range []string{"deaf", "other"} {
		if err := c.DeleteTopic(within(t, 10*time.Second), topic); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 20*time.Second, "the memory comes back", func() bool { return poolInUse(t, b) <= start })
}

// rate is how many durable round trips a client makes in a second, measured for a moment.
func rate(t *testing.T, c *client.Client) float64 {
	t.Helper()
	stop := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	var rounds, slowest atomic.Int64
	began := time.Now()
	workUntil(t, c, "other", stop, &rounds, &slowest)
	return float64(rounds.Load()) / time.Since(began).Seconds()
}

// pingUntilDeaf sends PINGs and reads nothing until the broker takes no more; the last one is completed.
func pingUntilDeaf(t *testing.T, w *wire, paused func() bool) (sent int) {
	t.Helper()
	ping := frame.AppendFrame(nil, frame.CmdPing, 0, 9, &frame.Empty{})
	var many []byte
	for range 4096 {
		many = append(many, ping...)
	}
	written := 0
	for {
		_ = w.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := w.Write(many[written%len(ping):])
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if paused() { // and not only slow
				return written / len(ping)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if written > 1<<30 {
			t.Fatal("the broker takes PINGs without end from a client that reads no reply")
		}
	}
}

// checkHearsAll lets one deaf reader of each kind read: whole frames, in order, nothing missing.
func checkHearsAll(t *testing.T, sub, fetch, ping *wire, pings int) {
	t.Helper()
	for range pings {
		if h, _ := ping.next(t); h.Command != frame.CmdPing {
			t.Fatalf("%v", h)
		}
	}
	for got := 0; got < 100; {
		h, _ := fetch.next(t)
		if h.Command != frame.CmdFetch {
			t.Fatalf("%v", h)
		}
		if !h.More() {
			got++
		}
	}
	if h, _ := sub.next(t); h.Command != frame.CmdSubscribe {
		t.Fatalf("%v", h)
	}
	for got := 0; got < 16<<20; {
		h, payload := sub.next(t)
		var m frame.Deliver
		if h.Command != frame.CmdDeliver || m.Decode(payload) != nil {
			t.Fatalf("%v", h)
		}
		got += len(m.Data)
	}
}
