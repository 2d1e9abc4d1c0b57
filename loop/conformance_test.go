package loop

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// each runs a test for every engine.
func each(t *testing.T, test func(*testing.T, engine)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { test(t, e) })
	}
}

// pattern is n bytes in which a swap or a loss shows.
func pattern(n int, seed uint32) []byte {
	p := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

type closing struct {
	conn Conn
	err  error
}

// collect gathers what a server receives, and reports closes.
func collect(into *[]byte, closed chan closing) func(Loop) *handler {
	return func(Loop) *handler {
		return &handler{
			received: func(_ Conn, p []byte) { *into = append(*into, p...) },
			closed:   func(c Conn, err error) { closed <- closing{c, err} },
		}
	}
}

func TestBytesComeBackInOrder(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		c := s.dial()
		want := pattern(5<<20, 1)
		go func() {
			for p := want; len(p) > 0; { // odd pieces: no boundary of ours falls together with one of the kernel's
				n := min(len(p), 1+len(p)%70_001)
				if _, err := c.Write(p[:n]); err != nil {
					return
				}
				p = p[n:]
			}
		}()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatal("echo differs")
		}
	})
}

// One byte at a time in, a large answer out to a small receive window: reads and writes are partial.
func TestPartialReadsAndWrites(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		answer := pattern(3<<20, 2)
		got := 0
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{received: func(c Conn, p []byte) {
				if got += len(p); got == 100 {
					l.Send(c, answer)
				}
			}}
		})
		c := s.dial()
		if err := c.SetReadBuffer(128 << 10); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if _, err := c.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
		}
		p := make([]byte, len(answer))
		if _, err := io.ReadFull(c, p); err != nil || !bytes.Equal(p, answer) {
			t.Fatalf("answer differs, %v", err)
		}
	})
}

func TestOpenedNamesListenerAndPeer(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		type opening struct {
			listener int
			remote   netip.AddrPort
		}
		opened := make(chan opening, 1)
		s := serve(t, e, Config{}, options{}, func(Loop) *handler {
			return &handler{opened: func(_ Conn, l int, a netip.AddrPort) { opened <- opening{l, a} }}
		})
		c := s.dial()
		o := within(t, "Opened", opened)
		if o.listener != 0 || o.remote.String() != c.LocalAddr().String() {
			t.Fatalf("%+v, dialled from %s", o, c.LocalAddr())
		}
	})
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		s.do(func() {
			if _, _, err := s.loop.Listen(s.addr); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("second listener on %s: %v", s.addr, err)
			}
		})
	})
}

// A peer that ends its side still gets what was queued for it; then the connection is over, in order.
func TestHalfClosedPeerGetsItsOutput(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		answer := pattern(2<<20, 3)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) { l.Send(c, answer) },
				closed:   func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		c := s.dial()
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, answer) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if e := within(t, "Closed", closed); e.err != nil {
			t.Fatalf("closed with %v", e.err)
		}
	})
}

func TestResetPeerIsReported(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		var got []byte
		s := serve(t, e, Config{}, options{}, collect(&got, closed))
		c := s.dial()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := c.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if e := within(t, "Closed", closed); !errors.Is(e.err, syscall.ECONNRESET) {
			t.Fatalf("closed with %v", e.err)
		}
	})
}

// A peer that resets while output is queued and a send is in flight: no block leaks (serve's stop checks the pool).
func TestResetDuringSend(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				opened: func(c Conn, _ int, _ netip.AddrPort) { l.Send(c, make([]byte, 20<<20)) },
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		c := s.dial()
		if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		c.Close() // unread bytes: the kernel resets
		if e := within(t, "Closed", closed); e.err == nil {
			t.Fatal("closed without an error")
		}
	})
}

// Close: everything queued arrives, then the end; what the peer still sends does not destroy it.
func TestCloseSendsWhatIsQueued(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		answer := pattern(4<<20, 4)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) {
					l.Send(c, answer)
					l.Close(c)
					l.Send(c, []byte("never sent"))
				},
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		c := s.dial()
		if _, err := c.Write(pattern(700_000, 5)); err != nil { // more than is read before Close
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, answer) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		c.Close()
		if e := within(t, "Closed", closed); e.err != nil {
			t.Fatalf("closed with %v", e.err)
		}
	})
}

