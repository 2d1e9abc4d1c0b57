package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// fake is a broker in memory that speaks the protocol over loopback: enough of the real rules (sequences, long polls,
// credit) to hold the client to them, and a hook that lets a test be any kind of bad broker.
type fake struct {
	t     *testing.T
	addr  string
	ln    net.Listener
	hello frame.HelloReply

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when records arrive
	topics   map[string]*fakeTopic
	nextID   uint32
	producer uint64
	conns    map[*fakeConn]bool
	down     bool
	closed   bool
	produced int // PRODUCE requests that stored something

	// hook sees every frame first and reports true when it dealt with it. Called without the lock.
	hook func(c *fakeConn, h frame.Header, payload []byte) bool

	endpoints []frame.Endpoint // default: addr
	running   sync.WaitGroup
}

type fakeTopic struct {
	name     string
	id       uint32
	settings frame.Settings
	parts    []*fakePart
}

type fakePart struct {
	batches   [][]byte
	start     uint64
	next      uint64
	producers map[uint64]*fakeProducer
}

type fakeProducer struct {
	next   uint32
	recent map[uint32]uint64 // base sequence → base offset
}

type fakeConn struct {
	f       *fake
	nc      net.Conn
	w       sync.Mutex
	mute    bool // w: nothing is sent any more
	gone    chan struct{}
	mu      sync.Mutex
	polls   map[uint64]chan struct{} // closed by CANCEL
	partial map[uint64][]byte
	subs    map[uint64]*fakeSub
}

type fakeSub struct {
	mu             sync.Mutex
	records, bytes int64
	more           chan struct{}
	end            chan struct{}
}

// newFake starts a broker and, after the test, looks for goroutines that it left behind.
func newFake(t *testing.T) *fake {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	return startFake(t)
}

func startFake(t *testing.T) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, ln: ln, addr: ln.Addr().String(), changed: make(chan struct{}), topics: map[string]*fakeTopic{}, nextID: 1, conns: map[*fakeConn]bool{}}
	f.hello = frame.HelloReply{Version: 1, DirectoryID: [16]byte{1, 2, 3}, ProduceWindow: 64 << 20, MaxPayload: frame.MaxPayload, Shards: 1}
	f.running.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *fake) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.ln.Close()
	f.cut()
	f.running.Wait()
}

// cut closes every connection without a word.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.nc.Close()
	}
}

// setDown makes the broker refuse (close at once) every connection, and cuts the present ones.
func (f *fake) setDown(down bool) {
	f.mu.Lock()
	f.down = down
	f.mu.Unlock()
	if down {
		f.cut()
	}
}

func (f *fake) accept() {
	for {
		nc, err := f.ln.Accept()
		if err != nil {
			return
		}
		c := &fakeConn{f: f, nc: nc, gone: make(chan struct{}), polls: map[uint64]chan struct{}{}, partial: map[uint64][]byte{}, subs: map[uint64]*fakeSub{}}
		f.mu.Lock()
		refuse := f.down || f.closed
		if !refuse {
			f.conns[c] = true
		}
		f.mu.Unlock()
		if refuse {
			nc.Close()
			continue
		}
		f.running.Go(c.serve)
	}
}

