package shard_test

import (
	"bytes"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/shard"
	"github.com/slipringmq/slipring/shard/sim"
)

// What docs/PROTOCOL.md says about refusals: the code, and whether the connection goes on.

// refused is a request that must be answered with code.
type refused struct {
	name string
	code frame.ErrorCode
	send func(c *sim.Client) (id uint64)
}

// alter changes the header of a batch and makes its CRC right again.
func alter(b []byte, change func(h *batch.Header)) []byte {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	change(&h)
	return append(h.Append(nil), b[batch.HeaderBytes:]...)
}

// parted sends a batch in two parts; the second one has what follows n bytes of the batch.
func parted(c *sim.Client, id uint64, topic uint32, b []byte, n int) uint64 {
	m := frame.Produce{Topic: topic, Acks: frame.AcksDurable, Batch: b[:n]}
	p := m.Append(nil)
	c.Raw(append(frame.AppendHeader(nil, frame.CmdProduce, frame.FlagMore, id, len(p)), p...))
	c.Raw(append(frame.AppendHeader(nil, frame.CmdProduce, 0, id, len(b)-n), b[n:]...))
	return id
}

// raw sends a frame whose header is changed.
func raw(cmd frame.Command, id uint64, payload []byte, change func(head []byte)) func(*sim.Client) uint64 {
	return func(c *sim.Client) uint64 {
		p := append(frame.AppendHeader(nil, cmd, 0, id, len(payload)), payload...)
		if change != nil {
			change(p)
		}
		c.Raw(p)
		return id
	}
}

