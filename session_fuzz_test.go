package slipring_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	leak "go.uber.org/goleak"

	"github.com/slipringmq/slipring"
	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/shard"
)

var sessionTime = flag.Duration("session.time", 1500*time.Millisecond, "how long TestSessions plays")

// Whatever sequences of frames come, on however many connections: the broker does not panic, a client that behaves is
// served as if nothing were, its records stay whole, and when the connections are gone so is all that they held: blocks,
// descriptors, goroutines.
func TestSessions(t *testing.T) {
	before := leak.IgnoreCurrent()
	files := openFiles(t)
	b, h := sessionBroker(t)
	baseline := poolInUse(t, b)
	rounds := 0
	for deadline := time.Now().Add(*sessionTime); (rounds < sessionsLeast || time.Now().Before(deadline)) && !t.Failed(); rounds++ {
		random := rand.New(rand.NewPCG(*campaignSeed, uint64(rounds)))
		script := make([]byte, 200+random.IntN(3000))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		h.play(t, b, script)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", rounds, *campaignSeed)
		}
	}
	stats := statsNow(t, b).Shard
	t.Logf("%d sessions, %d connections, %d frames, %d errors, %d records", rounds, stats.Opened, stats.Frames, stats.Errors, stats.Records)
	if stats.Frames < 100 || stats.Errors < 20 || stats.Records < 100 || stats.Deliveries == 0 || stats.Fetches == 0 {
		t.Errorf("the sessions reach too little: %+v", stats)
	}
	h.checkRecords(t)
	h.client.Close()
	eventually(t, 30*time.Second, fmt.Sprint("blocks come back down to ", baseline), func() bool { return poolInUse(t, b) <= baseline })
	closeBroker(t, b)
	eventually(t, 30*time.Second, fmt.Sprint("open files come back down to ", files), func() bool { return openFiles(t) <= files })
	leak.VerifyNone(t, before)
}

// sessionsLeast reach every kind of frame whatever the machine's load.
const sessionsLeast = 40

// FuzzSession lets the fuzzer write the script.
func FuzzSession(f *testing.F) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 99))
		script := make([]byte, 300)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		f.Add(script)
	}
	b, h := sessionBroker(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		h.play(t, b, script[:min(len(script), 4096)])
	})
}

// sessionBroker is a broker with short deadlines and a client that behaves.
func sessionBroker(t testing.TB) (*slipring.Broker, *healthy) {
	cfg := testConfig(t.TempDir())
	cfg.Tune(func(l *shard.Limits) {
		l.HelloNanos, l.FrameNanos = 500e6, 500e6
		l.Partitions, l.OutputPause = 1000, 512<<10
		l.ProduceWindow = 1 << 20
	})
	b := openBroker(t, cfg)
	h := &healthy{client: connect(t, b.Addr().String())}
	if _, err := h.client.CreateTopic(within(t, 10*time.Second), "healthy", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	h.check(t, b)
	return b, h
}

// healthyMark begins the values of the client that behaves.
const healthyMark = "healthy record "

// healthy is a client that behaves.
type healthy struct {
	client   *client.Client
	produced int
}

// play plays a session with one topic to begin with, and looks at what is left of it.
func (h *healthy) play(t testing.TB, b *slipring.Broker, script []byte) {
	t.Helper()
	first, err := h.client.CreateTopic(within(t, 10*time.Second), "fuzz.0", 3, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	s := session{t: t, addr: b.Addr().String(), first: first, script: script}
	s.play()
	h.check(t, b)
}

// check waits until the connections of a session are gone, works a little, and clears away what the session created.
func (h *healthy) check(t testing.TB, b *slipring.Broker) {
	t.Helper()
	eventually(t, 20*time.Second, "only the healthy connection is left", func() bool {
		s := statsNow(t, b)
		return s.Shard.Connections == 1 && s.Shard.Subscriptions == 0 && s.Loop.Connections == 1
	})
	for range 2 {
		produceValues(t, h.client, "healthy", client.ProducerOptions{}, fmt.Sprint(healthyMark, h.produced))
		h.produced++
	}
	if d := describe(t, h.client, "healthy").Partitions[0]; d.HighWatermark < uint64(h.produced) {
		t.Errorf("high watermark %d, produced %d", d.HighWatermark, h.produced)
	}
	topics, err := h.client.ListTopics(within(t, 10*time.Second), "fuzz.")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range topics {
		if err := h.client.DeleteTopic(within(t, 10*time.Second), x.Name); err != nil {
			t.Fatalf("delete %s: %v", x.Name, err)
		}
	}
}

// checkRecords reads back what was produced, and deletes it.
func (h *healthy) checkRecords(t testing.TB) {
	t.Helper()
	n := 0
	for _, v := range consumeValues(t, h.client, "healthy", client.ConsumerOptions{}) {
		if !strings.HasPrefix(v, healthyMark) {
			continue // of a session: a flipped bit may name another topic
		}
		if v != fmt.Sprint(healthyMark, n) {
			t.Fatalf("record %d is %q", n, v)
		}
		n++
	}
	if n != h.produced {
		t.Errorf("%d records are left of %d", n, h.produced)
	}
	if err := h.client.DeleteTopic(within(t, 10*time.Second), "healthy"); err != nil {
		t.Fatal(err)
	}
}

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