func TestAbortResetsThePeer(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, _ []byte) {
					l.Send(c, make([]byte, 8<<20))
					l.Abort(c)
					l.Abort(c)
				},
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		c := s.dial()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if e := within(t, "Closed", closed); !errors.Is(e.err, ErrAborted) {
			t.Fatalf("closed with %v", e.err)
		}
		if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("the peer reads %v", err)
		}
	})
}

// A loop that has been parked for longer than all its timeouts still stops in order.
func TestStopAfterALongPark(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{CloseTimeout: time.Millisecond}, options{}, echo)
		c := s.dial()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Duration(lingerNanos) + 100*time.Millisecond) // the promise is about time
		s.stop()
	})
}

// The loop gives up on output that a peer does not take after Close.
func TestCloseHasAnEnd(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		s := serve(t, e, Config{CloseTimeout: 50 * time.Millisecond}, options{}, func(l Loop) *handler {
			return &handler{
				opened: func(c Conn, _ int, _ netip.AddrPort) {
					l.Send(c, make([]byte, 30<<20))
					l.Close(c)
				},
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		s.dial() // and never reads
		if e := within(t, "Closed", closed); !errors.Is(e.err, ErrCloseTimeout) {
			t.Fatalf("closed with %v", e.err)
		}
	})
}

// A stale Conn, a none and a made-up one are ignored by every call.
func TestStaleConnIsIgnored(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 4)
		opened := make(chan Conn, 4)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				opened: func(c Conn, _ int, _ netip.AddrPort) { opened <- c },
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		s.dial().Close()
		old := within(t, "Opened", opened)
		within(t, "Closed", closed)
		second := s.dial() // takes the same slot
		if now := within(t, "Opened", opened); now == old || uint32(now) != uint32(old) {
			t.Fatalf("connections %#x and %#x: the slot was not reused under a new name", old, now)
		}
		s.do(func() {
			for _, c := range []Conn{old, 0, 1<<63 | 12345} {
				s.loop.Send(c, []byte("x"))
				s.loop.Pause(c)
				s.loop.Resume(c)
				s.loop.Close(c)
				s.loop.Abort(c)
				if n := s.loop.Queued(c); n != 0 {
					t.Errorf("%d bytes queued for %#x", n, c)
				}
			}
		})
		_ = second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := second.Read(make([]byte, 1)); n != 0 || err == io.EOF {
			t.Fatalf("the second connection got %d bytes, %v", n, err)
		}
	})
}

// Slow reader: Queued grows to what the handler sent and no further, Drained comes once per filling, and other
// connections do not notice.
func TestSlowReaderHurtsOnlyItself(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		const total = 16 << 20
		chunk := pattern(100_000, 6)
		sent, drained, peak := 0, 0, 0
		fill := func(l Loop, c Conn) {
			for l.Queued(c) < HighWater && sent < total {
				l.Send(c, chunk)
				sent += len(chunk)
				peak = max(peak, l.Queued(c))
			}
		}
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) {
					if p[0] == 'e' {
						l.Send(c, p)
						return
					}
					fill(l, c)
				},
				drained: func(c Conn) { drained++; fill(l, c) },
			}
		})
		slow, quick := s.dial(), s.dial()
		if _, err := slow.Write([]byte("s")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4)
		for range 200 {
			if _, err := quick.Write([]byte("echo")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(quick, buf); err != nil {
				t.Fatal(err)
			}
		}
		n, err := io.Copy(io.Discard, io.LimitReader(slow, total))
		if err != nil || n != total {
			t.Fatalf("%d bytes, %v", n, err)
		}
		s.do(func() {
			if drained < total/HighWater/4 || peak > HighWater+len(chunk) {
				t.Errorf("Drained %d times, at most %d bytes queued", drained, peak)
			}
		})
	})
}