// Every refusal has the code of the page and closes the connection exactly where the error table says so; on one that
// stays open the next request is answered.
func TestRefusalsCloseAsTheTableSays(t *testing.T) {
	w := start(t)
	admin := w.Connect()
	log := create(t, admin, "log", 2, frame.Settings{})
	create(t, admin, "none", 2, frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone})
	pid := producerID(t, admin)
	one := batchOf(batch.Options{}, "value")
	long := append(bytes.Clone(one), 0)
	const id = 1 << 20
	ask := func(cmd frame.Command, m sim.Message) func(*sim.Client) uint64 {
		return func(c *sim.Client) uint64 { return c.Send(cmd, m) }
	}
	produce := func(b []byte) func(*sim.Client) uint64 {
		return func(c *sim.Client) uint64 { return c.Produce(log, 0, frame.AcksDurable, b, frame.MaxPayload) }
	}
	settings := func(s frame.Settings) func(*sim.Client) uint64 {
		return ask(frame.CmdCreateTopic, &frame.CreateTopic{Name: "new", Partitions: 1, Settings: s})
	}
	part := frame.FetchPartition{Topic: log, MaxBytes: 1}
	waiting := &frame.Fetch{MaxWaitMillis: 60_000, MinBytes: 1, Partitions: []frame.FetchPartition{part}}
	for _, x := range []refused{
		{"unknown command", frame.ErrUnknownCommand, raw(frame.CmdPing, id, nil, func(p []byte) { p[5] = 99 })},
		{"unknown command with a payload", frame.ErrUnknownCommand, raw(frame.CmdPing, id, make([]byte, 5000), func(p []byte) { p[5] = 99 })},
		{"unknown flag", frame.ErrUnknownCommand, raw(frame.CmdPing, id, nil, func(p []byte) { p[6] = 4 })},
		{"other version", frame.ErrVersion, raw(frame.CmdPing, id, nil, func(p []byte) { p[4] = 9 })},
		{"frame above 1 MiB", frame.ErrMalformed, raw(frame.CmdPing, id, nil, func(p []byte) { p[2], p[3] = 0, 1 })},
		{"reply flag", frame.ErrMalformed, raw(frame.CmdPing, id, nil, func(p []byte) { p[6] = 2 })},
		{"PING in parts", frame.ErrOutOfOrder, raw(frame.CmdPing, id, nil, func(p []byte) { p[6] = 1 })},
		{"second HELLO", frame.ErrOutOfOrder, ask(frame.CmdHello, &frame.Hello{MinVersion: 1, MaxVersion: 1})},
		{"AUTH with data", frame.ErrUnauthenticated, ask(frame.CmdAuth, &frame.Auth{Mechanism: "none", Data: []byte{1}})},
		{"AUTH of another kind", frame.ErrUnauthenticated, ask(frame.CmdAuth, &frame.Auth{Mechanism: "plain"})},
		{"PING with a payload", frame.ErrMalformed, raw(frame.CmdPing, id, []byte{1}, nil)},

		{"METADATA of 1,001 names", frame.ErrLimit, ask(frame.CmdMetadata, &frame.Metadata{Topics: make([]string, 1001)})},
		{"LIST TOPICS of 10,001", frame.ErrLimit, ask(frame.CmdListTopics, &frame.ListTopics{Limit: 10_001})},
		{"CREATE without partitions", frame.ErrInvalidSetting, ask(frame.CmdCreateTopic, &frame.CreateTopic{Name: "new"})},
		{"CREATE of 10,001 partitions", frame.ErrLimit, ask(frame.CmdCreateTopic, &frame.CreateTopic{Name: "new", Partitions: 10_001})},
		{"CREATE of a bad name", frame.ErrInvalidName, ask(frame.CmdCreateTopic, &frame.CreateTopic{Name: "a..b", Partitions: 1})},
		{"retention 0", frame.ErrInvalidSetting, settings(frame.Settings{Mask: frame.SetRetentionBytes})},
		{"retention -2", frame.ErrInvalidSetting, settings(frame.Settings{Mask: frame.SetRetentionRecords, RetentionRecords: -2})},
		{"DESCRIBE of a bad name", frame.ErrInvalidName, ask(frame.CmdDescribeTopic, &frame.DescribeTopic{Name: "a b"})},
		{"DESCRIBE of an unknown one", frame.ErrUnknownTopic, ask(frame.CmdDescribeTopic, &frame.DescribeTopic{Name: "unknown"})},
		{"DELETE of a bad name", frame.ErrInvalidName, ask(frame.CmdDeleteTopic, &frame.DeleteTopic{Name: ""})},
		{"ALTER of a bad name", frame.ErrInvalidName, ask(frame.CmdAlterTopic, &frame.AlterTopic{Name: ".a"})},

		{"batch longer than its header says", frame.ErrCorrupt, produce(long)},
		{"the same in parts", frame.ErrCorrupt, func(c *sim.Client) uint64 { return parted(c, id, log, long, len(long)-1) }},
		{"the same in parts, cut before", frame.ErrCorrupt, func(c *sim.Client) uint64 { return parted(c, id, log, long, len(long)-2) }},
		{"batch shorter than its header says", frame.ErrCorrupt, produce(one[:len(one)-1])},
		{"the same in parts", frame.ErrCorrupt, func(c *sim.Client) uint64 { return parted(c, id, log, one[:len(one)-1], len(one)-2) }},
		{"first part without the batch header", frame.ErrMalformed, func(c *sim.Client) uint64 { return parted(c, id, log, one, 95) }},
		{"PRODUCE without a batch header", frame.ErrMalformed, produce(one[:95])},
		{"codec 5", frame.ErrCorrupt, produce(alter(one, func(h *batch.Header) { h.Attributes = 5 }))},
		{"negative expiry", frame.ErrCorrupt, produce(alter(one, func(h *batch.Header) { h.Expiry = -1 }))},
		{"expiry", frame.ErrInvalidSetting, produce(alter(one, func(h *batch.Header) { h.Expiry = 1 << 40 }))},
		{"producer id that was never given", frame.ErrUnknownProducer, produce(batchOf(batch.Options{ProducerID: pid + 1}, "a"))},
		{"producer id of no start", frame.ErrUnknownProducer, produce(batchOf(batch.Options{ProducerID: 7}, "a"))},
		{"PUBLISH above 64 KiB", frame.ErrTooLarge, ask(frame.CmdPublish, &frame.Publish{Topic: log, Acks: frame.AcksDurable, Value: make([]byte, 65_525)})},

		{"FETCH of nothing", frame.ErrMalformed, ask(frame.CmdFetch, &frame.Fetch{})},
		{"FETCH of a partition twice", frame.ErrMalformed, ask(frame.CmdFetch, &frame.Fetch{Partitions: []frame.FetchPartition{part, part}})},
		{"FETCH under the id of a waiting one", frame.ErrOutOfOrder, func(c *sim.Client) uint64 {
			c.SendAs(frame.CmdFetch, id, waiting)
			c.SendAs(frame.CmdFetch, id, waiting)
			return id
		}},
		{"SUBSCRIBE under the id of a waiting FETCH", frame.ErrOutOfOrder, func(c *sim.Client) uint64 {
			c.SendAs(frame.CmdFetch, id, waiting)
			c.SendAs(frame.CmdSubscribe, id, &frame.Subscribe{Name: "log"})
			return id
		}},
		{"LIST OFFSETS of the start with a time", frame.ErrMalformed, func(c *sim.Client) uint64 {
			p := (&frame.ListOffsets{Partitions: []frame.OffsetQuery{{Topic: log}}}).Append(nil)
			p[len(p)-1] = 1
			return raw(frame.CmdListOffsets, id, p, nil)(c)
		}},
		{"SUBSCRIBE to all from an offset", frame.ErrUnknownPartition, ask(frame.CmdSubscribe, &frame.Subscribe{Name: "log", Partition: frame.AllPartitions, Start: frame.SubscribeOffset})},
		{"SUBSCRIBE from the start of none", frame.ErrInvalidSetting, ask(frame.CmdSubscribe, &frame.Subscribe{Name: "none", Partition: frame.AllPartitions, Start: frame.SubscribeLog})},
		{"SUBSCRIBE from an offset of none", frame.ErrInvalidSetting, ask(frame.CmdSubscribe, &frame.Subscribe{Name: "none", Start: frame.SubscribeOffset})},
		{"SUBSCRIBE to a bad name", frame.ErrInvalidName, ask(frame.CmdSubscribe, &frame.Subscribe{Name: "a*"})},
		{"UNSUBSCRIBE of nothing", frame.ErrUnknownSubscription, ask(frame.CmdUnsubscribe, &frame.Unsubscribe{})},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := w.Connect()
			r := c.Await(x.send(c))
			wantError(t, r, x.code)
			if c.Open() == x.code.Closes() {
				t.Fatalf("after %s the connection is open: %v", x.code.Name(), c.Open())
			}
			if !x.code.Closes() {
				if r := c.Call(frame.CmdPing, &frame.Empty{}); r.Command != frame.CmdPing {
					t.Errorf("after %s PING is answered %v %s", x.code.Name(), r.Command, r.Error().Text)
				}
			}
		})
	}
	wantValues(t, fetch(t, admin, log, 0, 0).values) // nothing of it was stored
}

