package slipring_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
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
	b, err := slipring.Open(cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Printf("listening %s\n", b.Addr())
	stopped := make(chan struct{})
	go func() { // the parent's end of the pipe closing is the signal to stop cleanly
		defer close(stopped)
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
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

// child is a broker in a process of its own.
type child struct {
	addr string
	cmd  *exec.Cmd
	in   *os.File
	log  strings.Builder // read after the process has ended only
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
	line, err := bufio.NewReader(out).ReadString('\n')
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
	b, err := slipring.Open(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
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
