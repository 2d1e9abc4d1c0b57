package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
	"github.com/slipringmq/slipring/shard/sim"
)

func TestCreateRefusesWhatItMust(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{Topics: 3, Partitions: 20, MaxRecordBytes: 1 << 20}})
	c := w.Connect()
	set := func(mask uint32, f func(*frame.Settings)) frame.Settings {
		s := frame.Settings{Mask: mask}
		f(&s)
		return s
	}
	for _, x := range []struct {
		name  string
		parts uint32
		set   frame.Settings
		code  frame.ErrorCode
	}{
		{"", 1, frame.Settings{}, frame.ErrInvalidName},
		{"a..b", 1, frame.Settings{}, frame.ErrInvalidName},
		{"../../etc/passwd", 1, frame.Settings{}, frame.ErrInvalidName},
		{"_broker", 1, frame.Settings{}, frame.ErrInvalidName},
		{"a\x00b", 1, frame.Settings{}, frame.ErrInvalidName},
		{"t", 0, frame.Settings{}, frame.ErrInvalidSetting},
		{"t", 10_001, frame.Settings{}, frame.ErrLimit},
		{"t", 21, frame.Settings{}, frame.ErrLimit},
		{"t", 1, set(frame.SetStorage, func(s *frame.Settings) { s.Storage = frame.StorageMemory }), frame.ErrInvalidSetting},
		{"t", 1, set(frame.SetMaxRecordBytes, func(s *frame.Settings) { s.MaxRecordBytes = 2 << 20 }), frame.ErrInvalidSetting},
		{"t", 1, set(frame.SetSegmentBytes, func(s *frame.Settings) { s.SegmentBytes = 1 }), frame.ErrInvalidSetting},
	} {
		e := wantError(t, c.Call(frame.CmdCreateTopic, &frame.CreateTopic{Name: x.name, Partitions: x.parts, Settings: x.set}), x.code)
		if e.Outcome != frame.NotDone {
			t.Errorf("%q: %+v", x.name, e)
		}
	}
	for i := range 3 {
		create(t, c, fmt.Sprint("t", i), 2, frame.Settings{})
	}
	wantError(t, c.Call(frame.CmdCreateTopic, &frame.CreateTopic{Name: "t3", Partitions: 1}), frame.ErrLimit)
	wantError(t, c.Call(frame.CmdCreateTopic, &frame.CreateTopic{Name: "t1", Partitions: 1}), frame.ErrTopicExists)
	wantError(t, c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "nothing"}), frame.ErrUnknownTopic)
	c.Call(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t1"})
	create(t, c, "t3", 1, frame.Settings{}) // its place is free again
	for _, p := range w.Dev.Paths() {
		if strings.Contains(p, "t1") || strings.Contains(p, "etc") {
			t.Errorf("a name became a path: %s", p)
		}
	}
}

func TestListTopicsPages(t *testing.T) {
	w := start(t)
	c := w.Connect()
	for _, n := range []string{"b", "a.x", "a", "a.y", "c", "a-z", "B"} {
		create(t, c, n, 1, frame.Settings{})
	}
	list := func(m frame.ListTopics) string {
		t.Helper()
		var out frame.ListTopicsReply
		r := c.Call(frame.CmdListTopics, &m)
		if err := out.Decode(r.Payload); err != nil {
			t.Fatalf("%v %+v", r.Command, r.Error())
		}
		var names []string
		for _, s := range out.Topics {
			names = append(names, s.Name)
		}
		return fmt.Sprint(names, out.More)
	}
	for _, x := range []struct {
		m    frame.ListTopics
		want string
	}{
		{frame.ListTopics{}, "[B a a-z a.x a.y b c] false"},
		{frame.ListTopics{Limit: 3}, "[B a a-z] true"},
		{frame.ListTopics{Limit: 3, After: "a-z"}, "[a.x a.y b] true"},
		{frame.ListTopics{Limit: 3, After: "b"}, "[c] false"},
		{frame.ListTopics{After: "zzz"}, "[] false"},
		{frame.ListTopics{After: "a0"}, "[b c] false"},
		{frame.ListTopics{Prefix: "a."}, "[a.x a.y] false"},
		{frame.ListTopics{Prefix: "a", Limit: 2}, "[a a-z] true"},
		{frame.ListTopics{Prefix: "a.", After: "a.x"}, "[a.y] false"},
		{frame.ListTopics{Prefix: "a", After: "c"}, "[] false"},
	} {
		if got := list(x.m); got != x.want {
			t.Errorf("%+v: %s, want %s", x.m, got, x.want)
		}
	}
}

// Settings that were changed are there after a crash and after a checkpoint, and act.
func TestAlterTopic(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	alter := func(s frame.Settings) sim.Reply {
		return c.Call(frame.CmdAlterTopic, &frame.AlterTopic{Name: "t", Settings: s})
	}
	if r := alter(frame.Settings{Mask: frame.SetMaxRecordBytes | frame.SetRetentionMillis, MaxRecordBytes: 1024, RetentionMillis: 77_000}); r.Command != frame.CmdAlterTopic {
		t.Fatalf("%+v", r.Error())
	}
	wantError(t, alter(frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone}), frame.ErrInvalidSetting)
	wantError(t, alter(frame.Settings{Mask: frame.SetRetentionBytes, RetentionBytes: 0}), frame.ErrInvalidSetting)
	for starts := uint64(2); starts < 4; starts++ {
		wantError(t, c.Await(c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 1025)), frame.MaxPayload)), frame.ErrTooLarge)
		if got := describe(t, c, "t").Settings; got.RetentionMillis != 77_000 || got.MaxRecordBytes != 1024 || got.SegmentBytes != frame.DefaultSettings().SegmentBytes {
			t.Errorf("start %d: %+v", starts, got)
		}
		if starts == 3 {
			w.Stop()
		}
		w = restart(t, w, starts)
		c = w.Connect()
	}
}

