package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// deadAddr is an address on which nobody listens.
func deadAddr(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestConnectTakesTheFirstAddressThatAnswers(t *testing.T) {
	f := newFake(t)
	c := f.connect(t, func(o *Options) { o.Addrs = []string{deadAddr(t), f.addr} })
	if _, err := c.Ping(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
}

func TestConnectSaysWhatItTried(t *testing.T) {
	a, b := deadAddr(t), deadAddr(t)
	_, err := Connect(ctxFor(t), Options{Addrs: []string{a, b}})
	if !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
}

func TestConnectCanWaitForABroker(t *testing.T) {
	f := newFake(t)
	f.setDown(true)
	go func() {
		time.Sleep(30 * time.Millisecond) // the broker starts later; any moment will do
		f.setDown(false)
	}()
	f.connect(t, func(o *Options) { o.WaitForBroker = true })
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, Options{Addrs: []string{deadAddr(t)}, WaitForBroker: true})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// The endpoint that METADATA names cannot be reached (address translation): everything goes by the address of Connect.
func TestUnreachableEndpointFallsBackToTheFirstAddress(t *testing.T) {
	f := newFake(t)
	f.create("a", 3, frame.Settings{})
	host, port, _ := net.SplitHostPort(deadAddr(t))
	var n uint16
	fmt.Sscan(port, &n)
	f.endpoints = []frame.Endpoint{{Host: host, Port: n}}
	c := f.connect(t)
	fill(t, c, 100, batch.CodecNone)
	if got := collect(t, mustConsumer(t, c, ConsumerOptions{UntilEnd: true})); len(got) != 100 {
		t.Fatalf("%d records", len(got))
	}
}

// Partitions are asked for at the endpoint of their shard.
func TestRecordsGoStraightToTheOwner(t *testing.T) {
	f := newFake(t)
	f.create("a", 2, frame.Settings{})
	second := startFake(t)
	var here, there atomic.Int32
	count := func(n *atomic.Int32, stored bool) func(c *fakeConn, h frame.Header, payload []byte) bool {
		return func(c *fakeConn, h frame.Header, payload []byte) bool {
			if h.Command != frame.CmdProduce {
				return false
			}
			n.Add(1)
			if !stored { // the second fake only plays the other port
				c.reply(h.Command, 0, h.RequestID, &frame.ProduceReply{Topic: 1, Partition: 1})
			}
			return !stored
		}
	}
	f.hook, second.hook = count(&here, true), count(&there, false)
	a, b := f.ln.Addr().(*net.TCPAddr), second.ln.Addr().(*net.TCPAddr)
	f.endpoints = []frame.Endpoint{{Port: uint16(a.Port)}, {Host: "127.0.0.1", Port: uint16(b.Port), Shard: 1}} // an empty host is the one reached
	c := f.connect(t)
	p := mustProducer(t, c, "a", ProducerOptions{Partitioner: Explicit()})
	for partition := range uint32(2) {
		if _, err := p.ProduceSync(ctxFor(t), &Record{Partition: partition}); err != nil {
			t.Fatal(err)
		}
	}
	p.Close(ctxFor(t))
	if here.Load() != 1 || there.Load() != 1 {
		t.Fatalf("%d and %d batches", here.Load(), there.Load())
	}
}

// A broker that owes replies and says nothing is taken for dead, and the request goes to a new connection.
func TestSilentBrokerIsTakenForDead(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var silent atomic.Bool
	silent.Store(true)
	var first *fakeConn
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdProduce && silent.CompareAndSwap(true, false) {
			first = c
		}
		return c == first
	}
	c := f.connect(t, func(o *Options) { o.RequestTimeout = 100 * time.Millisecond })
	p := mustProducer(t, c, "a", ProducerOptions{})
	if _, err := p.ProduceSync(ctxFor(t), &Record{Value: []byte("0")}); err != nil {
		t.Fatal(err)
	}
	p.Close(ctxFor(t))
	checkValues(t, f, "a", numbered(1))
}

// A broker that stops reading while much is being sent is taken for dead all the same: the writes that it blocks do not hold
// up the watch.
func TestDeafBrokerIsTakenForDead(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	var first atomic.Pointer[fakeConn]
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdProduce && first.CompareAndSwap(nil, c) {
			<-release
		}
		return c == first.Load()
	}
	c := f.connect(t, func(o *Options) { o.RequestTimeout = 100 * time.Millisecond })
	p := mustProducer(t, c, "a", ProducerOptions{})
	value := make([]byte, 15<<20) // beyond what two sockets hold
	for range 2 {
		if err := p.Produce(ctxFor(t), &Record{Value: value}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(f.values("a", 0)); n != 2 {
		t.Fatalf("%d records stored of 2", n)
	}
}

func TestAdmin(t *testing.T) {
	f := newFake(t)
	c := f.connect(t)
	ctx := ctxFor(t)
	for i := range 5 {
		if _, err := c.CreateTopic(ctx, fmt.Sprintf("t.%d", i), 3, frame.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CreateTopic(ctx, "t.0", 3, frame.Settings{}); !errors.Is(err, ErrTopicExists) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.CreateTopic(ctx, "no spaces", 1, frame.Settings{}); !errors.Is(err, ErrInvalidName) {
		t.Fatalf("got %v", err)
	}
	topics, err := c.ListTopics(ctx, "t.") // the fake pages by two
	if err != nil || len(topics) != 5 || topics[4].Name != "t.4" {
		t.Fatal(topics, err)
	}
	d, err := c.DescribeTopic(ctx, "t.1")
	if err != nil || len(d.Partitions) != 3 {
		t.Fatal(d, err)
	}
	offsets, err := c.ListOffsets(ctx, "t.1", nil, frame.OffsetEnd, 0)
	if err != nil || len(offsets) != 3 {
		t.Fatal(offsets, err)
	}
	if err := c.AlterTopic(ctx, "t.1", frame.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteTopic(ctx, "t.1"); err != nil {
		t.Fatal(err)
	}
	_, err = c.DescribeTopic(ctx, "t.1")
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrUnknownTopic) || e.Op != "describe topic t.1" {
		t.Fatalf("got %v", err)
	}
	if m, err := c.Metadata(ctx, "t.1", "t.2"); err != nil || m.Topics[0].Error != frame.ErrUnknownTopic || len(m.Topics[1].Partitions) != 3 {
		t.Fatal(m, err)
	}
}

// CREATE is not repeated when its answer is lost: a second one would say that the topic exists, and hide whose it is.
func TestLostAnswerToCreateIsUnknown(t *testing.T) {
	f := newFake(t)
	asked := 0
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdCreateTopic {
			asked++
			c.loseAnswer(h, payload)
			return true
		}
		return false
	}
	c := f.connect(t)
	if _, err := c.CreateTopic(ctxFor(t), "a", 1, frame.Settings{}); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.DescribeTopic(ctxFor(t), "a"); err != nil || asked != 1 {
		t.Fatal(err, asked)
	}
}

func TestBusyAdminRequestsAreRetried(t *testing.T) {
	f := newFake(t)
	n := 0
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdCreateTopic {
			if n++; n < 3 {
				c.fail(h.RequestID, frame.ErrBusy)
				return true
			}
		}
		return false
	}
	c := f.connect(t)
	if _, err := c.CreateTopic(ctxFor(t), "a", 1, frame.Settings{}); err != nil || n != 3 {
		t.Fatal(err, n)
	}
}

func TestCancelledRequestLeavesTheConnectionInOrder(t *testing.T) {
	f := newFake(t)
	hold := make(chan struct{})
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command == frame.CmdDescribeTopic {
			f.running.Go(func() {
				<-hold
				c.handle(h, payload)
			})
			return true
		}
		return false
	}
	c := f.connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := c.DescribeTopic(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(hold) // the late answer belongs to nobody
	for range 3 {
		if _, err := c.Ping(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPublish(t *testing.T) {
	f := newFake(t)
	f.create("a", 2, frame.Settings{})
	var got frame.Publish
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdPublish {
			return false
		}
		if err := got.Decode(payload); err != nil {
			t.Error(err)
		}
		c.reply(h.Command, 0, h.RequestID, &frame.ProduceReply{Topic: got.Topic, Partition: got.Partition, BaseOffset: 41})
		return true
	}
	c := f.connect(t)
	r, err := c.Publish(ctxFor(t), "a", &Record{Partition: 1, Key: []byte("k"), Value: []byte("v")}, AcksStrongest)
	if err != nil || r.Offset != 41 || got.Partition != 1 || got.Acks != frame.AcksDurable || !got.HasKey || string(got.Value) != "v" {
		t.Fatal(r, err, got)
	}
	if _, err := c.Publish(ctxFor(t), "a", &Record{Value: make([]byte, frame.MaxPublishPayload)}, AcksStrongest); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Publish(ctxFor(t), "a", &Record{Partition: 2}, AcksStrongest); !errors.Is(err, ErrUnknownPartition) {
		t.Fatalf("got %v", err)
	}
}

func TestErrorsCompareAndPrint(t *testing.T) {
	err := error(withOp("consume a/3", fromFrame("", &frame.Error{Code: frame.ErrOffsetOutOfRange, First: 5, Last: 9, Text: "offset 2 is gone"})))
	if got := err.Error(); got != "consume a/3: offset 2 is gone (valid: 5 to 9)" {
		t.Error(got)
	}
	if !errors.Is(err, ErrOffsetOutOfRange) || errors.Is(err, ErrBusy) {
		t.Error("compared wrongly")
	}
	unknown := fromFrame("produce a/0", &frame.Error{Code: frame.ErrTimeout, Outcome: frame.OutcomeUnknown, Retriable: true, DelayMillis: 7})
	if !unknown.Unknown || !unknown.Retriable || unknown.Delay != 7*time.Millisecond || !strings.HasSuffix(unknown.Error(), "outcome unknown") {
		t.Error(unknown)
	}
}

// An answer of the broker that is only a part of what went wrong does not hide the rest.
func TestErrorsKeepWhatIsAroundAnAnswer(t *testing.T) {
	busy := fromFrame("", &frame.Error{Code: frame.ErrBusy})
	err := withOp("produce a/0", fmt.Errorf("%w; the last attempt: %w", ErrDeliveryTimeout, busy))
	if !errors.Is(err, ErrDeliveryTimeout) || !errors.Is(err, ErrBusy) || !strings.HasPrefix(err.Error(), "produce a/0: ") {
		t.Error(err)
	}
}

// A record that cannot have left is not uncertain, one without an answer is.
func TestPublishSaysWhetherItMayBeStored(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{})
	f.hook = func(c *fakeConn, h frame.Header, _ []byte) bool {
		if h.Command == frame.CmdPublish {
			c.fail(0, frame.ErrStopping) // last words
			c.nc.Close()
		}
		return h.Command == frame.CmdPublish
	}
	c := f.connect(t)
	if _, err := c.Publish(ctxFor(t), "a", &Record{}, AcksStrongest); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrConnection) {
		t.Errorf("sent and not answered: %v", err)
	}
	f.setDown(true)
	_, err := c.Publish(ctxFor(t), "a", &Record{}, AcksStrongest)
	for !errors.Is(err, ErrConnection) { // the client may not have seen the cut yet
		_, err = c.Publish(ctxFor(t), "a", &Record{}, AcksStrongest)
	}
	if _, err = c.Publish(ctxFor(t), "a", &Record{}, AcksStrongest); err == nil || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("never sent: %v", err)
	}
}

func TestEveryCodeHasAnErrorToCompareWith(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	for code := frame.ErrMalformed; code <= frame.ErrInternal; code++ {
		if !strings.Contains(string(source), "&codeError{frame.Err"+code.Name()+"}") {
			t.Errorf("%s has none", code.Name())
		}
	}
}

// Kafka's own test values: a migrated producer keeps its placement.
func TestKeyHashPlacesKeysAsKafkaDoes(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
}

func TestPartitioners(t *testing.T) {
	round, random, hash := RoundRobin(), Random(), KeyHash()
	seen := map[int]int{}
	for i := range 300 {
		if got := round(&Record{}, 3); got != i%3 {
			t.Fatalf("round robin: %d at %d", got, i)
		}
		seen[random(&Record{}, 3)]++
		if n := hash(&Record{Key: []byte("x")}, 7); n != hash(&Record{Key: []byte("x")}, 7) {
			t.Fatal("one key, two partitions")
		}
	}
	if len(seen) != 3 {
		t.Errorf("random: %v", seen)
	}
	keyless := map[int]int{}
	for range 3 * stickyRecords {
		keyless[hash(&Record{}, 3)]++
	}
	if len(keyless) != 3 {
		t.Errorf("keyless records stay on %v", keyless)
	}
	if Explicit()(&Record{Partition: 5}, 9) != 5 {
		t.Error("explicit")
	}
}

// A broker that does not come is an error that says how the last attempt ended, not only that time is up.
func TestConnectSaysWhyItGaveUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, Options{Addrs: []string{deadAddr(t)}, WaitForBroker: true})
	if !errors.Is(err, ErrConnection) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v", err)
	}
}

// A partitioner that names a partition the topic does not have is refused before anything is sent.
func TestPublishByChecksThePartition(t *testing.T) {
	f := newFake(t)
	f.create("a", 7, frame.Settings{})
	c := f.connect(t)
	for _, wrong := range []int{-1, 7} {
		if _, err := c.PublishBy(context.Background(), "a", &Record{}, func(*Record, int) int { return wrong }, AcksDurable); !errors.Is(err, ErrUnknownPartition) {
			t.Errorf("partition %d: got %v", wrong, err)
		}
	}
}