// Who wants no reply is not told that a PUBLISH is too large, and the connection goes on.
func TestPublishWithoutReplyIsRefusedInSilence(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	c.Send(frame.CmdPublish, &frame.Publish{Topic: id, Value: make([]byte, 65_525)})
	silent(t, c, "no reply was wanted")
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
}

// Eight PRODUCE requests may have parts to come. The ninth is answered Limit when it is complete and disturbs nobody;
// a client that mixes more than 64 has lost count.
func TestUploadsAboveTheirLimitAreRefused(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	b := batchOf(batch.Options{}, "value")
	first := func(req uint64) {
		p := (&frame.Produce{Topic: id, Acks: frame.AcksDurable, Batch: b[:100]}).Append(nil)
		c.Raw(append(frame.AppendHeader(nil, frame.CmdProduce, frame.FlagMore, req, len(p)), p...))
	}
	last := func(req uint64) sim.Reply {
		c.Raw(append(frame.AppendHeader(nil, frame.CmdProduce, 0, req, len(b)-100), b[100:]...))
		return c.Await(req)
	}
	for req := range uint64(9) {
		first(1000 + req)
	}
	silent(t, c, "no request is complete")
	wantError(t, last(1008), frame.ErrLimit)
	for req := range uint64(8) {
		if r := last(1000 + req); r.Command != frame.CmdProduce {
			t.Errorf("request %d: %v %s", req, r.Command, r.Error().Text)
		}
	}
	for req := range uint64(65) {
		if !c.Open() {
			t.Fatalf("closed at %d", req)
		}
		first(2000 + req)
	}
	wantError(t, c.Await(2064), frame.ErrOutOfOrder)
	if c.Open() {
		t.Error("65 requests in parts are accepted")
	}
}

// A frame for which there is no memory is answered Busy and skipped.
func TestFrameWithoutMemoryIsBusy(t *testing.T) {
	w := startOn(t, disk.NewSim(disk.SimOptions{Seed: 1}), sim.Options{Disk: sim.SmallDisk(), Limits: shard.Limits{UploadBytes: 64 << 10}})
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	m := frame.Fetch{Partitions: make([]frame.FetchPartition, 5000)}
	p := m.Append(nil)
	feed := func(cmd frame.Command, req uint64, p []byte) {
		c.Raw(frame.AppendHeader(nil, cmd, 0, req, len(p)))
		for len(p) > 0 {
			n := min(len(p), 7000)
			c.Raw(p[:n])
			p = p[n:]
		}
	}
	feed(frame.CmdFetch, 1000, p)
	wantError(t, c.Await(1000), frame.ErrBusy)
	holder := w.Connect() // keeps what memory there is
	holder.Raw(frame.AppendHeader(nil, frame.CmdFetch, 0, 1, 100_000))
	holder.Raw(make([]byte, 50_000))
	feed(frame.CmdPublish, 1001, (&frame.Publish{Topic: id, Value: make([]byte, 20_000)}).Append(nil))
	silent(t, c, "no reply was wanted")
	feed(frame.CmdPublish, 1002, (&frame.Publish{Topic: id, Acks: frame.AcksDurable, Value: make([]byte, 20_000)}).Append(nil))
	wantError(t, c.Await(1002), frame.ErrBusy)
	holder.Hangup()
	produce(t, c, id, 0, frame.AcksDurable, batchOf(batch.Options{}, "a"))
	wantValues(t, fetch(t, c, id, 0, 0).values, "a")
}

// A frame that has only just begun is not taken for a slow one because another one began long ago; one that really stops
// ends the connection.
func TestSlowFramesAreJudgedByTheirOwnTime(t *testing.T) {
	w := start(t)
	c := w.Connect()
	ping := frame.AppendHeader(nil, frame.CmdPing, 0, 1000, 0)
	c.Raw(ping[:7])
	c.Raw(ping[7:])
	w.Advance(9_999e6)
	w.Turn(0)
	c.Raw(ping[:7])
	w.Advance(2e6)
	w.Turn(0)
	w.Turn(0)
	next(t, c) // the PING
	silent(t, c, "the second frame is 2 ms old")
	w.Advance(11e9)
	w.Turn(0)
	if wantError(t, next(t, c), frame.ErrTimeout); c.Open() {
		t.Error("the connection is still open")
	}
}
