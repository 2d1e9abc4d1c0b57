package slipring_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
)

// Peers that begin something and do not go on are closed at the stage's deadline, with an ERROR Timeout. Who said HELLO and
// is between frames may be silent, and clients that work notice nothing.
func TestSlowlorisIsClosed(t *testing.T) {
	const deadline, perStage = 400 * time.Millisecond, 20
	cfg := testConfig(t.TempDir())
	cfg.Tune(func(l *shard.Limits) { l.HelloNanos, l.FrameNanos = deadline.Nanoseconds(), deadline.Nanoseconds() })
	b := openBroker(t, cfg)
	addr := b.Addr().String()
	c := connect(t, addr)
	id, err := c.CreateTopic(within(t, 10*time.Second), "slow", 1, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	idle := dial(t, addr)
	baseline := poolInUse(t, b)

	greeting := frame.AppendFrame(nil, frame.CmdHello, 0, 1, hello(t))
	produce := frame.AppendFrame(nil, frame.CmdProduce, 0, 2, &frame.Produce{Topic: id, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, strings.Repeat("x", 300_000))})
	first := slices.Clone(produce)
	first[6] |= byte(frame.FlagMore)
	list := frame.AppendFrame(nil, frame.CmdListTopics, 0, 2, &frame.ListTopics{Prefix: "some.prefix.of.some.length"})
	stages := []struct {
		name    string
		bytes   []byte
		dribble []byte // then a byte of it at a time, for as long as the broker lets
	}{
		{name: "nothing"},
		{name: "half a HELLO", bytes: greeting[:len(greeting)/2]},
		{name: "a HELLO byte by byte", bytes: greeting[:7], dribble: greeting[7:]},
		{name: "half a header", bytes: slices.Concat(greeting, list[:9])},
		{name: "half a small body", bytes: slices.Concat(greeting, list[:len(list)-3])},
		{name: "half a PRODUCE", bytes: slices.Concat(greeting, produce[:150_000])},
		{name: "PRODUCE byte by byte", bytes: slices.Concat(greeting, produce[:200]), dribble: produce[200:]},
		{name: "a part of PRODUCE and no other", bytes: slices.Concat(greeting, first)},
	}
	stop := make(chan struct{})
	var healthy sync.WaitGroup
	var rounds atomic.Int64
	var slowest atomic.Int64
	healthy.Go(func() { workUntil(t, c, "slow", stop, &rounds, &slowest) })
	eventually(t, 10*time.Second, "the healthy client works", func() bool { return rounds.Load() > 20 })

	var peers sync.WaitGroup
	for _, x := range stages {
		for range perStage {
			peers.Go(func() { checkClosed(t, addr, x.name, x.bytes, x.dribble, deadline) })
		}
	}
	peers.Wait()
	before := rounds.Load()
	eventually(t, 10*time.Second, "the healthy client still works", func() bool { return rounds.Load() > before+20 })
	close(stop)
	healthy.Wait()
	t.Logf("%d slow peers closed; the healthy client made %d durable round trips, the slowest in %v", len(stages)*perStage, rounds.Load(), time.Duration(slowest.Load()))
	if h, _ := idle.ask(t, frame.CmdPing, &frame.Empty{}); h.Command != frame.CmdPing {
		t.Errorf("the idle connection got %v", h.Command)
	}
	if s := statsNow(t, b); s.Shard.Deadlines != uint64(len(stages)*perStage) {
		t.Errorf("%d deadlines, want %d", s.Shard.Deadlines, len(stages)*perStage)
	}
	if err := c.DeleteTopic(within(t, 10*time.Second), "slow"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the memory of the slow peers comes back", func() bool { return poolInUse(t, b) <= baseline })
}

// checkClosed is one slow peer.
func checkClosed(t *testing.T, addr, name string, bytes, dribble []byte, deadline time.Duration) {
	w := dialRaw(t, addr)
	began := time.Now()
	if _, err := w.Write(bytes); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	stopped := make(chan struct{})
	defer func() { <-stopped }()
	go func() {
		defer close(stopped)
		for len(dribble) > 0 {
			if _, err := w.Write(dribble[:1]); err != nil {
				return
			}
			dribble = dribble[1:]
			time.Sleep(20 * time.Millisecond) // the rate of a peer, not a wait for something
		}
	}()
	var last frame.Error
	for {
		h, payload, err := w.read(20 * time.Second)
		if err == nil {
			if h.Command == frame.CmdError {
				err = last.Decode(payload)
			}
			if err == nil {
				continue
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) { // a reset: our bytes crossed with its close
			t.Errorf("%s: %v", name, err)
		}
		break
	}
	took := time.Since(began)
	w.Close()
	if last.Code != frame.ErrTimeout || took < deadline/2 || took > deadline+10*time.Second {
		t.Errorf("%s: closed after %v with %v, want %v after %v", name, took, last.Code, frame.ErrTimeout, deadline)
	}
}

// workUntil makes durable round trips and notes how many and the slowest.
func workUntil(t *testing.T, c *client.Client, topic string, stop <-chan struct{}, rounds, slowest *atomic.Int64) {
	ctx := within(t, time.Minute)
	p, err := c.Producer(ctx, topic, client.ProducerOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	defer p.Close(ctx)
	for {
		select {
		case <-stop:
			return
		default:
		}
		began := time.Now()
		if _, err := p.ProduceSync(ctx, &client.Record{Value: []byte("healthy")}); err != nil {
			t.Errorf("a healthy client failed: %v", err)
			return
		}
		slowest.Store(max(slowest.Load(), int64(time.Since(began))))
		rounds.Add(1)
	}
}
