package client

import (
	"errors"
	"io"
	"testing"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// damaged is a topic of two partitions with 500 records each; in partition 0 the body of one batch is damaged.
func damaged(t *testing.T, f *fake, c *Client, index int) (h batch.Header) {
	t.Helper()
	f.create("a", 2, frame.Settings{})
	p := mustProducer(t, c, "a", ProducerOptions{BatchBytes: 1000, Partitioner: RoundRobin()})
	produceNumbered(t, p, 1000)
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.topics["a"].parts[0].batches[index]
	b[len(b)-1] ^= 1
	h, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// pollAll polls to the end and gives the records and errors of each partition.
func pollAll(t *testing.T, s *Consumer) (next map[uint32]uint64, failures int) {
	t.Helper()
	next = map[uint32]uint64{}
	for {
		records, err := s.Poll(ctxFor(t), 7)
		for i := range records {
			r := &records[i]
			if r.Offset != next[r.Partition] {
				t.Fatalf("partition %d: offset %d after %d", r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition]++
		}
		switch {
		case err == io.EOF:
			return next, failures
		case errors.Is(err, ErrCorrupt):
			failures++
		case err != nil:
			t.Fatal(err)
		}
	}
}

// The request behind a damaged batch is under way when the damage is found: what it brings must not follow the error, and
// the end of the other partition is still awaited.
func TestDamageStopsItsPartitionOnly(t *testing.T) {
	f := newFake(t)
	c := f.connect(t)
	h := damaged(t, f, c, 1)
	s := mustConsumer(t, c, ConsumerOptions{UntilEnd: true, MaxPartitionBytes: 1}) // a batch of each partition a request
	next, failures := pollAll(t, s)
	if failures != 1 || next[0] != h.BaseOffset || next[1] != 500 {
		t.Fatalf("%d errors, partition 0 read to %d of %d, partition 1 to %d of 500", failures, next[0], h.BaseOffset, next[1])
	}
	if err := s.Seek(0, h.NextOffset()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Poll(ctxFor(t), 1); err != nil || r[0].Partition != 0 || r[0].Offset != h.NextOffset() {
		t.Fatalf("behind the damage: %v %v", r, err)
	}
}

func TestDamageBehindTheEndIsNotLookedAt(t *testing.T) {
	f := newFake(t)
	c := f.connect(t)
	h := damaged(t, f, c, 3)
	f.mu.Lock()
	p := f.topics["a"].parts[0]
	last := p.next
	p.next = h.BaseOffset
	f.mu.Unlock()
	s, err := c.Consumer(ctxFor(t), "a", ConsumerOptions{UntilEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.mu.Lock()
	p.next = last
	f.mu.Unlock()
	if next, failures := pollAll(t, s); failures != 0 || next[0] != h.BaseOffset || next[1] != 500 {
		t.Fatalf("%d errors, read to %v", failures, next)
	}
}

func TestAPartitionNamedTwiceIsConsumedOnce(t *testing.T) {
	f := newFake(t)
	f.create("a", 2, frame.Settings{})
	c := f.connect(t)
	s := mustConsumer(t, c, ConsumerOptions{UntilEnd: true, Partitions: []uint32{1, 0, 1}})
	if _, err := s.Poll(ctxFor(t), 1); err != io.EOF {
		t.Fatalf("an empty topic: %v", err)
	}
	fill(t, c, 10, batch.CodecNone)
	s = mustConsumer(t, c, ConsumerOptions{UntilEnd: true, Partitions: []uint32{0, 0}})
	if got := collect(t, s); len(got) != 10 {
		t.Fatalf("%d records of 10", len(got))
	}
}
