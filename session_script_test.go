package slipring_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

const (
	sessionPeers = 4
	deafPeer     = sessionPeers - 1 // it never reads
	sessionNames = 4                // topics fuzz.0 to fuzz.3 come and go
)

// session plays a script of bytes as legal, illegal, cut, flipped and reordered frames on a few connections of one broker.
// Every byte string is a script, so that a fuzzer may change one as it likes.
type session struct {
	t       testing.TB
	addr    string
	first   uint32 // id of the first topic: those that the script creates follow
	script  []byte
	peers   [sessionPeers]*peer
	readers sync.WaitGroup
}

// peer is one connection of a session.
type peer struct {
	*wire
	rest []byte // held back from the frame before
	dead bool
}

// play runs the script to its end and closes all connections.
func (s *session) play() {
	for len(s.script) > 0 {
		s.step()
	}
	for i, p := range s.peers {
		switch {
		case p == nil || p.dead:
		case i == deafPeer:
			p.Close()
		default: // so that the broker acts on all that is on its way
			_ = p.Conn.(*net.TCPConn).CloseWrite()
		}
	}
	s.readers.Wait()
}

// next takes a byte of the script; zeros follow its end.
func (s *session) next() byte {
	if len(s.script) == 0 {
		return 0
	}
	b := s.script[0]
	s.script = s.script[1:]
	return b
}

// raw is some bytes of the script as they are; the script goes on with them.
func (s *session) raw() []byte {
	n := int(s.next())
	return s.script[:min(n, len(s.script))]
}

// below is a number below n, at most 65,536.
func (s *session) below(n int) int { return (int(s.next())<<8 | int(s.next())) % n }

// number is one of the numbers that bounds are made of.
func (s *session) number() uint64 {
	n := uint64(s.next())
	switch n >> 5 {
	case 0:
		return 1<<63 - 1 + n&3
	case 1:
		return 1<<32 - 2 + n&3
	case 2:
		return 1 << (n & 31)
	case 3:
		return ^uint64(0) - n&3
	}
	return n & 15
}

func (s *session) step() {
	i, op := s.next()%sessionPeers, s.next()%64 // most are legal, or no connection would live for long
	p := s.peers[i]
	if p == nil || p.dead {
		p = s.open(int(i))
		s.peers[i] = p
		if op != 15 { // else something comes before HELLO
			s.write(p, frame.AppendFrame(nil, frame.CmdHello, 0, p.id(), hello(s.t)))
		}
	}
	if p.rest != nil { // go on with the cut frame, or forget how it went on
		rest := p.rest
		if p.rest = nil; s.next()%4 != 0 {
			s.write(p, rest)
		}
	}
	switch op {
	case 6:
		s.write(p, s.flip(s.request(p)))
	case 7:
		s.write(p, s.cut(s.request(p)))
	case 8:
		f := s.request(p)
		n := s.below(len(f))
		p.rest = f[n:]
		s.write(p, f[:n])
	case 9:
		a, b := s.request(p), s.request(p)
		s.write(p, slices.Concat(b, a))
	case 10:
		s.parts(p)
	case 11:
		s.write(p, s.raw())
	case 12:
		s.write(p, s.oddHeader(p))
	case 13:
		s.end(p)
	case 14:
		s.write(p, frame.AppendFrame(nil, frame.CmdHello, 0, p.id(), &frame.Hello{MinVersion: s.next() % 3, MaxVersion: s.next(), Features: s.number()}))
	default:
		s.write(p, s.request(p))
	}
}

// open connects, and reads what comes: whatever the broker was sent, what it sends is frames.
func (s *session) open(i int) *peer {
	p := &peer{wire: dialRaw(s.t, s.addr)}
	if i == deafPeer {
		return p
	}
	s.readers.Go(func() {
		defer p.Close()
		for {
			h, _, err := p.read(30 * time.Second)
			var cut *net.OpError
			switch {
			case err == nil && h.Reply() && h.Command.Known():
				continue
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
			case errors.As(err, &cut) && !errors.Is(err, os.ErrDeadlineExceeded):
			default:
				s.t.Errorf("the broker sent %+v: %v", h, err)
			}
			return
		}
	})
	return p
}

