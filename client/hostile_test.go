package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// script is a transport to a broker that says the given bytes, whatever it is asked, and then closes.
type script struct{ bytes []byte }

func (s script) Dial(context.Context, string) (Conn, error) {
	return &scripted{r: strings.NewReader(string(s.bytes)), closed: make(chan struct{})}, nil
}

type scripted struct {
	r      *strings.Reader
	closed chan struct{}
}

func (s *scripted) Read(p []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	return s.r.Read(p)
}

func (s *scripted) Write(p []byte) (int, error) { return len(p), nil }

func (s *scripted) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

func helloReply(id uint64) []byte {
	return frame.AppendFrame(nil, frame.CmdHello, frame.FlagReply, id, &frame.HelloReply{Version: 1, ProduceWindow: 1 << 20})
}

// Bytes that are no frames end the connection with ErrProtocol, not with a panic, a hang or a large allocation.
func TestHostileHandshake(t *testing.T) {
	good := helloReply(1)
	change := func(at int, b byte) []byte {
		p := append([]byte(nil), good...)
		p[at] = b
		return p
	}
	for name, p := range map[string][]byte{
		"nothing":           nil,
		"half a header":     good[:7],
		"half a reply":      good[:len(good)-1],
		"length 0":          {0, 0, 0, 0, 1, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		"length 4 GiB":      {255, 255, 255, 255, 1, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		"other version":     change(4, 2),
		"other command":     change(5, byte(frame.CmdFetch)),
		"unknown command":   change(5, 200),
		"no reply flag":     change(6, 0),
		"unknown flag":      change(7, 1),
		"other request":     change(8, 9),
		"trailing byte":     append(change(0, good[0]+1), 0),
		"version 7 chosen":  change(frame.HeaderBytes, 7),
		"an HTTP server":    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"more of the reply": change(6, byte(frame.FlagReply|frame.FlagMore)),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Connect(ctxFor(t), Options{Transport: script{p}})
			if err == nil {
				c.Close()
				t.Fatal("connected")
			}
			if !errors.Is(err, ErrConnection) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestHandshakeErrorsAreTyped(t *testing.T) {
	e := &frame.Error{Code: frame.ErrVersion, Text: "speak 2"}
	_, err := Connect(ctxFor(t), Options{Transport: script{frame.AppendFrame(nil, frame.CmdError, frame.FlagReply, 1, e)}})
	if got, ok := errors.AsType[*Error](err); !ok || got.Code != frame.ErrVersion || !strings.Contains(err.Error(), "speak 2") {
		t.Fatalf("got %v", err)
	}
}

// Replies after the handshake that are lies.
func TestHostileReplies(t *testing.T) {
	huge := make([]byte, 0, 64)
	for _, tt := range []struct {
		name  string
		cmd   frame.Command
		reply func(c *fakeConn, id uint64)
	}{
		{"metadata with 4 billion endpoints", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			p := frame.AppendHeader(huge[:0:0], frame.CmdMetadata, frame.FlagReply, id, 4)
			c.raw(le.AppendUint32(p, 1<<32-1))
		}},
		{"metadata of another topic", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			c.reply(frame.CmdMetadata, 0, id, &frame.MetadataReply{Topics: []frame.TopicMetadata{{Name: "b"}}})
		}},
		{"metadata without partitions", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			c.reply(frame.CmdMetadata, 0, id, &frame.MetadataReply{Topics: []frame.TopicMetadata{{Name: "a", ID: 1}}})
		}},
		{"metadata without end", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			part := frame.AppendHeader(nil, frame.CmdMetadata, frame.FlagReply|frame.FlagMore, id, frame.MaxPayload)
			part = append(part, make([]byte, frame.MaxPayload)...)
			for range frame.MaxReplyBytes/frame.MaxPayload + 2 {
				c.raw(part)
			}
		}},
		{"another command", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			c.reply(frame.CmdPing, 0, id, &frame.Empty{})
		}},
		{"a reply that nobody asked for", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			c.reply(frame.CmdPing, 0, id+1000, &frame.Empty{})
		}},
		{"a delivery without subscription", frame.CmdMetadata, func(c *fakeConn, id uint64) {
			c.reply(frame.CmdDeliver, 0, id, &frame.Deliver{})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.create("a", 1, frame.Settings{})
			f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
				if h.Command == tt.cmd {
					tt.reply(c, h.RequestID)
				}
				return h.Command == tt.cmd
			}
			c := f.connect(t)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if _, err := c.Producer(ctx, "a", ProducerOptions{}); err == nil {
				t.Fatal("believed it")
			}
		})
	}
}