func TestMetadata(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 3, frame.Settings{})
	var m frame.MetadataReply
	r := c.Call(frame.CmdMetadata, &frame.Metadata{Topics: []string{"t", "u", "a..b"}})
	if err := m.Decode(r.Payload); err != nil {
		t.Fatal(err)
	}
	if len(m.Endpoints) != 1 || m.Endpoints[0].Host != "sim" {
		t.Errorf("endpoints %+v", m.Endpoints)
	}
	if x := m.Topics[0]; x.Error != 0 || x.ID != id || len(x.Partitions) != 3 || x.Settings.Mask != frame.SetAll {
		t.Errorf("%+v", x)
	}
	if m.Topics[1].Error != frame.ErrUnknownTopic || m.Topics[2].Error != frame.ErrInvalidName {
		t.Errorf("%v %v", m.Topics[1].Error, m.Topics[2].Error)
	}
}

// Records go by number, by time and by bytes; log start moves to batch boundaries, is durable before anything is gone,
// and stays moved.
func TestRetention(t *testing.T) {
	forever := frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 64 << 10}
	with := func(mask uint32, v int64) frame.Settings {
		s := forever
		s.Mask |= mask
		s.RetentionRecords, s.RetentionMillis, s.RetentionBytes = v, v, v
		return s
	}
	for _, x := range []struct {
		name     string
		set      frame.Settings
		from, to uint64 // bounds of the log start, of 120 records in 60 batches, one a second
	}{
		{"none", forever, 0, 0},
		{"records", with(frame.SetRetentionRecords, 7), 112, 112}, // 113 is inside a batch
		{"time", with(frame.SetRetentionMillis, 10_500), 96, 104},
		{"bytes", with(frame.SetRetentionBytes, 100_000), 40, 90},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := start(t)
			c := w.Connect()
			id := create(t, c, "t", 1, x.set)
			for i := range 60 {
				produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, fmt.Sprint(i), strings.Repeat("x", 4000)))
				w.Advance(1e9)
			}
			for range 5 {
				w.Advance(1e9 / 4)
				w.Settle()
			}
			info := describe(t, c, "t").Partitions[0]
			if info.LogStart < x.from || info.LogStart > x.to || info.LogStart%2 != 0 || info.LogEnd != 120 {
				t.Fatalf("%+v, want a log start of %d to %d", info, x.from, x.to)
			}
			if x.to > 0 {
				if got := fetch(t, c, id, 0, 0); got.Error != frame.ErrOffsetOutOfRange || got.LogStart != info.LogStart || got.HighWatermark != 120 {
					t.Errorf("below the log start: %+v", got.FetchChunk)
				}
			}
			w = restart(t, w, 2)
			c = w.Connect()
			if again := describe(t, c, "t").Partitions[0]; again.LogStart < info.LogStart {
				t.Errorf("log start went back from %d to %d", info.LogStart, again.LogStart)
			}
			if got := fetch(t, c, id, 0, info.LogStart); len(got.values) != int(120-info.LogStart) {
				t.Errorf("%d records are left from %d on", len(got.values), info.LogStart)
			}
		})
	}
}

// Bytes on the medium rot: reads of them are refused by a typed error and nothing wrong is delivered; the rest is served.
func TestDamageIsTold(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 2, frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 64 << 10})
	for range 40 {
		produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, strings.Repeat("x", 4000)))
		produce(t, c, id, 1, frame.AcksDurable, batchOf(batch.Options{}, "fine"))
	}
	w.Stop()
	dev := w.Dev.Crash()
	rotten := ""
	for _, p := range dev.Paths() {
		if strings.HasPrefix(p, fmt.Sprintf("topics/%d/0/", id)) && strings.HasSuffix(p, ".log") && rotten == "" {
			rotten = p
		}
	}
	if !dev.Flip(rotten, 20_000, 3) {
		t.Fatalf("no such file: %q", rotten)
	}
	w = startOn(t, dev, sim.Options{Start: 2, Mono: w.Now(), Wall: w.Wall(), Disk: sim.SmallDisk()})
	c = w.Connect()
	got := fetch(t, c, id, 0, 0)
	if got.Error == 0 && len(got.values) >= 40 {
		t.Fatal("nothing was noticed")
	}
	for _, v := range got.values {
		if v != strings.Repeat("x", 4000) {
			t.Fatal("a changed record was delivered")
		}
	}
	if got.Error == 0 { // what lies before the damage
		got = fetch(t, c, id, 0, uint64(len(got.values)))
	}
	if got.Error != frame.ErrDamaged {
		t.Errorf("%v", got.Error.Name())
	}
	if got := fetch(t, c, id, 1, 0); len(got.values) != 40 {
		t.Errorf("the other partition gives %d of 40", len(got.values))
	}
}
