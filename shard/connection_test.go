package shard_test

import (
	"math/rand/v2"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
	"github.com/slipringmq/slipring/shard/sim"
)

// What breaks the protocol is answered, and the connection closes.
func TestProtocolErrorsClose(t *testing.T) {
	hello := frame.AppendFrame(nil, frame.CmdHello, 0, 1, &frame.Hello{MinVersion: 1, MaxVersion: 1})
	ping := frame.AppendFrame(nil, frame.CmdPing, 0, 9, &frame.Empty{})
	raw := func(cmd frame.Command, flags uint16, payload ...byte) []byte {
		return append(frame.AppendHeader(nil, cmd, flags, 9, len(payload)), payload...)
	}
	for _, x := range []struct {
		name  string
		first bool // without HELLO
		bytes []byte
		code  frame.ErrorCode
		open  bool
	}{
		{"no HELLO", true, ping, frame.ErrOutOfOrder, false},
		{"HELLO of another version", true, frame.AppendFrame(nil, frame.CmdHello, 0, 9, &frame.Hello{MinVersion: 2, MaxVersion: 3}), frame.ErrVersion, false},
		{"HELLO that does not parse", true, raw(frame.CmdHello, 0, 1), frame.ErrMalformed, false},
		{"HELLO twice", false, hello, frame.ErrOutOfOrder, false},
		{"short length", false, []byte{11, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, frame.ErrMalformed, false},
		{"huge length", false, []byte{255, 255, 255, 255, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, frame.ErrMalformed, false},
		{"another protocol", false, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), frame.ErrMalformed, false},
		{"reply flag", false, raw(frame.CmdPing, frame.FlagReply), frame.ErrMalformed, false},
		{"parts of something else", false, raw(frame.CmdPing, frame.FlagMore), frame.ErrOutOfOrder, false},
		{"DELIVER", false, raw(frame.CmdDeliver, 0, make([]byte, 12)...), frame.ErrMalformed, false},
		{"trailing bytes", false, raw(frame.CmdPing, 0, 1), frame.ErrMalformed, false},
		{"PRODUCE without a header", false, raw(frame.CmdProduce, 0, make([]byte, 50)...), frame.ErrMalformed, false},
		{"first part without a header", false, raw(frame.CmdProduce, frame.FlagMore, make([]byte, 50)...), frame.ErrMalformed, false},
		{"a mechanism", false, frame.AppendFrame(nil, frame.CmdAuth, 0, 9, &frame.Auth{Mechanism: "SCRAM"}), frame.ErrUnauthenticated, false},
		{"unknown command", false, raw(99, 0, 1, 2, 3), frame.ErrUnknownCommand, true},
		{"unknown flag", false, raw(frame.CmdPing, 1<<9), frame.ErrUnknownCommand, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, dribble := range []bool{false, true} {
				w := start(t)
				c := w.Dial()
				if !x.first {
					c = w.Connect()
				}
				if !dribble {
					c.Raw(x.bytes)
				} else {
					for i := range x.bytes {
						c.Raw(x.bytes[i : i+1])
					}
				}
				wantError(t, next(t, c), x.code)
				if x.open {
					c.Raw(ping)
					if r := next(t, c); r.Command != frame.CmdPing || r.RequestID != 9 {
						t.Errorf("PING after it: %v", r.Command)
					}
				}
				silent(t, c, "once")
				w.Turn(0)
				if c.Open() != x.open {
					t.Errorf("open: %v", c.Open())
				}
				w.Connect() // the others are served
			}
		})
	}
}

// Connections that say nothing, or too little, are closed by deadline; one that completed HELLO may be silent for ever.
func TestDeadlines(t *testing.T) {
	w := start(t)
	mute, half, quiet, slow, steady := w.Dial(), w.Dial(), w.Connect(), w.Connect(), w.Connect()
	long := frame.AppendHeader(nil, frame.CmdFetch, 0, 1, 900_000)
	half.Raw([]byte{30, 0, 0})
	slow.Raw(long)
	steady.Raw(long)
	for range 60 {
		w.Advance(1e9)
		half.Raw([]byte{0})
		slow.Raw([]byte{0})
		steady.Raw(make([]byte, 10_000))
		w.Turn(1)
	}
	for _, x := range []struct {
		c    *sim.Client
		open bool
		name string
	}{{mute, false, "mute"}, {half, false, "half a header"}, {quiet, true, "quiet"}, {slow, false, "slow"}, {steady, true, "steady"}} {
		if x.c.Open() != x.open {
			t.Errorf("%s: open %v", x.name, x.c.Open())
		}
	}
	if st := w.Shard.Stats(); st.Deadlines != 3 || st.Connections != 2 {
		t.Errorf("%+v", st)
	}
}

// A client that sends and never reads is not read any more; it alone, and only until it reads.
func TestUnreadRepliesPauseTheirConnection(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{OutputHigh: 64 << 10, OutputPause: 100 << 10}})
	c, other := w.Connect(), w.Connect()
	for range 200 {
		create1 := frame.Metadata{Topics: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}}
		for range 10 {
			c.Send(frame.CmdMetadata, &create1)
		}
	}
	if w.Shard.Stats().Pauses != 1 {
		t.Errorf("%+v", w.Shard.Stats())
	}
	if r := other.Call(frame.CmdPing, &frame.Empty{}); r.Command != frame.CmdPing {
		t.Errorf("%v", r.Command)
	}
	for {
		if _, ok := c.Next(); !ok {
			break
		}
	}
	w.Turn(0)
	if w.Net.Paused(c.ID()) {
		t.Error("it reads again and is still paused")
	}
}

