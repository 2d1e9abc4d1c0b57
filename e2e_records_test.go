package slipring_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

var codecs = []client.Codec{client.CodecNone, client.CodecGzip, client.CodecSnappy, client.CodecLZ4, client.CodecZstd}

// Records of every size from nothing to the greatest come back as they were, compressed or not, fetched, pushed, and read
// from the disk after a restart.
func TestRecordsOfAllSizes(t *testing.T) {
	sizes := []int{0, 1, 95, 96, 4095, 4096, 4097, 64 << 10, 65519, 128 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20, 16<<20 - len("14")}
	if testing.Short() {
		sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > 1<<20+1 })
	}
	cfg := testConfig(t.TempDir())
	b := openBroker(t, cfg)
	c := connect(t, b.Addr().String())
	var want [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	for _, codec := range codecs {
		var values [][]byte
		for _, n := range sizes {
			values = append(values, half(random, n))
		}
		want = values
		topic := "sizes." + codec.String()
		if _, err := c.CreateTopic(within(t, 10*time.Second), topic, 1, frame.Settings{}); err != nil {
			t.Fatal(err)
		}
		sub, err := c.Subscribe(within(t, 60*time.Second), topic, client.SubscribeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		produceSizes(t, c, topic, codec, values)
		checkSizes(t, "fetched from "+topic, consumeAll(t, c, topic, client.ConsumerOptions{}), values)
		checkSizes(t, "pushed from "+topic, take(t, sub, len(values)), values)
		sub.Close()
	}
	closeBroker(t, b)
	b = openBroker(t, cfg)
	c = connect(t, b.Addr().String())
	last := "sizes." + codecs[len(codecs)-1].String()
	checkSizes(t, "read from the disk", consumeAll(t, c, last, client.ConsumerOptions{}), want)
}

// half is half random, half zero, so that compressing it does something and not everything.
func half(random *rand.Rand, n int) []byte {
	v := make([]byte, n)
	for i := range n / 2 {
		v[i] = byte(random.Uint32())
	}
	return v
}

func produceSizes(t *testing.T, c *client.Client, topic string, codec client.Codec, values [][]byte) {
	t.Helper()
	ctx := within(t, 60*time.Second)
	p, err := c.Producer(ctx, topic, client.ProducerOptions{Compression: codec})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		err := p.Produce(ctx, &client.Record{Key: fmt.Append(nil, i), Value: v}, func(r client.Result) {
			if r.Err != nil || r.Offset != uint64(i) {
				t.Errorf("%s: record %d of %d bytes is at %d: %v", topic, i, len(v), r.Offset, r.Err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func checkSizes(t *testing.T, how string, got []client.Record, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d", how, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i].Value, want[i]) || string(got[i].Key) != fmt.Sprint(i) || got[i].Offset != uint64(i) {
			t.Errorf("%s: record %d (offset %d, key %s, %d bytes) is not what was sent (%d bytes)", how, i, got[i].Offset, got[i].Key, len(got[i].Value), len(want[i]))
		}
	}
}

// take polls n records from a subscription.
func take(t testing.TB, s *client.Subscription, n int) (records []client.Record) {
	t.Helper()
	ctx := within(t, 60*time.Second)
	for len(records) < n {
		more, err := s.Poll(ctx, n-len(records))
		if err != nil {
			t.Fatalf("after %d of %d pushed records: %v", len(records), n, err)
		}
		records = append(records, more...)
	}
	return records
}

// Keys, headers and times arrive as they were: no key is not an empty key, header keys may repeat and keep their order.
func TestRecordParts(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	if _, err := c.CreateTopic(within(t, 10*time.Second), "parts", 1, frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	want := []client.Record{
		{Value: []byte("no key")},
		{Key: []byte{}, Value: []byte("empty key")},
		{Key: []byte("k\x00\xff"), Value: []byte{}},
		{Key: []byte("headers"), Value: []byte("v"), UnixMillis: 12345, Headers: []client.Header{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "", Value: []byte{}}, {Key: "ü", Value: bytes.Repeat([]byte("x"), 1000)},
		}},
	}
	for _, codec := range codecs {
		ctx := within(t, 20*time.Second)
		p, err := c.Producer(ctx, "parts", client.ProducerOptions{Compression: codec, Linger: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if err := p.Produce(ctx, &want[i], nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	got := consumeAll(t, c, "parts", client.ConsumerOptions{})
	if len(got) != len(want)*len(codecs) {
		t.Fatalf("%d records", len(got))
	}
	for i := range got {
		checkParts(t, i, &got[i], &want[i%len(want)])
	}
}

func checkParts(t *testing.T, i int, got, want *client.Record) {
	t.Helper()
	if (got.Key == nil) != (want.Key == nil) || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
		t.Errorf("record %d: key %q (nil: %v), value %q; sent %q (nil: %v), %q", i, got.Key, got.Key == nil, got.Value, want.Key, want.Key == nil, want.Value)
	}
	same := func(a, b client.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(got.Headers, want.Headers, same) {
		t.Errorf("record %d: headers %q, sent %q", i, got.Headers, want.Headers)
	}
	if want.UnixMillis != 0 && got.UnixMillis != want.UnixMillis {
		t.Errorf("record %d: time %d, sent %d", i, got.UnixMillis, want.UnixMillis)
	}
	if age := time.Now().UnixMilli() - got.AppendMillis; age < 0 || age > 60_000 {
		t.Errorf("record %d: append time is %d ms ago", i, age)
	}
}

// What is larger than the topic allows is refused, by the client and by the broker alike, and the connection goes on.
func TestRecordTooLarge(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	ctx := within(t, 20*time.Second)
	id, err := c.CreateTopic(ctx, "small", 1, frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(ctx, "small", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.ProduceSync(ctx, &client.Record{Key: make([]byte, 1), Value: make([]byte, 4096)}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a record above max record: %v", err)
	}
	if _, err := p.ProduceSync(ctx, &client.Record{Key: make([]byte, 1), Value: make([]byte, 4095)}); err != nil {
		t.Errorf("a record of max record: %v", err)
	}
	w := dial(t, b.Addr().String())
	for _, n := range []int{4097, 64 << 10, 2 << 20} {
		h, payload := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: id, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, string(make([]byte, n)))})
		if e := refusal(t, h, payload); e.Code != frame.ErrTooLarge || e.Outcome != frame.NotDone {
			t.Errorf("a record of %d bytes: %v, %v", n, e.Code, e.Outcome)
		}
	}
	if h, _ := w.ask(t, frame.CmdProduce, &frame.Produce{Topic: id, Acks: frame.AcksDurable, Batch: batchOf(batch.Options{}, "fits")}); h.Command != frame.CmdProduce {
		t.Errorf("after refusals: %v", h.Command)
	}
	if end := describe(t, c, "small").Partitions[0].LogEnd; end != 2 {
		t.Errorf("log end %d, want 2", end)
	}
}

// PUBLISH appends single records, keeps their order among each other, and knows both kinds of key.
func TestPublish(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	c := connect(t, b.Addr().String())
	id, err := c.CreateTopic(within(t, 10*time.Second), "pub", 2, frame.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w := dial(t, b.Addr().String())
	const n = 500
	var burst []byte
	for i := range n {
		m := frame.Publish{Topic: id, Partition: uint32(i / 50 % 2), Acks: frame.AcksDurable, Value: fmt.Append(nil, i)}
		if i%2 == 1 {
			m.HasKey, m.Key = true, fmt.Append(nil, "k", i)
		}
		burst = frame.AppendFrame(burst, frame.CmdPublish, 0, uint64(1000+i), &m)
	}
	w.put(t, burst)
	next := [2]uint64{}
	for range n {
		h, payload := w.next(t)
		var r frame.ProduceReply
		if h.Command != frame.CmdPublish || r.Decode(payload) != nil {
			t.Fatalf("%v", h)
		}
		if want := uint32((h.RequestID - 1000) / 50 % 2); r.Partition != want || r.BaseOffset != next[want] {
			t.Fatalf("request %d: partition %d offset %d, want %d and %d", h.RequestID, r.Partition, r.BaseOffset, want, next[want])
		}
		next[r.Partition]++
	}
	for partition := range uint32(2) {
		got := consumeAll(t, c, "pub", client.ConsumerOptions{Partitions: []uint32{partition}})
		if len(got) != n/2 {
			t.Fatalf("partition %d holds %d records", partition, len(got))
		}
		for j, r := range got {
			i := j/50*100 + int(partition)*50 + j%50
			if string(r.Value) != fmt.Sprint(i) || (r.Key != nil) != (i%2 == 1) {
				t.Fatalf("partition %d, record %d: %q with key %q, want %d", partition, j, r.Value, r.Key, i)
			}
		}
	}
	if r, err := c.Publish(within(t, 10*time.Second), "pub", &client.Record{Value: []byte("one"), Partition: 1}, client.AcksDurable); err != nil || r.Offset != n/2 {
		t.Errorf("by the client: %+v, %v", r, err)
	}
}
