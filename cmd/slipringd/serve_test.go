package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/client"
)

// roundTrip produces records and reads them back.
func roundTrip(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateTopic(ctx, "trip", 1, client.Settings{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(ctx, "trip", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	for i := range n {
		if err := p.Produce(ctx, &client.Record{Value: fmt.Append(make([]byte, i*2000), i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := c.Consumer(ctx, "trip", client.ConsumerOptions{UntilEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := 0
	for r, err := range s.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint(got); !strings.HasSuffix(string(r.Value), want) || len(r.Value) != got*2000+len(want) {
			t.Errorf("record %d has %d bytes", got, len(r.Value))
		}
		got++
	}
	if got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

// The daemon says one line on stdout and stops on SIGTERM with status 0, records safe; a second signal changes nothing.
func TestStopsOnSignals(t *testing.T) {
	for _, x := range []struct {
		name    string
		signals []os.Signal
	}{
		{"SIGTERM", []os.Signal{unix.SIGTERM}},
		{"SIGINT", []os.Signal{unix.SIGINT}},
		{"SIGHUP", []os.Signal{unix.SIGHUP}},
		{"SIGTERM twice", []os.Signal{unix.SIGTERM, unix.SIGTERM}},
		{"SIGTERM then SIGINT, many times", []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGTERM, unix.SIGINT, unix.SIGTERM}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			d := serve(t, conditions{}, "--data", dir, "--config", memoryFile(t))
			roundTrip(t, d.addr)
			idle, err := client.Connect(context.Background(), client.Options{Addrs: []string{d.addr}}) // must not hold the stop up
			if err != nil {
				t.Fatal(err)
			}
			defer idle.Close()
			began := time.Now()
			for _, s := range x.signals {
				_ = d.cmd.Process.Signal(s) // it may have ended
			}
			status, stdout := d.wait(t, 20*time.Second)
			if took := time.Since(began); status != 0 || stdout != "" || took > 10*time.Second {
				t.Errorf("exit %d after %v, stdout %q; stderr:\n%s", status, took, stdout, d.stderr.String())
			}
			log := d.stderr.String()
			if !strings.Contains(log, "event=start ") || !strings.Contains(log, "event=stopped") || strings.Count(log, "msg=stopping") != 1 {
				t.Errorf("the log lacks its start or its end, or has one twice:\n%s", log)
			}
			for line := range strings.Lines(log) {
				if !strings.Contains(line, " event=") {
					t.Errorf("a line without event=: %s", line)
				}
			}
			again := serve(t, conditions{}, "--data", dir, "--config", memoryFile(t))
			again.signal(t, unix.SIGTERM)
			again.wait(t, 20*time.Second)
			if log := again.stderr.String(); !strings.Contains(log, "stop=clean") {
				t.Errorf("the next start was not after a clean stop:\n%s", log)
			}
		})
	}
}

// SIGTERM also ends a daemon that does not serve yet, here one that waits for the writes of a killed broker.
func TestStopsBeforeItServes(t *testing.T) {
	dir := t.TempDir()
	ghost, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ghost.Close()
	fmt.Fprintf(ghost, "%10d %20d\n", 1<<22-1, 1) // a process that is no more
	if err := unix.Flock(int(ghost.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d := launch(t, conditions{}, "--listen", "127.0.0.1:0", "--data", dir, "--config", memoryFile(t))
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(d.stderr.String(), "last writes to land"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not wait:\n%s", d.stderr.String())
		}
	}
	d.signal(t, unix.SIGTERM)
	if status, stdout := d.wait(t, 10*time.Second); status != 0 || stdout != "" {
		t.Errorf("exit %d, stdout %q; stderr:\n%s", status, stdout, d.stderr.String())
	}
}

// SIGUSR1 is answered with a line of counters, and the shard's thread has a name, for whoever looks with top, perf or strace.
func TestCountersAndThreadName(t *testing.T) {
	d := serve(t, conditions{}, "--data", t.TempDir(), "--config", memoryFile(t))
	roundTrip(t, d.addr)
	d.signal(t, unix.SIGUSR1)
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(d.stderr.String(), "event=counters"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no counters:\n%s", d.stderr.String())
		}
	}
	if log := d.stderr.String(); !strings.Contains(log, "records=100") || !strings.Contains(log, "turns=") || !strings.Contains(log, "enters=") {
		t.Errorf("the log says:\n%s", log)
	}
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && string(text) == "shard-00\n" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d threads are named shard-00", found)
	}
	d.signal(t, unix.SIGTERM)
	if status, _ := d.wait(t, 20*time.Second); status != 0 {
		t.Errorf("exit %d", status)
	}
}

// Little lockable memory, here what systemd gives, costs one warning and nothing else.
func TestSmallMemlock(t *testing.T) {
	needsRoot(t) // root itself has no such limit
	dir := publicDir(t, nobody)
	d := serve(t, conditions{uid: nobody, env: []string{childMemlock + "=8388608"}}, "--data", filepath.Join(dir, "data"), "--config", memoryFile(t))
	roundTrip(t, d.addr)
	d.signal(t, unix.SIGTERM)
	if status, _ := d.wait(t, 20*time.Second); status != 0 {
		t.Errorf("exit %d", status)
	}
	if log := d.stderr.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "LimitMEMLOCK") || !strings.Contains(log, "limit=8388608 needed=") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log does not warn once of memlock:\n%s", log)
	}
}

// A flag wins over the file, the file over the default, and --help and --version end with status 0.
func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "slipring.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:1\ndata: %s\nmemory: {limit: 256MiB}\nlog: {format: json, level: debug}\ncpu.pin: false\n", filepath.Join(dir, "data"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serve(t, conditions{}, "--config", file) // on the port of serve's flag: nobody listens on port 1
	d.signal(t, unix.SIGTERM)
	if status, _ := d.wait(t, 20*time.Second); status != 0 {
		t.Errorf("exit %d", status)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "manifest")); err != nil {
		t.Errorf("the file's data directory was not used: %v", err)
	}
	if log := d.stderr.String(); !strings.HasPrefix(log, "{") {
		t.Errorf("the log is not JSON:\n%s", log)
	}
	for _, flag := range []string{"--help", "--version"} {
		d := launch(t, conditions{}, flag)
		if status, stdout := d.wait(t, 20*time.Second); status != 0 || !strings.Contains(stdout, "slipringd") || d.stderr.String() != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", flag, status, stdout, d.stderr.String())
		}
	}
}