// A FETCH reply may not grow without bound, and only for what was asked.
func TestHostileFetch(t *testing.T) {
	for name, reply := range map[string]func(c *fakeConn, id uint64){
		"endless": func(c *fakeConn, id uint64) {
			chunk := &frame.FetchChunk{Topic: 1, HighWatermark: 10, Data: make([]byte, 1<<20-100)}
			for range 64 {
				c.reply(frame.CmdFetch, frame.FlagMore, id, chunk)
			}
		},
		"other topic": func(c *fakeConn, id uint64) {
			c.reply(frame.CmdFetch, 0, id, &frame.FetchChunk{Topic: 2})
		},
		"other partition": func(c *fakeConn, id uint64) {
			c.reply(frame.CmdFetch, 0, id, &frame.FetchChunk{Topic: 1, Partition: 1})
		},
		"chunk beyond the payload": func(c *fakeConn, id uint64) {
			p := (&frame.FetchChunk{Topic: 1}).AppendHead(nil, 1<<31)
			c.raw(append(frame.AppendHeader(nil, frame.CmdFetch, frame.FlagReply, id, len(p)), p...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.create("a", 1, frame.Settings{})
			first := true
			f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
				if h.Command == frame.CmdFetch && first {
					first = false
					reply(c, h.RequestID)
					return true
				}
				return false
			}
			c := f.connect(t)
			fill(t, c, 10, batch.CodecNone)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := collect(t, mustConsumer(t, c, ConsumerOptions{UntilEnd: true, MaxBytes: 1 << 20}))
			runtime.ReadMemStats(&after)
			if len(got) != 10 {
				t.Fatalf("%d records after the broker came to its senses", len(got))
			}
			// 17 MiB is the greatest batch of the topic; growing a slice to it costs a few times that in all.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 200<<20 {
				t.Fatalf("allocated %d MiB", grown>>20)
			}
		})
	}
}