// While paused nothing is read, so the peer's writes stop in its own kernel; after Resume every byte is there.
func TestPauseStopsAndResumeGoesOn(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		var got []byte
		conn := make(chan Conn, 1)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				opened:   func(c Conn, _ int, _ netip.AddrPort) { l.Pause(c); conn <- c },
				received: func(c Conn, p []byte) { got = append(got, p...) },
			}
		})
		c := s.dial()
		id := within(t, "Opened", conn)
		want := pattern(32<<20, 7)
		var written atomic.Int64
		go func() {
			for p := want; len(p) > 0; {
				n, err := c.Write(p[:min(len(p), 64<<10)])
				if err != nil {
					return
				}
				written.Add(int64(n))
				p = p[n:]
			}
		}()
		received := func() (n int) { s.do(func() { n = len(got) }); return n }
		stuck := func() bool {
			before := written.Load()
			time.Sleep(20 * time.Millisecond)
			return before > 0 && written.Load() == before
		}
		eventually(t, "the writer is stuck", stuck)
		if n := received(); n != 0 {
			t.Fatalf("%d bytes arrived while paused from the start", n)
		}
		for range 3 { // in the same turn and in different ones
			s.do(func() { s.loop.Resume(id); s.loop.Pause(id); s.loop.Resume(id) })
			s.do(func() { s.loop.Pause(id) })
		}
		eventually(t, "paused again", func() bool { n := received(); return stuck() && received() == n })
		if n := received(); n == len(want) {
			t.Fatal("everything arrived although paused")
		}
		s.do(func() { s.loop.Resume(id) })
		eventually(t, "all received", func() bool { return received() == len(want) })
		s.do(func() {
			if !bytes.Equal(got, want) {
				t.Error("bytes differ")
			}
		})
	})
}

// A receive that was armed before Pause must not deliver what comes after it.
func TestPauseTakesBackTheArmedReceive(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		got := make(chan string, 10)
		conn := make(chan Conn, 1)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				opened:   func(c Conn, _ int, _ netip.AddrPort) { conn <- c },
				received: func(_ Conn, p []byte) { got <- string(p) },
			}
		})
		c := s.dial()
		id := within(t, "Opened", conn)
		for round := range 5 {
			if _, err := c.Write([]byte("before")); err != nil {
				t.Fatal(err)
			}
			if p := within(t, "bytes", got); p != "before" {
				t.Fatalf("round %d: %q", round, p)
			}
			s.do(func() { s.loop.Pause(id) })
			s.do(func() {}) // the cancel is out, and
			s.do(func() {}) // its completion is in
			if _, err := c.Write([]byte("after")); err != nil {
				t.Fatal(err)
			}
			select {
			case p := <-got:
				t.Fatalf("round %d: %q arrived while paused", round, p)
			case <-time.After(20 * time.Millisecond):
			}
			s.do(func() { s.loop.Resume(id) })
			if p := within(t, "bytes", got); p != "after" {
				t.Fatalf("round %d: %q", round, p)
			}
		}
	})
}

// A connection delivers its share of a turn and no more; the rest comes in order.
func TestTurnIsBoundedPerConnection(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		var got []byte
		inTurn, worst := 0, 0
		first := true
		closed := make(chan closing, 1)
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) {
					if first { // let much pile up behind this call
						first = false
						time.Sleep(100 * time.Millisecond)
					}
					got = append(got, p...)
					inTurn += len(p)
				},
				closed:  func(c Conn, err error) { closed <- closing{c, err} },
				endTurn: func(int64, int64) int64 { worst, inTurn = max(worst, inTurn), 0; return 0 },
			}
		})
		c := s.dial()
		want := pattern(6<<20, 8)
		if _, err := c.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil { // the end must not overtake what waits for its turn
			t.Fatal(err)
		}
		if e := within(t, "Closed", closed); e.err != nil {
			t.Errorf("closed with %v", e.err)
		}
		s.do(func() {
			if !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes, or others", len(got), len(want))
			}
			if worst >= turnBytes+(64<<10) {
				t.Errorf("%d bytes in one turn", worst)
			}
		})
	})
}