// A clean stop answers what waits, refuses what is new, makes everything durable and leaves nothing to repair.
func TestStop(t *testing.T) {
	w := start(t)
	c, reader, late := w.Connect(), w.Connect(), w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	lazy := create(t, c, "lazy", 1, durability(frame.DurabilityNone))
	sub := subscribe(t, reader, frame.Subscribe{Name: "t", Records: plenty, Bytes: plenty})
	waiting := reader.Send(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1, MaxBytes: 100, Partitions: []frame.FetchPartition{part(id, 0, 0)}})
	produce(t, c, lazy, 0, frame.AcksLeader, batchOf(batch.Options{}, "lazy"))
	w.Settle()
	staged := c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"), frame.MaxPayload)
	w.Shard.Stop()
	refused := late.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "b"), frame.MaxPayload)
	if e := wantError(t, late.Await(refused), frame.ErrStopping); !e.Retriable || e.Outcome != frame.NotDone {
		t.Errorf("%+v", e)
	}
	wantError(t, reader.Await(waiting), frame.ErrStopping)
	wantError(t, reader.Await(sub), frame.ErrStopping)
	if r := c.Await(staged); r.Command != frame.CmdProduce {
		t.Errorf("what was staged: %v %+v", r.Command, r.Error())
	}
	if !w.Stop() {
		t.Fatal("it does not stop")
	}
	if w.Dev.InFlight() != 0 || w.Shard.Stats().Connections != 0 {
		t.Errorf("%d ops, %d connections are left", w.Dev.InFlight(), w.Shard.Stats().Connections)
	}
	w = restart(t, w, 2)
	if !w.Report.Clean {
		t.Errorf("the start does not call it clean: %v", w.Report)
	}
	c = w.Connect()
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
	wantValues(t, fetch(t, c, lazy, 0, 0).values, "lazy")
}

// Random sequences of legal and illegal frames, cut anywhere: no panic, and other connections are served as before.
func FuzzReceived(f *testing.F) {
	hello := frame.AppendFrame(nil, frame.CmdHello, 0, 1, &frame.Hello{MinVersion: 1, MaxVersion: 1})
	add := func(frames ...[]byte) {
		p := append([]byte(nil), hello...)
		for _, x := range frames {
			p = append(p, x...)
		}
		f.Add(p, uint64(len(p)))
	}
	one := func(cmd frame.Command, m sim.Message) []byte { return frame.AppendFrame(nil, cmd, 0, 7, m) }
	produce := one(frame.CmdProduce, &frame.Produce{Topic: 1, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, "a", "b")})
	add()
	add(produce, produce)
	add(one(frame.CmdCreateTopic, &frame.CreateTopic{Name: "u", Partitions: 2}), one(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: "t"}), produce)
	add(one(frame.CmdSubscribe, &frame.Subscribe{Name: "t", Start: frame.SubscribeLog, Records: 5, Bytes: 100}), produce, one(frame.CmdUnsubscribe, &frame.Unsubscribe{}))
	add(one(frame.CmdFetch, &frame.Fetch{MaxWaitMillis: 10, MinBytes: 1, MaxBytes: 100, Partitions: []frame.FetchPartition{{Topic: 1, MaxBytes: 100}}}), one(frame.CmdCancel, &frame.Cancel{RequestID: 7}))
	add(one(frame.CmdPublish, &frame.Publish{Topic: 1, Acks: frame.AcksLeader, Value: []byte("v")}), one(frame.CmdListOffsets, &frame.ListOffsets{Partitions: []frame.OffsetQuery{{Topic: 1, Kind: frame.OffsetByTime, Time: 1}}}))
	add(one(frame.CmdProducerID, &frame.Empty{}), one(frame.CmdMetadata, &frame.Metadata{Topics: []string{"t"}}), one(frame.CmdListTopics, &frame.ListTopics{}), one(frame.CmdAuth, &frame.Auth{Mechanism: "none"}))
	f.Fuzz(func(t *testing.T, p []byte, seed uint64) {
		if len(p) > 4<<10 {
			return
		}
		w := start(t)
		honest := w.Connect()
		id := create(t, honest, "honest", 1, frame.Settings{})
		create(t, honest, "t", 2, frame.Settings{})
		c := w.Dial()
		rng := rand.New(rand.NewPCG(seed, 1))
		for len(p) > 0 {
			n := 1 + rng.IntN(len(p))
			c.Raw(p[:n])
			p = p[n:]
			w.Turn(rng.IntN(3))
		}
		w.Settle()
		for {
			if _, ok := c.Next(); !ok {
				break
			}
		}
		if rng.IntN(2) == 0 {
			c.Hangup()
		}
		w.Advance(200e9)
		w.Settle()
		if names := describe(t, honest, "honest"); names.ID == id { // unless the other one has deleted it
			m := honest.Await(honest.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "x"), frame.MaxPayload))
			if m.Command != frame.CmdProduce {
				t.Fatalf("an honest client gets %v %+v", m.Command, m.Error())
			}
		}
	})
}
