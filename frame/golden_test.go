package frame

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

type message interface {
	Append(dst []byte) []byte
	Decode(p []byte) error
}

// golden is one file of testdata and what its bytes say.
type golden struct {
	file  string
	cmd   Command
	flags uint16
	id    uint64
	msg   message
}

const goldenTime = 1767225600000 // 2026-01-01T00:00:00Z

func allSettings(change func(*Settings)) Settings {
	s := DefaultSettings()
	change(&s)
	return s
}

func week(s *Settings) { s.RetentionMillis = 7 * 24 * 3600 * 1000 }

func goldens(t testing.TB) []golden {
	one := readHex(t, "batch/testdata/batch_one.hex")
	pushed := readHex(t, "testdata/deliver.hex")[HeaderBytes+DeliverFixedBytes:]
	return []golden{
		{"hello_request", CmdHello, 0, 1, &Hello{MinVersion: 1, MaxVersion: 1, ClientName: "billing-7", Software: "slipring-go/0.1"}},
		{"hello_reply", CmdHello, FlagReply, 1, &HelloReply{Version: 1, DirectoryID: [16]byte{16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
			ProduceWindow: 8 << 20, MaxPayload: 1 << 20, Shard: 1, Shards: 4}},
		{"auth_request", CmdAuth, 0, 2, &Auth{Mechanism: "none", Data: []byte{}}},
		{"auth_reply", CmdAuth, FlagReply, 2, &AuthReply{Done: true, Data: []byte{}}},
		{"ping_request", CmdPing, 0, 3, &Empty{}},
		{"ping_reply", CmdPing, FlagReply, 3, &Empty{}},
		{"metadata_request", CmdMetadata, 0, 4, &Metadata{Topics: []string{"orders.eu", "nope"}}},
		{"metadata_reply", CmdMetadata, FlagReply, 4, &MetadataReply{
			Endpoints: []Endpoint{{"10.0.0.5", 7401, 0}, {"10.0.0.5", 7402, 1}},
			Topics: []TopicMetadata{
				{Name: "orders.eu", ID: 7, Settings: allSettings(week), Partitions: []uint16{0, 1, 0}},
				{Error: ErrUnknownTopic, Name: "nope"},
			}}},
		{"create_topic_request", CmdCreateTopic, 0, 5, &CreateTopic{Name: "orders.eu", Partitions: 3,
			Settings: Settings{Mask: SetDurability | SetIntervalMillis, Durability: DurabilityInterval, IntervalMillis: 250}}},
		{"create_topic_reply", CmdCreateTopic, FlagReply, 5, &CreateTopicReply{ID: 7}},
		{"delete_topic_request", CmdDeleteTopic, 0, 6, &DeleteTopic{Name: "orders.eu"}},
		{"delete_topic_reply", CmdDeleteTopic, FlagReply, 6, &Empty{}},
		{"alter_topic_request", CmdAlterTopic, 0, 7, &AlterTopic{Name: "orders.eu",
			Settings: Settings{Mask: SetRetentionBytes | SetRetentionAcked, RetentionBytes: 1 << 30, RetentionAcked: true}}},
		{"alter_topic_reply", CmdAlterTopic, FlagReply, 7, &Empty{}},
		{"list_topics_request", CmdListTopics, 0, 8, &ListTopics{Prefix: "orders.", After: "orders.de", Limit: 2}},
		{"list_topics_reply", CmdListTopics, FlagReply, 8, &ListTopicsReply{More: true, Topics: []TopicSummary{
			{Name: "orders.eu", ID: 7, Partitions: 3, Records: 1000000, Bytes: 123456789},
			{Name: "orders.us", ID: 9, Partitions: 1, Storage: StorageNone},
		}}},
		{"describe_topic_request", CmdDescribeTopic, 0, 9, &DescribeTopic{Name: "orders.eu"}},
		{"describe_topic_reply", CmdDescribeTopic, FlagReply, 9, &DescribeTopicReply{Name: "orders.eu", ID: 7, Settings: allSettings(week),
			Partitions: []PartitionInfo{
				{Epoch: 3, LogStart: 100, LogEnd: 5000, DurableEnd: 4990, HighWatermark: 4990, Bytes: 987654, Segments: 2},
				{Partition: 1, Shard: 1, Error: ErrFenced, Epoch: 3, LogEnd: 70, DurableEnd: 70, HighWatermark: 70, Bytes: 7000, Segments: 1},
			}}},
		{"producer_id_request", CmdProducerID, 0, 10, &Empty{}},
		{"producer_id_reply", CmdProducerID, FlagReply, 10, &ProducerIDReply{ProducerID: 3<<32 | 9}},
		{"produce_request", CmdProduce, 0, 11, &Produce{Topic: 7, Partition: 2, Acks: AcksDurable, Batch: one}},
		{"produce_reply", CmdProduce, FlagReply, 11, &ProduceReply{Topic: 7, Partition: 2, BaseOffset: 1 << 33, AppendTime: goldenTime + 1234, LogStart: 100}},
		{"publish_request", CmdPublish, 0, 13, &Publish{Topic: 7, Partition: 2, Acks: AcksLeader, HasKey: true, Key: []byte("k1"), Value: []byte("hello")}},
		{"publish_reply", CmdPublish, FlagReply, 13, &ProduceReply{Topic: 7, Partition: 2, BaseOffset: 5000, AppendTime: goldenTime + 1234, LogStart: 100}},
		{"fetch_request", CmdFetch, 0, 14, &Fetch{MaxWaitMillis: 500, MinBytes: 1, MaxBytes: 4 << 20, Partitions: []FetchPartition{
			{7, 2, 1 << 33, 1 << 20}, {7, 0, 50, 1 << 20}}}},
		{"list_offsets_request", CmdListOffsets, 0, 15, &ListOffsets{Partitions: []OffsetQuery{
			{7, 0, OffsetStart, 0}, {7, 0, OffsetEnd, 0}, {7, 9, OffsetByTime, goldenTime}}}},
		{"list_offsets_reply", CmdListOffsets, FlagReply, 15, &ListOffsetsReply{Partitions: []OffsetAnswer{
			{7, 0, 0, 100, goldenTime}, {7, 0, 0, 5000, 0}, {7, 9, ErrUnknownPartition, 0, 0}}}},
		{"subscribe_request", CmdSubscribe, 0, 16, &Subscribe{Name: "orders.eu", Partition: AllPartitions, Records: 1000, Bytes: 1 << 20}},
		{"subscribe_reply", CmdSubscribe, FlagReply, 16, &Empty{}},
		{"deliver", CmdDeliver, FlagReply, 16, &Deliver{Topic: 7, Data: pushed}},
		{"credit", CmdCredit, 0, 16, &Credit{Records: 500, Bytes: 65536}},
		{"unsubscribe_request", CmdUnsubscribe, 0, 16, &Unsubscribe{}},
		{"unsubscribe_reply", CmdUnsubscribe, FlagReply, 16, &Empty{}},
		{"cancel", CmdCancel, 0, 17, &Cancel{RequestID: 14}},
		{"error", CmdError, FlagReply, 11, &Error{Code: ErrBusy, Retriable: true, DelayMillis: 50, Text: "produce window of 8 MiB is full; wait for replies"}},
		{"error_range", CmdError, FlagReply, 18, &Error{Code: ErrOffsetOutOfRange, First: 100, Last: 5000, Text: "offset 50 is below log start"}},
	}
}

// Version 1 bytes, made by another encoder, are what ours writes and what it reads.
func TestGoldenFrames(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.file, func(t *testing.T) {
			want := readHex(t, "testdata/"+g.file+".hex")
			if got := AppendFrame(nil, g.cmd, g.flags, g.id, g.msg); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, want\n%x", got, want)
			}
			h, payload := oneFrame(t, want)
			if h.Command != g.cmd || h.Flags != g.flags || h.RequestID != g.id || h.Version != Version {
				t.Errorf("header %+v", h)
			}
			got := fresh(g.msg)
			if err := got.Decode(payload); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, g.msg) {
				t.Errorf("decoded %+v, want %+v", got, g.msg)
			}
		})
	}
}