// Many connections and few buffers: all starve again and again, none is forgotten.
func TestExhaustedBuffersLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{ReceiveBuffers: 4, ReceiveBytes: 4096}, options{}, echo)
		const conns = 60
		errs := make(chan error, conns)
		for i := range conns {
			c := s.dial()
			go func() {
				want := pattern(200_000, uint32(i))
				go c.Write(want)
				got := make([]byte, len(want))
				_, err := io.ReadFull(c, got)
				if err == nil && !bytes.Equal(got, want) {
					err = errors.New("bytes differ")
				}
				errs <- err
			}()
		}
		for range conns {
			if err := within(t, "echo", errs); err != nil {
				t.Fatal(err)
			}
		}
		if st := s.turnStats(); st.Rearmed == 0 {
			t.Error("no connection ever starved: the test shows nothing")
		}
	})
}

// More completions at once than the completion queue holds.
func TestRingOverflowLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		counts := map[Conn]int{}
		closed := 0
		s := serve(t, e, Config{}, options{completionQ: 16}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) { counts[c] += len(p); l.Send(c, p) },
				closed:   func(Conn, error) { closed++ },
			}
		})
		const conns, rounds = 100, 20
		var all []io.ReadWriteCloser
		for range conns {
			all = append(all, s.dial())
		}
		buf := make([]byte, 100)
		for range rounds {
			block := make(chan struct{})
			s.mu.Lock()
			s.tasks = append(s.tasks, func() { <-block }) // all of them write while the loop looks away
			s.mu.Unlock()
			s.loop.Wake()
			for _, c := range all {
				if _, err := c.Write(buf); err != nil {
					t.Fatal(err)
				}
			}
			close(block)
			for _, c := range all {
				if _, err := io.ReadFull(c, buf); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range all {
			c.Close()
		}
		eventually(t, "all closed", func() (ok bool) { s.do(func() { ok = closed == conns }); return ok })
		s.do(func() {
			if u, ok := s.loop.(*Uring); ok && u.ring.Stats().Overflows == 0 {
				t.Error("the ring never overflowed: the test shows nothing")
			}
			for c, n := range counts {
				if n != rounds*100 {
					t.Errorf("connection %#x delivered %d bytes", c, n)
				}
			}
		})
	})
}

func TestSignalsDoNotDisturb(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		thread := make(chan int, 1)
		s := serve(t, e, Config{Spin: -1}, options{}, func(l Loop) *handler {
			thread <- unix.Gettid()
			return echo(l)
		})
		tid := within(t, "thread", thread)
		stop := make(chan struct{})
		stopped := make(chan struct{})
		signals := 0
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG) // the runtime's own, harmless one
					signals++
				}
			}
		}()
		c := s.dial()
		buf := make([]byte, 8)
		for range 500 {
			if _, err := c.Write(buf); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		<-stopped
		if signals < 500 {
			t.Errorf("only %d signals", signals)
		}
	})
}

func TestWakeFromManyThreads(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		var posted, seen atomic.Int64
		s := serve(t, e, Config{}, options{}, func(Loop) *handler {
			return &handler{endTurn: func(int64, int64) int64 { seen.Store(posted.Load()); return 0 }}
		})
		done := make(chan struct{})
		for range 4 {
			go func() {
				for range 2000 {
					n := posted.Add(1)
					s.loop.Wake()
					for seen.Load() < n {
						time.Sleep(0)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			within(t, "all wakes", done)
		}
	})
}

func TestEndTurnRunsAgainInTime(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		const step = int64(5 * time.Millisecond)
		late := make(chan int64, 1)
		var due int64
		rounds := 0
		serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{endTurn: func(now, unix int64) int64 {
				if now != l.Now() || unix != l.UnixMillis() || unix < 1_600_000_000_000 {
					t.Errorf("times differ: %d %d, %d %d", now, l.Now(), unix, l.UnixMillis())
				}
				if due == 0 || now >= due {
					if rounds++; rounds == 20 {
						late <- now - due
						return 0
					}
					due = now + step
				}
				if rounds >= 20 {
					return 0
				}
				return due
			}}
		})
		if l := within(t, "20 deadlines", late); l > int64(5*time.Second) {
			t.Fatalf("the last one was %v late", time.Duration(l))
		}
	})
}

