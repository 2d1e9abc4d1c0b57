package slipring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipringmq/slipring"
	"github.com/slipringmq/slipring/client"
)

// Environment of a child process that is a broker: the test binary starts itself, so that a broker can be killed.
const (
	childData   = "SLIPRING_TEST_BROKER"
	childListen = "SLIPRING_TEST_LISTEN"
	childConfig = "SLIPRING_TEST_CONFIG" // JSON of the fields that differ from testConfig
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childData); dir != "" {
		os.Exit(runChild(dir, os.Getenv(childListen)))
	}
	os.Exit(m.Run())
}

// testConfig is small, unpinned, and takes its port from the kernel.
func testConfig(dir string) slipring.Config {
	cfg := slipring.DefaultConfig()
	cfg.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Data = dir
	cfg.Pin = false
	cfg.MemoryLimit = 512 << 20
	cfg.JournalBytes = 32 << 20
	cfg.SegmentBytes = 8 << 20
	return cfg
}

func runChild(dir, listen string) int {
	cfg := testConfig(dir)
	if listen != "" {
		cfg.Listen = netip.MustParseAddrPort(listen)
	}
	if text := os.Getenv(childConfig); text != "" {
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	b, err := slipring.Open(cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Printf("listening %s\n", b.Addr())
	stopped := make(chan struct{})
	go func() { // the parent's end of the pipe closing is the signal to stop cleanly
		defer close(stopped)
		answerQuestions(b)
	}()
	select {
	case <-stopped:
	case <-b.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childStats is what a child tells about itself.
type childStats struct {
	slipring.Stats
	Mallocs    uint64 // objects ever allocated on the Go heap
	HeapBytes  uint64 // live or not yet collected
	Goroutines int
}

// answerQuestions writes one line of JSON for each line of input, until the input ends.
func answerQuestions(b *slipring.Broker) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		s, err := statsOf(b)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		line, _ := json.Marshal(s)
		fmt.Printf("%s\n", line)
	}
}

func statsOf(b *slipring.Broker) (s childStats, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s.Stats, err = b.Stats(ctx); err != nil {
		return s, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Mallocs, s.HeapBytes, s.Goroutines = m.Mallocs, m.HeapAlloc, runtime.NumGoroutine()
	return s, nil
}

// child is a broker in a process of its own.
type child struct {
	addr string
	cmd  *exec.Cmd
	in   *os.File
	out  *bufio.Reader
	log  strings.Builder // read after the process has ended only
}

// stats asks the child for its counters.
func (c *child) stats(t testing.TB) (s childStats) {
	t.Helper()
	if _, err := c.in.WriteString("stats\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		t.Fatalf("child's counters: %q: %v", line, err)
	}
	return s
}

// startChild runs a broker on dir. listen may be empty: the kernel chooses the port.
func startChild(t testing.TB, dir, listen string, env ...string) *child {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(os.Args[0]), in: w}
	c.cmd.Env = append(append(os.Environ(), childData+"="+dir, childListen+"="+listen), env...)
	c.cmd.Stdin = r
	c.cmd.Stderr = &c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(c.kill)
	c.out = bufio.NewReader(out)
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.kill()
		t.Fatalf("the broker did not start: %s", c.log.String())
	}
	c.addr = strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	return c
}

// kill ends the process with SIGKILL and waits for it.
func (c *child) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.in.Close()
		c.cmd = nil
	}
}

// stop ends it cleanly.
func (c *child) stop(t testing.TB) {
	t.Helper()
	c.in.Close()
	err := c.cmd.Wait()
	c.cmd = nil
	if err != nil {
		t.Fatalf("the broker did not stop cleanly: %v\n%s", err, c.log.String())
	}
}

// openBroker runs a broker in this process.
func openBroker(t testing.TB, cfg slipring.Config) *slipring.Broker {
	t.Helper()
	b, _ := openLogged(t, cfg)
	return b
}

// openLogged is openBroker; log is what it says.
func openLogged(t testing.TB, cfg slipring.Config) (b *slipring.Broker, log *logLines) {
	t.Helper()
	log = &logLines{}
	b, err := slipring.Open(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBroker(t, b) })
	return b, log
}

// closeBroker stops b cleanly; a second time does nothing.
func closeBroker(t testing.TB, b *slipring.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// within is a context for one test that should need far less.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok holds, for things that no event announces.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

func connect(t testing.TB, addr string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Addrs: []string{addr}, Name: t.Name(), BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// statsNow asks a broker of this process for its counters.
func statsNow(t testing.TB, b *slipring.Broker) slipring.Stats {
	t.Helper()
	s, err := b.Stats(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// poolInUse is the block memory that the shard has given out, bytes.
func poolInUse(t testing.TB, b *slipring.Broker) int { return statsNow(t, b).Pool.InUse }
