package client

import (
	"context"
	"fmt"
	"io"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// This file is for measuring: it gives a load generator the bytes and the bare connection, so that what it measures is the
// broker and not this library.

// PrepareBatch gives one PRODUCE frame without producer id, with records of size bytes in one batch. The same bytes may be
// sent over and over. topic and partition are ids as METADATA names them; acks are none, leader or durable.
func PrepareBatch(topic, partition uint32, a Acks, records, size int) []byte {
	var b batch.Builder
	b.Reset(1)
	value := make([]byte, size)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	for range records {
		b.Add(nil, false, value, nil, 1)
	}
	request := frame.Produce{Topic: topic, Partition: partition, Acks: frame.Acks(a - AcksNone), Batch: b.Finish(nil, batch.Options{})}
	return frame.AppendFrame(nil, frame.CmdProduce, 0, 1, &request)
}

// PreparedMax is how many records of a size fit one frame of PrepareBatch.
func PreparedMax(size int) int {
	return max(1, (frame.MaxPayload-frame.ProduceFixedBytes-batch.HeaderBytes)/batch.MaxRecordBytes(nil, make([]byte, size), nil))
}

// Raw is a connection after its handshake that belongs to the caller alone.
type Raw struct {
	Conn
	in *instream
}

// Read gives first what came behind the last reply.
func (r *Raw) Read(p []byte) (int, error) {
	if in := r.in; in.end > in.start {
		n := copy(p, in.buf[in.start:in.end])
		in.start += n
		return n, nil
	}
	return r.Conn.Read(p)
}

// DialRaw opens a connection of its own to the broker.
func (c *Client) DialRaw(ctx context.Context) (*Raw, error) {
	seed, err := c.anyConn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
	defer cancel()
	stream, err := c.opts.Transport.Dial(ctx, seed.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConnection, seed.addr, err)
	}
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	raw := &conn{stream: stream, in: newInstream(stream), nextID: 1}
	if err := raw.handshake(c.opts.Name); err != nil {
		stream.Close()
		return nil, err
	}
	return &Raw{Conn: stream, in: raw.in}, nil
}

// Subscribe asks for everything from the tail of a topic, without a bound.
func (r *Raw) Subscribe(topic string) error {
	c := conn{stream: r.Conn, in: r.in, nextID: 1}
	const unlimited = 1 << 62
	return c.exchange(frame.CmdSubscribe, &frame.Subscribe{
		Name: topic, Partition: frame.AllPartitions, Start: frame.SubscribeTail, Records: unlimited, Bytes: unlimited}, &frame.Empty{})
}

// ProduceOne sends a prepared batch and waits for the reply, without another goroutine in between.
func (r *Raw) ProduceOne(prepared []byte) error {
	if _, err := r.Write(prepared); err != nil {
		return err
	}
	h, payload, err := r.in.next()
	if err != nil {
		return err
	}
	if h.Command == frame.CmdError {
		return decodeError(payload)
	}
	return nil
}

// Counts is what a Counter has seen.
type Counts struct {
	Bytes   uint64 // of the stream, frame headers included
	Records uint64
	Lost    uint64 // that the broker says it dropped
}

// Counter counts the records in a stream of DELIVER frames, or of PRODUCE frames that a relay hands through: both have
// twelve fixed bytes before the bytes of batches. It looks at headers only. Batches may be cut between frames.
type Counter struct {
	Counts
	skip int // bytes of the current body, or of a frame that does not matter
	left int // bytes of batches left in the current frame
	head [batch.HeaderBytes]byte
	have int // bytes in head
}

// Run reads r until it ends or a frame is not what it should be. note is called after each read.
func (c *Counter) Run(r io.Reader, note func(Counts)) error {
	buf := make([]byte, 512<<10)
	have := 0
	for {
		n, err := r.Read(buf[have:])
		c.Bytes += uint64(n)
		used, bad := c.consume(buf[:have+n])
		if bad != nil {
			return bad
		}
		have = copy(buf, buf[used:have+n])
		note(c.Counts)
		if err != nil {
			return err
		}
	}
}

const deliverHeaderBytes = frame.HeaderBytes + frame.DeliverFixedBytes

// consume counts what it can and says how many bytes it is done with; fewer than a frame's fixed part are left over.
func (c *Counter) consume(p []byte) (used int, err error) {
	for {
		rest := p[used:]
		if c.left > 0 {
			if len(rest) == 0 {
				return used, nil
			}
			n := min(c.left, len(rest))
			if err := c.batches(rest[:n]); err != nil {
				return used, err
			}
			c.left -= n
			used += n
			continue
		}
		if len(rest) < deliverHeaderBytes {
			return used, nil
		}
		h, err := frame.ParseHeader(rest)
		if err != nil {
			return used, fmt.Errorf("%w: %v", ErrProtocol, err)
		}
		if h.Command == frame.CmdError {
			said := rest[frame.HeaderBytes:min(len(rest), frame.HeaderBytes+h.PayloadBytes())] // cut short it says less
			return used, fmt.Errorf("the broker ended the stream: %w", decodeError(said))
		}
		if h.Command != frame.CmdDeliver && h.Command != frame.CmdProduce || h.PayloadBytes() < frame.DeliverFixedBytes {
			return used, fmt.Errorf("%w: %v in a stream of records", ErrProtocol, h.Command)
		}
		if h.Command == frame.CmdDeliver {
			var d frame.Deliver
			if err := d.Decode(rest[frame.HeaderBytes:deliverHeaderBytes]); err != nil {
				return used, err
			}
			c.Lost += uint64(d.Lost)
		}
		c.left = h.PayloadBytes() - frame.DeliverFixedBytes
		used += deliverHeaderBytes
	}
}

// batches walks over batch bytes: header after header, skipping bodies.
func (c *Counter) batches(p []byte) error {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip -= n
			p = p[n:]
			continue
		}
		n := copy(c.head[c.have:], p)
		c.have += n
		p = p[n:]
		if c.have < len(c.head) {
			return nil
		}
		c.have = 0
		h, err := batch.ParseHeader(c.head[:])
		if err != nil {
			return fmt.Errorf("%w: %v", ErrProtocol, err)
		}
		c.Records += uint64(h.Count)
		c.skip = int(h.BodyBytes)
	}
	return nil
}
