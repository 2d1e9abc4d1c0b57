package slipring_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/frame"
)

var (
	campaignN    = flag.Int("campaign.n", 3, "rounds of a campaign")
	campaignSeed = flag.Uint64("campaign.seed", 1, "where a campaign's random numbers start")
)

const (
	campaignTopic      = "campaign"
	campaignPartitions = 4
	campaignProducers  = 6
)

// A broker under load is killed with SIGKILL again and again. Every record whose acknowledgement a client saw is there
// afterwards, unchanged, once, at the offset that the acknowledgement named, and the first new acknowledgement comes
// within a second of the start.
func TestCampaignKill(t *testing.T) {
	random := rand.New(rand.NewPCG(*campaignSeed, 0))
	dir := t.TempDir()
	c := &campaign{}
	var slowest, total time.Duration
	for round := range *campaignN {
		began := time.Now()
		broker := startChild(t, dir, "")
		first := c.firstAck(t, broker.addr, began, round == 0)
		slowest, total = max(slowest, first), total+first
		c.load(t, broker, time.Duration(20+random.IntN(250))*time.Millisecond, random)
		c.verify(t, dir, false)
		if t.Failed() {
			t.Fatalf("round %d, seed %d", round, *campaignSeed)
		}
	}
	c.verify(t, dir, true)
	t.Logf("%d kills: %d records acknowledged, 0 lost; start to first acknowledgement: mean %d ms, slowest %d ms",
		*campaignN, c.acked.Load(), (total / time.Duration(*campaignN)).Milliseconds(), slowest.Milliseconds())
	if slowest > time.Second {
		t.Errorf("slowest start to first acknowledgement: %v, want at most 1s", slowest)
	}
}

// campaign remembers what was acknowledged.
type campaign struct {
	acked   atomic.Int64
	mu      sync.Mutex
	records [campaignPartitions]map[uint64]uint64 // offset → hash of key and value
	checked [campaignPartitions]uint64            // all acknowledged below were found
	serial  atomic.Uint64
}

// firstAck opens a producer and returns how long after began its record was acknowledged.
func (c *campaign) firstAck(t *testing.T, addr string, began time.Time, create bool) time.Duration {
	t.Helper()
	cl := connect(t, addr)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if create {
		if _, err := cl.CreateTopic(ctx, campaignTopic, campaignPartitions, frame.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := cl.Producer(ctx, campaignTopic, client.ProducerOptions{Partitioner: client.Explicit()})
	if err != nil {
		t.Fatal(err)
	}
	r := c.record(rand.New(rand.NewPCG(*campaignSeed, c.serial.Load())))
	res, err := p.ProduceSync(ctx, r)
	if err != nil {
		t.Fatalf("first record after a start: %v", err)
	}
	took := time.Since(began)
	c.note(t, r, res)
	return took
}

// load produces with several clients and kills the broker after a while, then waits for them to give up.
func (c *campaign) load(t *testing.T, broker *child, after time.Duration, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range campaignProducers {
		seed := random.Uint64()
		running.Go(func() { c.produce(ctx, t, broker.addr, seed) })
	}
	time.AfterFunc(after, func() { _ = broker.cmd.Process.Kill() })
	_ = broker.cmd.Wait()
	cancel()
	running.Wait()
	broker.kill()
}

func (c *campaign) produce(ctx context.Context, t *testing.T, addr string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	cl, err := client.Connect(ctx, client.Options{Addrs: []string{addr}})
	if err != nil {
		return // killed before
	}
	defer cl.Close()
	p, err := cl.Producer(ctx, campaignTopic, client.ProducerOptions{Partitioner: client.Explicit(), BatchBytes: 1 << (10 + random.IntN(10))})
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		r := c.record(random)
		err := p.Produce(ctx, r, func(res client.Result) {
			if res.Err == nil {
				c.note(t, r, res)
			}
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("produce: %v", err)
		}
		if random.IntN(200) == 0 { // some wait for their acknowledgement, so that lone records are killed too
			_ = p.Flush(ctx)
		}
	}
	closed, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(closed)
}

// record makes one whose key is unique in the campaign. Few are large enough to be written directly.
func (c *campaign) record(random *rand.Rand) *client.Record {
	n := 1 + random.IntN(400)
	switch random.IntN(400) {
	case 0:
		n = 128<<10 + random.IntN(256<<10)
	case 1:
		n = 1<<20 + random.IntN(1<<20)
	}
	value := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(value[i:], random.Uint64())
	}
	key := fmt.Appendf(nil, "%d", c.serial.Add(1))
	return &client.Record{Key: key, Value: value, Partition: uint32(random.IntN(campaignPartitions))}
}

func (c *campaign) note(t *testing.T, r *client.Record, res client.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.records[res.Partition]
	if *m == nil {
		*m = make(map[uint64]uint64)
	}
	sum := hashOf(r.Key, r.Value)
	if before, ok := (*m)[res.Offset]; ok && before != sum {
		t.Errorf("partition %d: two records were acknowledged at offset %d", res.Partition, res.Offset)
	}
	(*m)[res.Offset] = sum
	c.acked.Add(1)
}

// verify reads back on a fresh start, from the last checked offset or, at the end, from the beginning.
func (c *campaign) verify(t *testing.T, dir string, all bool) {
	t.Helper()
	broker := startChild(t, dir, "")
	defer broker.kill()
	cl := connect(t, broker.addr)
	defer cl.Close()
	for partition := range uint32(campaignPartitions) {
		from := c.checked[partition]
		if all {
			from = 0
		}
		c.verifyPartition(t, cl, partition, from)
	}
}

func (c *campaign) verifyPartition(t *testing.T, cl *client.Client, partition uint32, from uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := cl.Consumer(ctx, campaignTopic, client.ConsumerOptions{Partitions: []uint32{partition}, Start: client.FromOffset(from), UntilEnd: true})
	if err != nil {
		t.Fatalf("partition %d from %d: %v", partition, from, err)
	}
	defer s.Close()
	want := c.records[partition]
	keys := make(map[string]uint64)
	missing := 0
	for offset := range want {
		if offset >= from {
			missing++
		}
	}
	next := from
	for r, err := range s.Records(ctx) {
		if err != nil {
			t.Fatalf("partition %d at %d: %v", partition, next, err)
		}
		if r.Offset < next {
			t.Errorf("partition %d: offset %d after %d", partition, r.Offset, next-1)
		}
		next = r.Offset + 1
		if before, twice := keys[string(r.Key)]; twice {
			t.Errorf("partition %d: key %s is at %d and at %d", partition, r.Key, before, r.Offset)
		}
		keys[string(r.Key)] = r.Offset
		if sum, acked := want[r.Offset]; acked {
			missing--
			if sum != hashOf(r.Key, r.Value) {
				t.Errorf("partition %d: the record at %d is not the one acknowledged there", partition, r.Offset)
			}
		}
	}
	if missing != 0 {
		t.Errorf("partition %d: %d acknowledged records are missing between %d and %d", partition, missing, from, next)
	}
	c.checked[partition] = next
}

func hashOf(key, value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	return h.Sum64()
}
