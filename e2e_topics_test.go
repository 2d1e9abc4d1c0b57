package slipring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// A topic is created, seen, changed, deleted and created again through a client, and a restart changes nothing.
func TestTopicLife(t *testing.T) {
	cfg := testConfig(t.TempDir())
	b := openBroker(t, cfg)
	ctx := within(t, 30*time.Second)
	c := connect(t, b.Addr().String())

	first, err := c.CreateTopic(ctx, "orders.eu", 3, frame.Settings{Mask: frame.SetRetentionRecords, RetentionRecords: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if _, err := c.CreateTopic(ctx, fmt.Sprintf("list.%02d", i), 1, frame.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	checkList(t, c, "list.", 12)
	checkList(t, c, "list.1", 2)
	checkList(t, c, "nothing", 0)
	if m := describe(t, c, "orders.eu"); m.ID != first || len(m.Partitions) != 3 || m.Settings.RetentionRecords != 1000 ||
		m.Settings.Storage != frame.StorageLog || m.Settings.Durability != frame.DurabilitySync || m.Settings.SegmentBytes != uint32(cfg.SegmentBytes) {
		t.Errorf("described as %+v", m)
	}
	if err := c.AlterTopic(ctx, "orders.eu", frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 4096}); err != nil {
		t.Error(err)
	}
	if s := describe(t, c, "orders.eu").Settings; s.MaxRecordBytes != 4096 || s.RetentionRecords != 1000 {
		t.Errorf("altered to %+v", s)
	}
	produceValues(t, c, "orders.eu", client.ProducerOptions{Partitioner: client.RoundRobin()}, "a", "b", "c")

	closeBroker(t, b)
	b = openBroker(t, cfg)
	c = connect(t, b.Addr().String())
	checkList(t, c, "", 13)
	m := describe(t, c, "orders.eu")
	if m.ID != first || m.Settings.MaxRecordBytes != 4096 {
		t.Errorf("after a restart: %+v", m)
	}
	for _, p := range m.Partitions {
		if p.HighWatermark != 1 {
			t.Errorf("after a restart: partition %d ends at %d", p.Partition, p.HighWatermark)
		}
	}
	recreate(t, c, b.Addr().String(), first)
}

// recreate deletes orders.eu and makes it again: another id, nothing in it, and the old id is no more.
func recreate(t *testing.T, c *client.Client, addr string, first uint32) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	if err := c.DeleteTopic(ctx, "orders.eu"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DescribeTopic(ctx, "orders.eu"); !errors.Is(err, client.ErrUnknownTopic) {
		t.Errorf("a deleted topic is described: %v", err)
	}
	if err := c.DeleteTopic(ctx, "orders.eu"); !errors.Is(err, client.ErrUnknownTopic) {
		t.Errorf("deleted twice: %v", err)
	}
	second, err := c.CreateTopic(ctx, "orders.eu", 2, frame.Settings{})
	if err != nil || second == first {
		t.Fatalf("created again as %d, was %d: %v", second, first, err)
	}
	for _, p := range describe(t, c, "orders.eu").Partitions {
		if p.LogStart != 0 || p.LogEnd != 0 || p.HighWatermark != 0 {
			t.Errorf("a new topic is not empty: %+v", p)
		}
	}
	w := dial(t, addr)
	h, payload := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: first, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, "late")})
	if e := refusal(t, h, payload); e.Code != frame.ErrUnknownTopic {
		t.Errorf("the id of the deleted topic was answered %v", e.Code)
	}
	produceValues(t, c, "orders.eu", client.ProducerOptions{}, "new")
}