func (c *fakeConn) serve() {
	defer func() {
		c.nc.Close()
		close(c.gone)
		c.f.mu.Lock()
		delete(c.f.conns, c)
		c.f.mu.Unlock()
	}()
	r := bufio.NewReader(c.nc)
	for {
		var head [frame.HeaderBytes]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		h, err := frame.ParseHeader(head[:])
		if err != nil {
			c.f.t.Errorf("client sent a bad header: %v", err)
			return
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		if c.f.hook != nil && c.f.hook(c, h, payload) {
			continue
		}
		c.handle(h, payload)
	}
}

func (c *fakeConn) reply(cmd frame.Command, flags uint16, id uint64, m encoder) {
	c.raw(frame.AppendFrame(nil, cmd, flags|frame.FlagReply, id, m))
}

func (c *fakeConn) raw(p []byte) {
	c.w.Lock()
	defer c.w.Unlock()
	if !c.mute {
		c.nc.Write(p)
	}
}

// loseAnswer deals with a frame, but the connection breaks before the answer.
func (c *fakeConn) loseAnswer(h frame.Header, payload []byte) {
	c.w.Lock()
	c.mute = true
	c.w.Unlock()
	c.handle(h, payload)
	c.nc.Close()
}

func (c *fakeConn) fail(id uint64, code frame.ErrorCode, more ...func(*frame.Error)) {
	e := &frame.Error{Code: code, Retriable: code.Retriable(), Text: "fake: " + code.String()}
	for _, m := range more {
		m(e)
	}
	c.reply(frame.CmdError, 0, id, e)
}

func (c *fakeConn) handle(h frame.Header, payload []byte) {
	f := c.f
	decode := func(m decoder) bool {
		if err := m.Decode(payload); err != nil {
			f.t.Errorf("client sent a bad %v: %v", h.Command, err)
			return false
		}
		return true
	}
	switch h.Command {
	case frame.CmdHello:
		c.reply(h.Command, 0, h.RequestID, &f.hello)
	case frame.CmdAuth:
		c.reply(h.Command, 0, h.RequestID, &frame.AuthReply{Done: true})
	case frame.CmdPing:
		c.reply(h.Command, 0, h.RequestID, &frame.Empty{})
	case frame.CmdMetadata:
		var m frame.Metadata
		if decode(&m) {
			c.reply(h.Command, 0, h.RequestID, f.metadata(m.Topics))
		}
	case frame.CmdCreateTopic:
		var m frame.CreateTopic
		if decode(&m) {
			if t, ok := f.create(m.Name, int(m.Partitions), m.Settings); ok {
				c.reply(h.Command, 0, h.RequestID, &frame.CreateTopicReply{ID: t.id})
			} else {
				c.fail(h.RequestID, frame.ErrTopicExists)
			}
		}
	case frame.CmdDeleteTopic:
		var m frame.DeleteTopic
		if decode(&m) {
			f.mu.Lock()
			_, ok := f.topics[m.Name]
			delete(f.topics, m.Name)
			f.notify()
			f.mu.Unlock()
			if ok {
				c.reply(h.Command, 0, h.RequestID, &frame.Empty{})
			} else {
				c.fail(h.RequestID, frame.ErrUnknownTopic)
			}
		}
	case frame.CmdAlterTopic:
		var m frame.AlterTopic
		if decode(&m) {
			c.reply(h.Command, 0, h.RequestID, &frame.Empty{})
		}
	case frame.CmdListTopics:
		var m frame.ListTopics
		if decode(&m) {
			c.reply(h.Command, 0, h.RequestID, f.list(m))
		}
	case frame.CmdDescribeTopic:
		var m frame.DescribeTopic
		if decode(&m) {
			c.describe(h.RequestID, m.Name)
		}
	case frame.CmdProducerID:
		f.mu.Lock()
		f.producer++
		id := f.producer
		f.mu.Unlock()
		c.reply(h.Command, 0, h.RequestID, &frame.ProducerIDReply{ProducerID: id})
	case frame.CmdProduce:
		c.produce(h, payload)
	case frame.CmdFetch:
		var m frame.Fetch
		if decode(&m) {
			stop := make(chan struct{})
			c.mu.Lock()
			c.polls[h.RequestID] = stop
			c.mu.Unlock()
			f.running.Go(func() { c.fetch(h.RequestID, m, stop) })
		}
	case frame.CmdCancel:
		var m frame.Cancel
		if decode(&m) {
			c.mu.Lock()
			if stop := c.polls[m.RequestID]; stop != nil {
				close(stop)
				delete(c.polls, m.RequestID)
			}
			c.mu.Unlock()
		}
	case frame.CmdListOffsets:
		var m frame.ListOffsets
		if decode(&m) {
			c.reply(h.Command, 0, h.RequestID, f.offsets(m))
		}
	case frame.CmdSubscribe:
		var m frame.Subscribe
		if decode(&m) {
			c.subscribe(h.RequestID, m)
		}
	case frame.CmdCredit:
		var m frame.Credit
		if decode(&m) {
			c.mu.Lock()
			s := c.subs[h.RequestID]
			c.mu.Unlock()
			if s == nil {
				f.t.Error("CREDIT for no subscription")
				return
			}
			s.mu.Lock()
			s.records += m.Records
			s.bytes += m.Bytes
			s.mu.Unlock()
			signal(s.more)
		}
	case frame.CmdUnsubscribe:
		c.mu.Lock()
		if s := c.subs[h.RequestID]; s != nil {
			close(s.end)
			delete(c.subs, h.RequestID)
		}
		c.mu.Unlock()
		c.reply(h.Command, 0, h.RequestID, &frame.Empty{})
	default:
		f.t.Errorf("client sent %v", h.Command)
	}
}

func (f *fake) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) create(name string, partitions int, s frame.Settings) (*fakeTopic, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topics[name] != nil {
		return nil, false
	}
	t := &fakeTopic{name: name, id: f.nextID, settings: frame.DefaultSettings().Merge(s)}
	f.nextID++
	for range max(1, partitions) {
		t.parts = append(t.parts, &fakePart{producers: map[uint64]*fakeProducer{}})
	}
	f.topics[name] = t
	return t, true
}