// A subscription whose broker ignores credit is cut, not buffered without end.
func TestHostileDeliveries(t *testing.T) {
	f := newFake(t)
	f.create("a", 1, frame.Settings{Mask: frame.SetMaxRecordBytes, MaxRecordBytes: 1 << 20})
	c := f.connect(t)
	fill(t, c, 100, batch.CodecNone)
	f.mu.Lock()
	one := f.topics["a"].parts[0].batches[0]
	f.mu.Unlock()
	cut := make(chan struct{})
	var once sync.Once // the client comes back, and meets the same again
	f.hook = func(c *fakeConn, h frame.Header, payload []byte) bool {
		if h.Command != frame.CmdSubscribe {
			return false
		}
		c.reply(h.Command, 0, h.RequestID, &frame.Empty{})
		f.running.Go(func() {
			for {
				select {
				case <-c.gone:
					once.Do(func() { close(cut) })
					return
				default:
					c.reply(frame.CmdDeliver, 0, h.RequestID, &frame.Deliver{Topic: 1, Data: one})
				}
			}
		})
		return true
	}
	s, err := c.Subscribe(ctxFor(t), "a", SubscribeOptions{CreditBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	select {
	case <-cut:
	case <-ctxFor(t).Done():
		t.Fatal("still listening")
	}
}

// FuzzReplies feeds arbitrary bytes to everything that reads from a broker: admin, produce, fetch and a subscription.
func FuzzReplies(f *testing.F) {
	add := func(cmd frame.Command, flags uint16, id uint64, m encoder) {
		f.Add(frame.AppendFrame(nil, cmd, flags|frame.FlagReply, id, m))
	}
	add(frame.CmdMetadata, 0, 2, &frame.MetadataReply{Topics: []frame.TopicMetadata{{Name: "a", Settings: frame.DefaultSettings()}}})
	add(frame.CmdFetch, 0, 2, &frame.FetchChunk{Topic: 1, Data: []byte("xyz")})
	add(frame.CmdDeliver, frame.FlagMore, 2, &frame.Deliver{Topic: 1})
	add(frame.CmdError, 0, 2, &frame.Error{Code: frame.ErrBusy, Retriable: true})
	add(frame.CmdProduce, 0, 2, &frame.ProduceReply{Topic: 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, start := range []func(*conn) receiver{
			func(*conn) receiver { return &reply{done: make(chan error, 1)} },
			func(c *conn) receiver {
				return &fetch{topic: 1, limit: 4 << 20, done: make(chan error, 1), asked: []asked{{cursor: &cursor{}}, {cursor: &cursor{partition: 1}}}}
			},
			func(c *conn) receiver {
				s := &Subscription{topic: &topic{id: 1, settings: frame.DefaultSettings(), owners: make([]string, 2)}, wake: make(chan struct{}, 1), opts: SubscribeOptions{CreditBytes: 1 << 16, CreditRecords: 1 << 10}}
				return &session{strand: &strand{s: s, partition: frame.AllPartitions}, conn: c, accepted: make(chan struct{}), ended: make(chan error, 1), partial: map[uint32][]byte{}}
			},
			func(c *conn) receiver {
				pr := &Producer{topic: &topic{id: 1}}
				return &attempt{s: newSender(pr, 0), b: &outgoing{}, conn: c}
			},
		} {
			stream := &scripted{r: strings.NewReader(string(p)), closed: make(chan struct{})}
			c := &conn{stream: stream, in: newInstream(stream), out: newOutstream(), silent: time.Hour, calls: map[uint64]*call{}, nextID: 2, dying: make(chan struct{}), dead: make(chan struct{})}
			to := start(c)
			cl := &call{cmd: frame.CmdMetadata, to: to}
			switch to.(type) {
			case *fetch:
				cl.cmd = frame.CmdFetch
			case *session:
				cl.cmd, cl.stream = frame.CmdSubscribe, true
			case *attempt:
				cl.cmd = frame.CmdProduce
			}
			if _, err := c.register(cl); err != nil {
				t.Fatal(err)
			}
			c.read() // ends with the bytes at the latest
		}
	})
}

// FuzzBatch feeds arbitrary bytes to the decoding of batches, behind a header that vouches for them.
func FuzzBatch(f *testing.F) {
	var b batch.Builder
	b.Reset(1)
	b.Add([]byte("k"), true, []byte("v"), []Header{{Key: "h", Value: []byte("x")}}, 2)
	for codec := batch.CodecNone; codec <= batch.CodecMax; codec++ {
		body, err := compress(nil, codec, b.Body())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(codec), uint32(1), body)
	}
	f.Fuzz(func(t *testing.T, codec uint8, count uint32, body []byte) {
		var builder batch.Builder
		builder.Reset(0)
		builder.Add(nil, false, nil, nil, 0)
		p := builder.FinishCompressed(nil, batch.Codec(codec%5), body, batch.Options{})
		h, err := batch.ParseHeader(p)
		if err != nil {
			return
		}
		h.Count, h.LastOffsetDelta = count, count-1
		tp := &topic{id: 1}
		h.PartitionTag = batch.PartitionTag(tp.directory, 1, 0)
		p = append(h.Append(nil), body...)
		o := &opener{topic: tp, limit: 1 << 20}
		records, _, _, err := o.open(0, 0, ^uint64(0), true, p)
		if err == nil && len(records) != int(count) {
			t.Fatalf("%d records of %d, and no error", len(records), count)
		}
	})
}