// write writes, unless the broker has had enough of the peer or reads no more.
func (s *session) write(p *peer, f []byte) {
	_ = p.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := p.Write(f); err != nil {
		p.Close()
		p.dead = true
	}
}

// id is mostly a fresh request id.
func (p *peer) id() uint64 {
	p.last++
	return p.last
}

func (s *session) id(p *peer) uint64 {
	if s.next()%8 == 0 {
		return p.last // once more
	}
	return p.id()
}

// request is a legal frame, of a topic that may exist.
func (s *session) request(p *peer) []byte {
	cmd := frame.Command(s.next()%19 + 1)
	var m message = &frame.Empty{}
	switch cmd {
	case frame.CmdHello, frame.CmdDeliver:
		cmd = frame.CmdPing
	case frame.CmdAuth:
		m = &frame.Auth{Mechanism: "none"}
	case frame.CmdMetadata:
		m = &frame.Metadata{Topics: []string{s.name(), s.name()}}
	case frame.CmdCreateTopic:
		m = &frame.CreateTopic{Name: s.name(), Partitions: uint32(s.next() % 5), Settings: s.settings()}
	case frame.CmdDeleteTopic:
		m = &frame.DeleteTopic{Name: s.name()}
	case frame.CmdAlterTopic:
		m = &frame.AlterTopic{Name: s.name(), Settings: s.settings()}
	case frame.CmdListTopics:
		m = &frame.ListTopics{Prefix: "fuzz", After: s.name(), Limit: uint32(s.next() % 3)}
	case frame.CmdDescribeTopic:
		m = &frame.DescribeTopic{Name: s.name()}
	case frame.CmdProduce:
		m = &frame.Produce{Topic: s.topic(), Partition: s.partition(), Acks: s.acks(), Batch: s.batch()}
	case frame.CmdPublish:
		m = &frame.Publish{Topic: s.topic(), Partition: s.partition(), Acks: s.acks(), HasKey: true, Key: []byte("k"), Value: make([]byte, s.below(60_000))}
	case frame.CmdFetch:
		f := &frame.Fetch{MaxWaitMillis: uint32(s.number()), MinBytes: uint32(s.number()), MaxBytes: uint32(s.number())}
		for range s.next()%5 + 1 {
			f.Partitions = append(f.Partitions, frame.FetchPartition{Topic: s.topic(), Partition: s.partition(), Offset: s.number(), MaxBytes: uint32(s.number())})
		}
		m = f
	case frame.CmdListOffsets:
		m = &frame.ListOffsets{Partitions: []frame.OffsetQuery{{Topic: s.topic(), Partition: s.partition(), Kind: frame.OffsetKind(s.next() % 3)}}}
	case frame.CmdSubscribe:
		m = &frame.Subscribe{Name: s.name(), Partition: s.partition(), Start: frame.SubscribeStart(s.next() % 3), Offset: s.number(), Records: int64(s.number() >> 1), Bytes: int64(s.number() >> 1)}
	case frame.CmdCredit:
		m = &frame.Credit{Records: int64(s.number() >> 1), Bytes: int64(s.number() >> 1)}
	case frame.CmdCancel:
		m = &frame.Cancel{RequestID: p.last - uint64(s.next()%3)}
	}
	id := s.id(p)
	if cmd == frame.CmdUnsubscribe || cmd == frame.CmdCredit {
		id = p.last - uint64(s.next()%4)
	}
	return frame.AppendParts(nil, cmd, 0, id, m.Append(nil))
}

func (s *session) name() string { return fmt.Sprint("fuzz.", s.next()%sessionNames) }

func (s *session) topic() uint32 {
	switch b := s.next(); {
	case b == 0:
		return uint32(s.number())
	case b < 128:
		return s.first + uint32(b%8)
	}
	return s.first
}