func (f *fake) byID(id uint32) *fakeTopic {
	for _, t := range f.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (f *fake) part(topic, partition uint32) (*fakeTopic, *fakePart) {
	t := f.byID(topic)
	if t == nil || int(partition) >= len(t.parts) {
		return t, nil
	}
	return t, t.parts[partition]
}

func (f *fake) metadata(names []string) *frame.MetadataReply {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &frame.MetadataReply{Endpoints: f.endpoints}
	if m.Endpoints == nil {
		a := f.ln.Addr().(*net.TCPAddr)
		m.Endpoints = []frame.Endpoint{{Host: "127.0.0.1", Port: uint16(a.Port)}}
	}
	for _, n := range names {
		t := f.topics[n]
		if t == nil {
			m.Topics = append(m.Topics, frame.TopicMetadata{Error: frame.ErrUnknownTopic, Name: n})
			continue
		}
		tm := frame.TopicMetadata{Name: n, ID: t.id, Settings: t.settings}
		for i := range t.parts {
			tm.Partitions = append(tm.Partitions, uint16(i%len(m.Endpoints)))
		}
		m.Topics = append(m.Topics, tm)
	}
	return m
}

func (f *fake) list(m frame.ListTopics) *frame.ListTopicsReply {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for n := range f.topics {
		if n > m.After && len(n) >= len(m.Prefix) && n[:len(m.Prefix)] == m.Prefix {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	r := &frame.ListTopicsReply{}
	for _, n := range names {
		if len(r.Topics) == 2 { // small pages, so that paging is met
			r.More = true
			break
		}
		t := f.topics[n]
		r.Topics = append(r.Topics, frame.TopicSummary{Name: n, ID: t.id, Partitions: uint32(len(t.parts))})
	}
	return r
}

func (c *fakeConn) describe(id uint64, name string) {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[name]
	if t == nil {
		c.fail(id, frame.ErrUnknownTopic)
		return
	}
	r := &frame.DescribeTopicReply{Name: name, ID: t.id, Settings: t.settings}
	for i, p := range t.parts {
		r.Partitions = append(r.Partitions, frame.PartitionInfo{Partition: uint32(i), LogEnd: p.next, HighWatermark: p.next})
	}
	c.reply(frame.CmdDescribeTopic, 0, id, r)
}

// produce joins the parts of a request and stores the batch by the rules of sequences.
func (c *fakeConn) produce(h frame.Header, payload []byte) {
	f := c.f
	c.mu.Lock()
	whole := append(c.partial[h.RequestID], payload...)
	delete(c.partial, h.RequestID)
	if h.More() {
		c.partial[h.RequestID] = whole
	}
	c.mu.Unlock()
	if h.More() {
		return
	}
	var m frame.Produce
	if err := m.Decode(whole); err != nil {
		f.t.Errorf("bad PRODUCE: %v", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t, p := f.part(m.Topic, m.Partition)
	if p == nil {
		c.fail(h.RequestID, frame.ErrUnknownTopic)
		return
	}
	bh, body, rest, err := batch.Next(m.Batch)
	if err == nil {
		err = batch.CheckBody(&bh, body)
	}
	if err == nil {
		err = bh.CheckProduced()
	}
	if err == nil && bh.Codec() == batch.CodecNone {
		err = batch.CheckRecords(&bh, [][]byte{body})
	}
	if err != nil || len(rest) != 0 {
		f.t.Errorf("bad batch: %v, %d bytes behind it", err, len(rest))
		c.fail(h.RequestID, frame.ErrCorrupt)
		return
	}
	base := p.next
	if bh.ProducerID != batch.NoProducer {
		pr := p.producers[bh.ProducerID]
		if pr == nil {
			if bh.BaseSequence != 0 {
				c.fail(h.RequestID, frame.ErrUnknownProducer)
				return
			}
			pr = &fakeProducer{recent: map[uint32]uint64{}}
			p.producers[bh.ProducerID] = pr
		}
		if old, ok := pr.recent[bh.BaseSequence]; ok {
			c.acknowledge(h, &m, old)
			return
		}
		if bh.BaseSequence != pr.next {
			c.fail(h.RequestID, frame.ErrSequence, func(e *frame.Error) { e.First = uint64(pr.next) })
			return
		}
		pr.recent[bh.BaseSequence] = base
		pr.next += bh.Count
	}
	stored := slices.Clone(m.Batch)
	batch.Stamp(stored, base, 1, time.Now().UnixMilli(), batch.PartitionTag(f.hello.DirectoryID, t.id, m.Partition))
	p.batches = append(p.batches, stored)
	p.next += uint64(bh.Count)
	f.produced++
	f.notify()
	c.acknowledge(h, &m, base)
}

func (c *fakeConn) acknowledge(h frame.Header, m *frame.Produce, base uint64) {
	if m.Acks != frame.AcksNone {
		c.reply(frame.CmdProduce, 0, h.RequestID, &frame.ProduceReply{Topic: m.Topic, Partition: m.Partition, BaseOffset: base, AppendTime: 1})
	}
}

func (c *fakeConn) fetch(id uint64, m frame.Fetch, stop chan struct{}) {
	timeout := time.NewTimer(time.Duration(m.MaxWaitMillis) * time.Millisecond)
	defer timeout.Stop()
	for last := false; ; {
		chunks, bytes, changed := c.f.read(m)
		if bytes >= int(m.MinBytes) || last || slices.ContainsFunc(chunks, func(c frame.FetchChunk) bool { return c.Error != 0 }) {
			c.mu.Lock()
			delete(c.polls, id)
			c.mu.Unlock()
			c.sendChunks(id, chunks)
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			last = true
		case <-stop:
			c.fail(id, frame.ErrCancelled)
			return
		case <-c.gone:
			return
		}
	}
}

func (f *fake) read(m frame.Fetch) (chunks []frame.FetchChunk, bytes int, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range m.Partitions {
		ch := frame.FetchChunk{Topic: q.Topic, Partition: q.Partition}
		_, p := f.part(q.Topic, q.Partition)
		switch {
		case p == nil:
			ch.Error = frame.ErrUnknownTopic
		case q.Offset < p.start || q.Offset > p.next:
			ch.Error, ch.LogStart, ch.HighWatermark = frame.ErrOffsetOutOfRange, p.start, p.next
		default:
			ch.LogStart, ch.HighWatermark = p.start, p.next
			for _, b := range p.batches {
				h, _ := batch.ParseHeader(b) // a test may have damaged it
				if h.LastOffset() < q.Offset {
					continue
				}
				if len(ch.Data) > 0 && len(ch.Data)+len(b) > int(q.MaxBytes) || bytes > 0 && bytes+len(b) > int(m.MaxBytes) {
					break
				}
				ch.Data = append(ch.Data, b...)
				bytes += len(b)
			}
		}
		chunks = append(chunks, ch)
	}
	return chunks, bytes, f.changed
}

// sendChunks sends a FETCH reply in parts, pieces of a chunk split at awkward places.
func (c *fakeConn) sendChunks(id uint64, chunks []frame.FetchChunk) {
	for _, ch := range chunks {
		data := ch.Data
		for first := true; first || len(data) > 0; first = false {
			n := min(len(data), 300_001)
			piece := ch
			piece.Data = data[:n]
			data = data[n:]
			c.reply(frame.CmdFetch, frame.FlagMore, id, &piece)
		}
	}
	c.reply(frame.CmdFetch, 0, id, &frame.Empty{})
}

func (f *fake) offsets(m frame.ListOffsets) *frame.ListOffsetsReply {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &frame.ListOffsetsReply{}
	for _, q := range m.Partitions {
		a := frame.OffsetAnswer{Topic: q.Topic, Partition: q.Partition}
		if _, p := f.part(q.Topic, q.Partition); p == nil {
			a.Error = frame.ErrUnknownTopic
		} else if a.Offset = p.next; q.Kind == frame.OffsetStart {
			a.Offset = p.start
		}
		r.Partitions = append(r.Partitions, a)
	}
	return r
}

func (c *fakeConn) subscribe(id uint64, m frame.Subscribe) {
	f := c.f
	f.mu.Lock()
	t := f.topics[m.Name]
	if t == nil {
		f.mu.Unlock()
		c.fail(id, frame.ErrUnknownTopic)
		return
	}
	next := map[int]uint64{}
	for i, p := range t.parts {
		if m.Partition != frame.AllPartitions && int(m.Partition) != i {
			continue
		}
		next[i] = map[frame.SubscribeStart]uint64{frame.SubscribeTail: p.next, frame.SubscribeLog: p.start, frame.SubscribeOffset: m.Offset}[m.Start]
	}
	f.mu.Unlock()
	s := &fakeSub{records: m.Records, bytes: m.Bytes, more: make(chan struct{}, 1), end: make(chan struct{})}
	c.mu.Lock()
	c.subs[id] = s
	c.mu.Unlock()
	c.reply(frame.CmdSubscribe, 0, id, &frame.Empty{})
	f.running.Go(func() { c.push(id, s, t, next) })
}

func (c *fakeConn) push(id uint64, s *fakeSub, t *fakeTopic, next map[int]uint64) {
	f := c.f
	for {
		f.mu.Lock()
		changed := f.changed
		var deliver []frame.Deliver
		for i := range t.parts {
			from, ok := next[i]
			if !ok {
				continue
			}
			for _, b := range t.parts[i].batches {
				h, _ := batch.ParseHeader(b)
				s.mu.Lock()
				have := s.records > 0 && s.bytes > 0
				if have && h.LastOffset() >= from {
					s.records -= int64(h.Count)
					s.bytes -= int64(len(b))
					from = h.NextOffset()
					deliver = append(deliver, frame.Deliver{Topic: t.id, Partition: uint32(i), Data: b})
				}
				s.mu.Unlock()
			}
			next[i] = from
		}
		f.mu.Unlock()
		for _, d := range deliver {
			for rest := d.Data; len(rest) > 0; {
				n := min(len(rest), 200_003)
				flags := uint16(0)
				if n < len(rest) {
					flags = frame.FlagMore
				}
				d.Data = rest[:n]
				rest = rest[n:]
				c.reply(frame.CmdDeliver, flags, id, &d)
			}
		}
		select {
		case <-changed:
		case <-s.more:
		case <-s.end:
			return
		case <-c.gone:
			return
		}
	}
}

// values gives the values stored in a partition, decoded, in order.
func (f *fake) values(topic string, partition int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, b := range f.topics[topic].parts[partition].batches {
		h, body, _, err := batch.Next(b)
		if err != nil {
			f.t.Fatal(err)
		}
		if body, err = decompress(h.Codec(), body, 64<<20, &zstdReader{}); err != nil {
			f.t.Fatal(err)
		}
		records, err := decodeRecords(&h, body, 0, 0, ^uint64(0))
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range records {
			out = append(out, string(records[i].Value))
		}
	}
	return out
}

// connect opens a client on the fake that is closed with the test.
func (f *fake) connect(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Addrs: []string{f.addr}, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	c, err := Connect(ctxFor(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ctxFor bounds a test: a promise that is not kept within it is broken.
func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var le = binary.LittleEndian