// The parts of a PRODUCE join to the batch.
func TestGoldenProduceParts(t *testing.T) {
	p := readHex(t, "testdata/produce_request_parts.hex")
	batch := readHex(t, "batch/testdata/batch_full.hex")
	h, payload, rest := nextFrame(t, p)
	if h.Command != CmdProduce || !h.More() || h.Reply() {
		t.Fatalf("first part %+v", h)
	}
	var m Produce
	if err := m.Decode(payload); err != nil {
		t.Fatal(err)
	}
	h2, tail := oneFrame(t, rest)
	if h2.More() || h2.RequestID != h.RequestID || h2.Command != CmdProduce {
		t.Errorf("second part %+v", h2)
	}
	if joined := append(bytes.Clone(m.Batch), tail...); !bytes.Equal(joined, batch) {
		t.Errorf("joined %x, want %x", joined, batch)
	}

	first := Produce{Topic: 7, Partition: 2, Acks: AcksDurable, Batch: batch[:len(m.Batch)]}
	got := AppendFrame(nil, CmdProduce, FlagMore, 12, &first)
	got = append(AppendHeader(got, CmdProduce, 0, 12, len(tail)), batch[len(m.Batch):]...)
	if !bytes.Equal(got, p) {
		t.Errorf("encoded\n%x, want\n%x", got, p)
	}
}