func (s *session) partition() uint32 {
	switch b := s.next(); {
	case b < 8:
		return frame.AllPartitions
	default:
		return uint32(b % 4)
	}
}

func (s *session) acks() frame.Acks { return frame.Acks(s.next() % 3) }

func (s *session) settings() frame.Settings {
	b := s.next()
	return frame.Settings{
		Mask:           frame.SetStorage | frame.SetDurability | frame.SetIntervalMillis | frame.SetRetentionRecords,
		Storage:        frame.Storage(b % 2 * 2), // log or none
		Durability:     frame.Durability(b / 2 % 3),
		IntervalMillis: 1 + uint32(b%50), RetentionRecords: int64(b%4*100) - 1 + int64(b%4/3),
	}
}

func (s *session) batch() []byte {
	o := batch.Options{}
	if b := s.next(); b < 64 {
		o = batch.Options{ProducerID: uint64(b%6) + 1, ProducerEpoch: uint16(b % 3), BaseSequence: uint32(s.next() % 8)}
	}
	values := make([]string, 1+s.next()%5)
	for i := range values {
		values[i] = strings.Repeat("v", s.below(2000))
	}
	if s.next() < 16 {
		values[0] = strings.Repeat("V", 4*s.below(65536)) // perhaps data first
	}
	f := batchOf(o, values...)
	if s.next() < 24 {
		f = s.flip(f)
	}
	return f
}

// flip changes some bits.
func (s *session) flip(f []byte) []byte {
	f = slices.Clone(f)
	for range s.next()%3 + 1 {
		at := s.below(min(len(f), 65536))
		if s.next()%2 == 0 {
			at = min(len(f)-1, at%48) // mostly where the fields are
		}
		f[at] ^= 1 << (s.next() % 8)
	}
	return f
}

// cut shortens a frame and its length, so that only the payload is wrong.
func (s *session) cut(f []byte) []byte {
	n := min(len(f), frame.HeaderBytes+frame.MaxPayload)
	n = frame.HeaderBytes + s.below(min(n-frame.HeaderBytes+1, 65536))
	f = slices.Clone(f[:min(n, len(f))])
	binary.LittleEndian.PutUint32(f, uint32(len(f)-4))
	return f
}

// parts sends a PRODUCE in parts with other frames between them; some never end.
func (s *session) parts(p *peer) {
	payload := (&frame.Produce{Topic: s.topic(), Partition: s.partition(), Acks: s.acks(), Batch: s.batch()}).Append(nil)
	id, last := p.id(), s.next()%4 != 0
	for n := 1 + s.next()%4; n > 0; n-- {
		size := len(payload)
		if n > 1 {
			size = s.below(min(len(payload), 65536-1) + 1)
		}
		flags := frame.FlagMore
		if n == 1 && last {
			flags = 0
		}
		f := frame.AppendHeader(nil, frame.CmdProduce, flags, id, min(size, frame.MaxPayload))
		s.write(p, append(f, payload[:min(size, frame.MaxPayload)]...))
		payload = payload[min(size, frame.MaxPayload):]
		if s.next()%2 == 0 && !p.dead {
			s.write(p, s.request(p))
		}
	}
}

func (s *session) oddHeader(p *peer) []byte {
	f := frame.AppendHeader(nil, frame.Command(s.next()), uint16(s.next()), s.id(p), 0)
	binary.LittleEndian.PutUint32(f, uint32(s.number()))
	f[4] = s.next() % 3
	return append(f, s.raw()...)
}

// end closes a connection in one of the ways there are.
func (s *session) end(p *peer) {
	tcp := p.Conn.(*net.TCPConn)
	switch how := s.next() % 3; {
	case how == 0 && p != s.peers[deafPeer]: // answers may still come
		_ = tcp.CloseWrite()
	case how == 1:
		_ = tcp.SetLinger(0) // a reset
		_ = tcp.Close()
	default:
		_ = tcp.Close()
	}
	p.dead = true
}
