package slipring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// What must show on a running broker: a child process under load, looked at from outside where that is possible.

// Every journal and every segment that a broker has open is open with O_DIRECT, whatever the load did to them.
func TestLiveFilesAreDirect(t *testing.T) {
	dir := t.TempDir()
	broker := startChild(t, dir, "")
	c := connect(t, broker.addr)
	ctx := within(t, 30*time.Second)
	id, err := c.CreateTopic(ctx, "direct", 4, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var load sync.WaitGroup
	for partition := range uint32(4) {
		load.Go(func() {
			w := dial(t, broker.addr)
			small, large := batchOf(batch.Options{}, string(make([]byte, 50_000))), batchOf(batch.Options{}, string(make([]byte, 500_000)))
			for i := range 100 { // through the journal and data first, over the end of segments of 8 MiB
				m := frame.Produce{Topic: id, Partition: partition, Acks: frame.AcksDurable, Batch: small}
				if i%4 == 0 {
					m.Batch = large
				}
				w.ask(t, frame.CmdProduce, &m)
			}
		})
	}
	seen := map[string]int{}
	loaded := make(chan struct{})
	go func() { load.Wait(); close(loaded) }()
	for running := true; running; {
		select {
		case <-loaded:
			running = false
		default:
		}
		checkDirect(t, broker.cmd.Process.Pid, dir, seen)
	}
	if seen["journal"] == 0 || seen["segment"] == 0 {
		t.Fatalf("looked at %v: the test shows nothing", seen)
	}
	t.Logf("open files looked at: %v", seen)
}

// checkDirect looks at the flags of what the process has open below dir; proc_pid_fdinfo(5).
func checkDirect(t *testing.T, pid int, dir string, seen map[string]int) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", pid)
	entries, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path, err := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		if err != nil || !strings.HasPrefix(path, dir) {
			continue // closed meanwhile, or no file of the broker's data
		}
		kind := ""
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, "journal-"):
			kind = "journal"
		case strings.Contains(path, "/topics/") && strings.HasSuffix(strings.TrimSuffix(base, " (deleted)"), ".log"):
			kind = "segment"
		default:
			continue
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", e.Name()))
		if err != nil {
			continue
		}
		flags := uint64(0)
		for line := range strings.Lines(string(info)) {
			if v, ok := strings.CutPrefix(line, "flags:"); ok {
				flags, _ = strconv.ParseUint(strings.TrimSpace(v), 8, 64)
			}
		}
		if seen[kind]++; flags&unix.O_DIRECT == 0 {
			t.Errorf("%s is open with flags %#o, without O_DIRECT", path, flags)
		}
	}
}

// A lone durable record costs a flush of the device: 1,000 of them raise its count by at least 1,000.
func TestLiveDurableMeansFlushed(t *testing.T) {
	const n = 1000
	dir := t.TempDir()
	stat := flushStat(t, dir)
	broker := startChild(t, dir, "")
	c := connect(t, broker.addr)
	ctx := within(t, 60*time.Second)
	if _, err := c.CreateTopic(ctx, "lone", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(ctx, "lone", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before, began := flushes(t, stat), time.Now()
	for range n {
		if _, err := p.ProduceSync(ctx, &client.Record{Value: []byte("lone")}); err != nil {
			t.Fatal(err)
		}
	}
	took, after := time.Since(began), flushes(t, stat)
	t.Logf("%d lone durable records: %d flushes of the device, %v each", n, after-before, took/n)
	if after-before < n {
		t.Errorf("%d durable records raised the flush count by %d", n, after-before)
	}
}

// flushStat finds the statistics of the disk below dir, and skips where none counts flushes.
func flushStat(t *testing.T, dir string) string {
	t.Helper()
	disk, err := diskBelow(dir)
	if err != nil {
		t.Skipf("no flush count: %v", err)
	}
	sys := "/sys/dev/block/" + disk
	if cache, err := os.ReadFile(sys + "/queue/write_cache"); err != nil || strings.TrimSpace(string(cache)) != "write back" {
		t.Skipf("no flush count: device %s says write cache %q, so the kernel sends it no flushes", disk, strings.TrimSpace(string(cache)))
	}
	if fua, err := os.ReadFile(sys + "/queue/fua"); err == nil && strings.TrimSpace(string(fua)) == "1" {
		t.Skipf("no flush count: device %s takes durable writes (FUA), which are not counted as flushes", disk)
	}
	return sys + "/stat"
}

// flushes reads the 16th field: completed flush requests (Documentation/block/stat.rst, Linux 5.5).
func flushes(t *testing.T, stat string) uint64 {
	t.Helper()
	text, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 16 {
		t.Skipf("no flush count: %s has %d fields", stat, len(fields))
	}
	n, err := strconv.ParseUint(fields[15], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// diskBelow names the whole disk under dir as major:minor.
func diskBelow(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys := "/sys/dev/block/" + dev
	if _, err := os.Stat(sys + "/partition"); err == nil {
		b, err := os.ReadFile(sys + "/../dev")
		return strings.TrimSpace(string(b)), err
	}
	if _, err := os.Stat(sys); err != nil {
		return "", fmt.Errorf("%s is not on a disk of its own (device %s)", dir, dev)
	}
	return dev, nil
}