// The chunks of a FETCH reply join to whole batches.
func TestGoldenFetchReply(t *testing.T) {
	p := readHex(t, "testdata/fetch_reply.hex")
	batch := readHex(t, "batch/testdata/batch_stamped.hex")
	_, first, rest := nextFrame(t, p)
	h, second := oneFrame(t, rest)
	if h.Flags != FlagReply || h.RequestID != 14 {
		t.Errorf("last part %+v", h)
	}
	head := FetchChunk{Topic: 7, Partition: 2, HighWatermark: 1<<33 + 4, LogStart: 100}
	a, b := head, head
	a.Data, b.Data = batch[:128], batch[128:]
	c := FetchChunk{Topic: 7, Error: ErrOffsetOutOfRange, HighWatermark: 5000, LogStart: 100, Data: []byte{}}

	if got := chunks(t, first); !reflect.DeepEqual(got, []FetchChunk{a}) {
		t.Errorf("first part holds %+v", got)
	}
	if got := chunks(t, second); !reflect.DeepEqual(got, []FetchChunk{b, c}) {
		t.Errorf("second part holds %+v", got)
	}
	got := AppendFrame(nil, CmdFetch, FlagMore|FlagReply, 14, &a)
	got = AppendParts(got, CmdFetch, FlagReply, 14, c.Append(b.Append(nil)))
	if !bytes.Equal(got, p) {
		t.Errorf("encoded\n%x, want\n%x", got, p)
	}
}

// Every golden file is compared with something, and every command has one.
func TestGoldenFilesAreComplete(t *testing.T) {
	used := map[string]bool{"produce_request_parts": true, "fetch_reply": true}
	commands := map[Command]bool{}
	for _, g := range goldens(t) {
		used[g.file] = true
		commands[g.cmd] = true
	}
	files, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(files) != len(used) {
		t.Errorf("%d files, %d used, %v", len(files), len(used), err)
	}
	for _, f := range files {
		if !used[strings.TrimSuffix(filepath.Base(f), ".hex")] {
			t.Errorf("%s is not compared with anything", f)
		}
	}
	for c := range Command(255) {
		if c.Known() && !commands[c] {
			t.Errorf("%v has no golden file", c)
		}
	}
}

// readHex reads hex with # comments.
func readHex(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseHex(t, string(text))
}

func parseHex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(code), ""))
	}
	p, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nextFrame(t testing.TB, p []byte) (h Header, payload, rest []byte) {
	t.Helper()
	h, err := ParseHeader(p)
	if err != nil {
		t.Fatal(err)
	}
	end := HeaderBytes + h.PayloadBytes()
	if end > len(p) {
		t.Fatalf("frame of %d bytes, %d are there", end, len(p))
	}
	return h, p[HeaderBytes:end], p[end:]
}

func oneFrame(t testing.TB, p []byte) (Header, []byte) {
	t.Helper()
	h, payload, rest := nextFrame(t, p)
	if len(rest) != 0 {
		t.Fatalf("%d bytes after the frame", len(rest))
	}
	return h, payload
}

func chunks(t testing.TB, p []byte) (out []FetchChunk) {
	t.Helper()
	for len(p) > 0 {
		c, rest, err := NextChunk(p)
		if err != nil {
			t.Fatal(err)
		}
		out, p = append(out, c), rest
	}
	return out
}

// fresh is a new zero value of m's type.
func fresh(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}