func TestStopSendsWhatIsQueued(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		answer := pattern(8<<20, 9)
		sent := make(chan struct{})
		closed := 0
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) { l.Send(c, answer); close(sent) },
				closed:   func(Conn, error) { closed++ },
			}
		})
		c := s.dial()
		idle := s.dial()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		within(t, "Send", sent)
		got := make(chan []byte, 1)
		go func() {
			p, _ := io.ReadAll(c)
			c.Close()
			got <- p
		}()
		s.stop()
		if p := within(t, "answer", got); !bytes.Equal(p, answer) {
			t.Fatalf("%d bytes of %d arrived", len(p), len(answer))
		}
		if closed != 2 {
			t.Errorf("Closed was called %d times for 2 connections", closed)
		}
		if n, err := idle.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("the idle connection reads %d, %v", n, err)
		}
	})
}

func TestStopCutsThoseWhoDoNotRead(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		opened := make(chan struct{})
		var reason error
		s := serve(t, e, Config{CloseTimeout: 50 * time.Millisecond}, options{}, func(l Loop) *handler {
			return &handler{
				opened: func(c Conn, _ int, _ netip.AddrPort) { l.Send(c, make([]byte, 30<<20)); close(opened) },
				closed: func(_ Conn, err error) { reason = err },
			}
		})
		s.dial()
		within(t, "Opened", opened)
		start := time.Now()
		s.stop()
		if took := time.Since(start); took > 5*time.Second || reason == nil {
			t.Fatalf("stopped after %v, connection closed with %v", took, reason)
		}
	})
}

func TestCloseListenersRefusesAndKeepsTheRest(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		c := s.dial()
		s.do(s.loop.CloseListeners)
		s.do(s.loop.CloseListeners)
		eventually(t, "refused", func() bool {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			return unix.Connect(fd, &unix.SockaddrInet4{Port: int(s.addr.Port()), Addr: s.addr.Addr().As4()}) == unix.ECONNREFUSED
		})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConnectionsAboveTheLimitAreClosed(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{MaxConnections: 2}, options{}, echo)
		a := s.dial()
		s.dial()
		third := s.dial()
		if _, err := third.Read(make([]byte, 1)); err == nil {
			t.Fatal("the third connection lives")
		}
		if st := s.turnStats(); st.Connections != 2 || st.Refused != 1 {
			t.Fatalf("%+v", st)
		}
		a.Close()
		eventually(t, "room again", func() bool { return s.turnStats().Connections == 1 })
		c := s.dial()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// Without memory for output that connection ends, and only that one.
func TestNoMemoryEndsOneConnection(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		closed := make(chan closing, 1)
		s := serve(t, e, Config{ReceiveBuffers: 16}, options{poolBytes: 4 << 20}, func(l Loop) *handler {
			return &handler{
				received: func(c Conn, p []byte) {
					if p[0] == 'b' {
						l.Send(c, make([]byte, 16<<20))
						return
					}
					l.Send(c, p)
				},
				closed: func(c Conn, err error) { closed <- closing{c, err} },
			}
		})
		big, small := s.dial(), s.dial()
		if _, err := big.Write([]byte("b")); err != nil {
			t.Fatal(err)
		}
		if e := within(t, "Closed", closed); !errors.Is(e.err, ErrNoMemory) {
			t.Fatalf("closed with %v", e.err)
		}
		if _, err := small.Write([]byte("s")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(small, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// NODELAY: a connection's second small write must not wait for the acknowledgement of the first.
func TestAcceptedSocketsHaveNoDelay(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		s.dial()
		eventually(t, "accepted", func() bool { return s.turnStats().Accepted == 1 })
		found := false
		for fd := range 1024 {
			name, err := unix.Getpeername(fd)
			if err != nil {
				continue
			}
			local, _ := unix.Getsockname(fd)
			if addrPort(name) == s.addr || local == nil || addrPort(local) != s.addr {
				continue
			}
			on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY)
			if err != nil || on == 0 {
				t.Errorf("descriptor %d: TCP_NODELAY %d, %v", fd, on, err)
			}
			found = true
		}
		if !found {
			t.Fatal("no accepted socket found")
		}
	})
}
