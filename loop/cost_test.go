package loop

import (
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
	"golang.org/x/sys/unix"
)

// rawSocket gives the descriptor of a blocking duplicate, to be used without allocations.
func rawSocket(t testing.TB, c *net.TCPConn) int {
	t.Helper()
	f, err := c.File() // blocking from here on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

func roundTrips(t testing.TB, fd int, p []byte, n int) {
	t.Helper()
	for range n {
		if _, err := unix.Write(fd, p); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < len(p); {
			k, err := unix.Read(fd, p[got:])
			if err != nil && err != unix.EINTR || k == 0 {
				t.Fatal(k, err)
			}
			got += max(k, 0)
		}
	}
}

// A warm turn allocates nothing, and takes one enter.
func TestEchoCostsNoAllocationAndOneEnterATurn(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		for _, size := range []int{64, 200_000} { // one piece; a gathered send
			s := serve(t, e, Config{}, options{}, echo)
			fd := rawSocket(t, s.dial())
			p := make([]byte, size)
			roundTrips(t, fd, p, 200)
			before := s.turnStats()
			var a, b runtime.MemStats
			const rounds = 2000
			runtime.ReadMemStats(&a)
			roundTrips(t, fd, p, rounds)
			runtime.ReadMemStats(&b)
			after := s.turnStats()
			if n := b.Mallocs - a.Mallocs; n > rounds/50 {
				t.Errorf("%d bytes: %d allocations in %d echoes", size, n, rounds)
			}
			turns, enters := after.Turns-before.Turns, after.Enters-before.Enters
			if turns < rounds || float64(enters) > 1.05*float64(turns) {
				t.Errorf("%d bytes: %d enters in %d turns", size, enters, turns)
			}
		}
	})
}

func TestSpinFollowsTheWaits(t *testing.T) {
	s := spinner{maxNanos: 50_000}
	for range 10 {
		s.learn(20_000)
	}
	if s.budgetNanos != s.maxNanos {
		t.Errorf("after short waits the budget is %d", s.budgetNanos)
	}
	for range 10 {
		s.learn(1_000_000)
	}
	if s.budgetNanos != 0 {
		t.Errorf("after long waits the budget is %d", s.budgetNanos)
	}
	s.learn(1000)
	if s.budgetNanos == 0 {
		t.Error("a short wait does not bring it back")
	}
	off := spinner{}
	off.learn(1)
	if off.budgetNanos != 0 {
		t.Error("a spinner that may not spin does")
	}
}

// An idle loop must not burn its CPU: it parks, and stays parked.
func TestIdleLoopParks(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		fd := rawSocket(t, s.dial())
		roundTrips(t, fd, make([]byte, 64), 100)
		before := s.turnStats()
		after := s.turnStats()
		if turns := after.Turns - before.Turns; turns > 20 {
			t.Errorf("%d turns with nothing to do", turns)
		}
		if after.Parks == 0 {
			t.Error("it never parked")
		}
	})
}

func TestDeliveredBytesAreTakenBack(t *testing.T) {
	if !block.Invariants {
		t.Skip("needs -tags invariants")
	}
	each(t, func(t *testing.T, e engine) {
		var kept []byte
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			return &handler{received: func(c Conn, p []byte) { kept = p; l.Send(c, p) }}
		})
		fd := rawSocket(t, s.dial())
		roundTrips(t, fd, []byte("secret"), 1)
		s.do(func() {
			if string(kept) == "secret" {
				t.Error("bytes are readable after Received")
			}
		})
	})
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}
