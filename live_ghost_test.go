package slipring_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// On a slow disk a broker is killed with writes in flight. The kernel goes on with them, so the next start waits until
// they have landed, says so, and has everything that was acknowledged.
func TestLiveStartWaitsForGhostWrites(t *testing.T) {
	const large, slow = 1 << 20, 2 << 20
	dir := t.TempDir()
	broker := startChild(t, dir, "")
	c := connect(t, broker.addr)
	id, err := c.CreateTopic(within(t, 10*time.Second), "ghosts", 4, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w := dial(t, broker.addr)
	for partition := range uint32(4) { // every segment exists, and its first batch is acknowledged
		h, _ := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: id, Partition: partition, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, string(make([]byte, 200_000)))})
		if h.Command != frame.CmdProduce {
			t.Fatalf("%v", h.Command)
		}
	}
	unix.Sync() // nothing else may wait in the slow disk's queue
	slowDown(t, broker.cmd.Process.Pid, dir, slow)
	before := broker.stats(t).Shard.BytesIn
	body := batchOf(batch.Options{}, string(make([]byte, large)))
	for partition := range uint32(4) {
		w.send(t, frame.CmdProduce, &frame.Produce{Topic: id, Partition: partition, Acks: frame.AcksDurable, Batch: body})
	}
	// The counters are told at the end of a turn. Once they are told again, what the first time told of is with the kernel.
	eventually(t, 20*time.Second, "all of it arrives", func() bool { return broker.stats(t).Shard.BytesIn >= before+4*large })
	broker.stats(t)
	began := time.Now()
	if err := broker.cmd.Process.Kill(); err != nil { // reaped later: the exit itself waits for the slow disk
		t.Fatal(err)
	}
	again := startChild(t, dir, "")
	took := time.Since(began)
	broker.kill()
	for partition, p := range describe(t, connect(t, again.addr), "ghosts").Partitions {
		if p.HighWatermark < 1 || p.HighWatermark > 2 || p.Error != 0 {
			t.Errorf("partition %d: %+v", partition, p)
		}
	}
	again.stop(t)
	log := again.log.String()
	t.Logf("the second start took %v and said:\n%s", took, log)
	if !strings.Contains(log, "last writes to land") || strings.Contains(log, "level=ERROR") {
		t.Error("it did not say that it waits, or it found damage")
	}
	if took < 500*time.Millisecond {
		t.Errorf("it waited %v for megabytes at %d bytes a second", took, slow)
	}
}

// slowDown limits what a process writes to the disk of dir, by a control group of its own; bytes a second.
func slowDown(t *testing.T, pid int, dir string, rate int) {
	t.Helper()
	disk, err := diskBelow(dir)
	if err != nil {
		t.Skipf("no throttle: %v", err)
	}
	var failed []error
	for _, way := range []struct{ base, file, line string }{
		{"/sys/fs/cgroup/blkio", "blkio.throttle.write_bps_device", fmt.Sprintf("%s %d", disk, rate)},
		{"/sys/fs/cgroup", "io.max", fmt.Sprintf("%s wbps=%d", disk, rate)},
	} {
		group := filepath.Join(way.base, fmt.Sprintf("slipring-live-%d", pid))
		if err := os.Mkdir(group, 0o755); err != nil {
			failed = append(failed, err)
			continue
		}
		t.Cleanup(func() {
			eventually(t, 20*time.Second, "the control group is empty", func() bool {
				err := os.Remove(group)
				return err == nil || errors.Is(err, os.ErrNotExist)
			})
		})
		if way.file == "io.max" {
			_ = os.WriteFile(filepath.Join(way.base, "cgroup.subtree_control"), []byte("+io"), 0o644)
		}
		err := errors.Join(writeExisting(filepath.Join(group, way.file), way.line),
			writeExisting(filepath.Join(group, "cgroup.procs"), fmt.Sprint(pid)))
		if err == nil {
			return
		}
		failed = append(failed, err)
	}
	t.Skipf("no throttle: needs root and a cgroup with blkio (v1) or io (v2): %v", errors.Join(failed...))
}

// writeExisting does not make the file: a mistyped control would be one that limits nothing.
func writeExisting(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
