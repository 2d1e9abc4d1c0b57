package perf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
)

// Due times are fixed by the rate when the run begins; whoever comes late gets those that have passed at once, unmoved.
func TestScheduleDoesNotMoveWhenLate(t *testing.T) {
	start := time.Now().Add(-time.Second) // a second late already
	s := newSchedule(start, 100, 2, 1)
	for n := range 50 {
		due, ok := s.next(context.Background())
		if want := start.Add(10*time.Millisecond + time.Duration(n)*20*time.Millisecond); !ok || !due.Equal(want) {
			t.Fatalf("record %d was due %v after the start, want %v", n, due.Sub(start), want.Sub(start))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	late := newSchedule(time.Now().Add(time.Hour), 1, 1, 0)
	if _, ok := late.next(ctx); ok {
		t.Error("goes on after its context")
	}
}

func TestLatencyKeepsWhatIsBeyondItsBounds(t *testing.T) {
	l := newLatency()
	for range 999 {
		l.record(100 * time.Microsecond)
	}
	l.record(time.Hour)
	q := l.quantiles()
	if q.Count != 1000 || q.P50 < 99 || q.P50 > 101 || q.P999 > 101 || q.Max < 59e6 {
		t.Fatalf("%+v", q)
	}
	if newLatency().quantiles() != nil {
		t.Error("quantiles of nothing")
	}
}

// relay hands through one pair of connections, as perf/cmd/relay does.
func relay(t *testing.T, mangle func([]byte) []byte) (in, out string) {
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	from, to := listen(), listen()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		dst, err := to.Accept()
		if err != nil {
			return
		}
		defer dst.Close()
		src, err := from.Accept()
		if err != nil {
			return
		}
		defer src.Close()
		buf := make([]byte, 10_007) // cuts frames, headers and batches everywhere
		for {
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			if _, err := dst.Write(mangle(buf[:n])); err != nil {
				return
			}
		}
	}()
	return from.Addr().String(), to.Addr().String()
}

// Over a relay the subscriber counts exactly what frames hold, however the stream is cut.
func TestWireOverARelay(t *testing.T) {
	in, out := relay(t, func(p []byte) []byte { return p })
	r, err := Wire(context.Background(), Config{Size: 64, Batch: 10, Duration: 100 * time.Millisecond, Warmup: 10 * time.Millisecond, Window: 1 << 20, FloorIn: in, FloorOut: out})
	if err != nil {
		t.Fatal(err)
	}
	frame := len(client.PrepareBatch(1, 0, client.AcksNone, 10, 64))
	if r.Target != "floor" || r.Records == 0 || r.Lost != 0 || r.Bytes != r.Records*64 {
		t.Fatalf("%+v", r)
	}
	// Bytes of a frame whose records are counted at the next read lie between the two counts.
	if perRecord := float64(r.WireBytes) / float64(r.Records); perRecord < 0.9*float64(frame)/10 || perRecord > 1.1*float64(frame)/10 {
		t.Fatalf("%.1f wire bytes a record, want about %.1f", perRecord, float64(frame)/10)
	}
}

// A stream that is not records ends the run with an error, not with a figure.
func TestWireRefusesGarbage(t *testing.T) {
	in, out := relay(t, func(p []byte) []byte {
		for i := range p {
			p[i] = 'x'
		}
		return p
	})
	_, err := Wire(context.Background(), Config{Size: 64, Batch: 10, Duration: time.Second, Warmup: 10 * time.Millisecond, Window: 1 << 20, FloorIn: in, FloorOut: out})
	if !errors.Is(err, client.ErrProtocol) {
		t.Fatalf("got %v", err)
	}
}

// An ERROR ends the count with what it says, however little of it there is.
func TestCounterEndsWithAnError(t *testing.T) {
	header := []byte{0, 0, 0, 0, 1, 20, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0} // an ERROR of the broker
	for payload := range 40 {
		header[0] = byte(12 + payload)
		var c client.Counter
		stream := append(slices.Clone(header), make([]byte, payload+64)...) // more follows
		if err := c.Run(bytes.NewReader(stream), func(client.Counts) {}); err == nil {
			t.Errorf("%d bytes of ERROR were taken for records", payload)
		}
	}
}

// A window smaller than a frame holds up nothing: one write is always allowed.
func TestWireWithAWindowBelowAFrame(t *testing.T) {
	in, out := relay(t, func(p []byte) []byte { return p })
	r, err := Wire(context.Background(), Config{Size: 1000, Batch: 1000, Duration: 200 * time.Millisecond, Warmup: 10 * time.Millisecond, Window: 128 << 10, FloorIn: in, FloorOut: out})
	if err != nil || r.Records == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestCounterAtEveryCut(t *testing.T) {
	frames := append(client.PrepareBatch(1, 0, client.AcksNone, 3, 10), client.PrepareBatch(1, 0, client.AcksNone, 5, 1)...)
	for cut := range frames {
		var c client.Counter
		r := io.MultiReader(&chunk{frames[:cut]}, &chunk{frames[cut:]})
		if err := c.Run(r, func(client.Counts) {}); err != io.EOF || c.Records != 8 || c.Bytes != uint64(len(frames)) {
			t.Fatalf("cut at %d: %+v, %v", cut, c.Counts, err)
		}
	}
}

type chunk struct{ p []byte }

func (c *chunk) Read(p []byte) (int, error) {
	if len(c.p) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.p)
	c.p = c.p[n:]
	return n, nil
}

func TestReportNamesItsHost(t *testing.T) {
	r := newReport("stream", &Config{Size: 100})
	r.Records, r.Bytes = 1000, 2<<20
	r.finish(2 * time.Second)
	if r.PerSecond != 500 || r.MiBSecond != 1 || r.Host.CPUs < 1 || r.Host.Kernel == "" || r.Host.CPU == "" {
		t.Fatalf("%+v", r)
	}
}
