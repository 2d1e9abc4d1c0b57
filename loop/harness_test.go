package loop

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
)

// engine makes a loop on the calling thread; free gives everything back on the same thread.
type engine struct {
	name string
	make func(c Config, o options) (l Loop, free func() error, err error)
}

// options are what a test may squeeze.
type options struct {
	poolBytes   int
	completionQ uint32
}

// engines are held to the suite in conformance_test.go.
var engines = []engine{{"uring", makeUring}}

func makeUring(c Config, o options) (Loop, func() error, error) {
	if o.poolBytes == 0 {
		o.poolBytes = 64 << 20
	}
	entries := uint32(0)
	if o.completionQ > 0 {
		entries = o.completionQ / 2
	}
	ring, err := uring.New(uring.Config{Entries: entries, CompletionQ: o.completionQ})
	if err != nil {
		return nil, nil, err
	}
	pool := block.NewPool(o.poolBytes)
	l, err := NewUring(ring, pool, c)
	if err != nil {
		_ = ring.Close()
		return nil, nil, err
	}
	return l, func() error {
		for _, f := range []func() error{l.Free, ring.Close, pool.Close} { // pool.Close fails if a block leaked
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// server is a loop that runs on its own thread for one test.
type server struct {
	t    *testing.T
	loop Loop
	addr netip.AddrPort

	mu    sync.Mutex
	tasks []func()
	stats Stats
	done  chan error
}

// handler is a Handler made of functions; those that are nil do nothing.
type handler struct {
	opened   func(Conn, int, netip.AddrPort)
	received func(Conn, []byte)
	drained  func(Conn)
	closed   func(Conn, error)
	endTurn  func(int64, int64) int64
}

func (h *handler) Opened(c Conn, l int, a netip.AddrPort) {
	if h.opened != nil {
		h.opened(c, l, a)
	}
}

func (h *handler) Received(c Conn, p []byte) {
	if h.received != nil {
		h.received(c, p)
	}
}

func (h *handler) Drained(c Conn) {
	if h.drained != nil {
		h.drained(c)
	}
}

func (h *handler) Closed(c Conn, err error) {
	if h.closed != nil {
		h.closed(c, err)
	}
}

func (h *handler) EndTurn(mono, unix int64) int64 {
	if h.endTurn != nil {
		return h.endTurn(mono, unix)
	}
	return 0
}

// tasksThen runs what the test asked for on the loop's thread, then the handler's own end of turn.
type tasksThen struct {
	*handler
	s *server
}

func (h tasksThen) EndTurn(mono, unix int64) int64 {
	h.s.mu.Lock()
	tasks := h.s.tasks
	h.s.tasks = nil
	h.s.mu.Unlock()
	for _, f := range tasks {
		f()
	}
	return h.handler.EndTurn(mono, unix)
}

// serve starts a loop with the handler that makeHandler builds for it, and stops it at the end of the test: Run must
// return nil and all memory must be back.
func serve(t *testing.T, e engine, c Config, o options, makeHandler func(Loop) *handler) *server {
	t.Helper()
	s := &server{t: t, done: make(chan error, 1)}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		l, free, err := e.make(c, o)
		if err == nil {
			s.loop = l
			_, s.addr, err = l.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
		}
		started <- err
		if err != nil {
			return
		}
		err = l.Run(tasksThen{makeHandler(l), s})
		s.stats = l.Stats()
		if e := free(); err == nil {
			err = e
		}
		s.done <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// stop ends the loop; its final counters are in stats then.
func (s *server) stop() {
	if s.done == nil {
		return
	}
	s.loop.Stop()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(30 * time.Second):
		s.t.Error("the loop does not stop")
	}
	s.done = nil
	if n := s.stats.Connections; n != 0 {
		s.t.Errorf("%d connections left after Run", n)
	}
}

// do runs f on the loop's thread and waits for it.
func (s *server) do(f func()) {
	s.t.Helper()
	done := make(chan struct{})
	s.mu.Lock()
	s.tasks = append(s.tasks, func() { f(); close(done) })
	s.mu.Unlock()
	s.loop.Wake()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		s.t.Fatal("the loop does not turn")
	}
}

// turnStats returns the counters of a running loop.
func (s *server) turnStats() (st Stats) {
	s.do(func() { st = s.loop.Stats() })
	return st
}

func (s *server) dial() *net.TCPConn {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.addr.String(), 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// echo sends back what comes.
func echo(l Loop) *handler {
	return &handler{received: func(c Conn, p []byte) { l.Send(c, p) }}
}

// within waits for a value that the loop's thread sends.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s within 20 s", what)
		panic("unreachable")
	}
}

// eventually polls a condition that another thread or the kernel makes true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