// What a topic may not be is refused with the code that says why, and nothing is made.
func TestTopicRefusals(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	ctx := within(t, 20*time.Second)
	c := connect(t, b.Addr().String())
	if _, err := c.CreateTopic(ctx, "taken", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name       string
		partitions uint32
		settings   frame.Settings
		want       error
	}{
		{"taken", 1, frame.Settings{}, client.ErrTopicExists},
		{"", 1, frame.Settings{}, client.ErrInvalidName},
		{"a..b", 1, frame.Settings{}, client.ErrInvalidName},
		{"../etc", 1, frame.Settings{}, client.ErrInvalidName},
		{"_inbox.x", 1, frame.Settings{}, client.ErrInvalidName},
		{strings.Repeat("x", 256), 1, frame.Settings{}, client.ErrInvalidName},
		{"none", 0, frame.Settings{}, client.ErrInvalidSetting},
		{"many", frame.MaxTopicPartitions + 1, frame.Settings{}, client.ErrLimit},
		{"big", 1, frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 17 << 20}, client.ErrInvalidSetting},
		{"small", 1, frame.Settings{Mask: frame.SetSegmentBytes, SegmentBytes: 1}, client.ErrInvalidSetting},
		{"back", 1, frame.Settings{Mask: frame.SetRetentionMillis, RetentionMillis: -5}, client.ErrInvalidSetting},
	} {
		if _, err := c.CreateTopic(ctx, x.name, x.partitions, x.settings); !errors.Is(err, x.want) {
			t.Errorf("create %.20q with %d partitions and %+v: %v, want %v", x.name, x.partitions, x.settings, err, x.want)
		}
	}
	for _, x := range []struct {
		name     string
		settings frame.Settings
		want     error
	}{
		{"taken", frame.Settings{Mask: frame.SetStorage, Storage: frame.StorageNone}, client.ErrInvalidSetting},
		{"taken", frame.Settings{Mask: frame.SetDurability, Durability: frame.DurabilityNone}, client.ErrInvalidSetting},
		{"absent", frame.Settings{Mask: frame.SetRetentionBytes, RetentionBytes: 1}, client.ErrUnknownTopic},
	} {
		if err := c.AlterTopic(ctx, x.name, x.settings); !errors.Is(err, x.want) {
			t.Errorf("alter %s to %+v: %v, want %v", x.name, x.settings, err, x.want)
		}
	}
	checkList(t, c, "", 1)
}

// A name of the greatest length and every allowed byte works from end to end; case makes another topic.
func TestTopicNames(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	for _, name := range []string{strings.Repeat("x", 255), "A-Z.a_z.0-9", "Orders", "orders", "con.aux.nul"} {
		if _, err := c.CreateTopic(within(t, 10*time.Second), name, 1, frame.Settings{}); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		produceValues(t, c, name, client.ProducerOptions{}, name)
		if got := consumeValues(t, c, name, client.ConsumerOptions{UntilEnd: true}); len(got) != 1 || got[0] != name {
			t.Errorf("%q holds %q", name, got)
		}
	}
}

func checkList(t *testing.T, c *client.Client, prefix string, want int) {
	t.Helper()
	got, err := c.ListTopics(within(t, 10*time.Second), prefix)
	if err != nil || len(got) != want {
		t.Fatalf("topics that begin with %q: %d (%v), want %d", prefix, len(got), err, want)
	}
	for i := range got {
		if !strings.HasPrefix(got[i].Name, prefix) || i > 0 && got[i].Name <= got[i-1].Name {
			t.Errorf("listed out of place: %s", got[i].Name)
		}
	}
}

func describe(t testing.TB, c *client.Client, name string) *client.TopicDescription {
	t.Helper()
	m, err := c.DescribeTopic(within(t, 10*time.Second), name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// produceValues appends one record for each value and waits for all of them.
func produceValues(t testing.TB, c *client.Client, topic string, o client.ProducerOptions, values ...string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	p, err := c.Producer(ctx, topic, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := p.Produce(ctx, &client.Record{Value: []byte(v)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// consumeValues reads up to the end.
func consumeValues(t testing.TB, c *client.Client, topic string, o client.ConsumerOptions) (values []string) {
	t.Helper()
	o.UntilEnd = true
	for _, r := range consumeAll(t, c, topic, o) {
		values = append(values, string(r.Value))
	}
	return values
}

func consumeAll(t testing.TB, c *client.Client, topic string, o client.ConsumerOptions) (records []client.Record) {
	t.Helper()
	ctx := within(t, 60*time.Second)
	o.UntilEnd = true
	s, err := c.Consumer(ctx, topic, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for r, err := range s.Records(ctx) {
		if err != nil {
			t.Fatalf("after %d records: %v", len(records), err)
		}
		records = append(records, *r)
	}
	return records
}
