package client

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// noise is incompressible, and the same every time.
func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// sink is a transport to a broker that takes every batch and keeps nothing.
type sink struct{}

func (sink) Dial(context.Context, string) (Conn, error) {
	near, far := newPipe()
	go sinkServe(far)
	return near, nil
}

// newPipe is a pair of connected streams with a buffer, so that writers do not wait for readers at each write.
func newPipe() (Conn, Conn) {
	ar, aw := io.Pipe()
	br, bw := io.Pipe()
	return &pipeEnd{ar, bw}, &pipeEnd{br, aw}
}

type pipeEnd struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (p *pipeEnd) Write(b []byte) (int, error) { return p.w.Write(b) }

func (p *pipeEnd) Close() error {
	p.w.Close()
	return p.PipeReader.Close()
}

func sinkServe(c Conn) {
	defer c.Close()
	head := make([]byte, frame.HeaderBytes)
	payload := make([]byte, frame.MaxPayload)
	var out []byte
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		h, err := frame.ParseHeader(head)
		if err != nil {
			return
		}
		p := payload[:h.PayloadBytes()]
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		if h.More() {
			continue
		}
		out = out[:0]
		reply := func(m encoder) { out = frame.AppendFrame(out, h.Command, frame.FlagReply, h.RequestID, m) }
		switch h.Command {
		case frame.CmdHello:
			reply(&frame.HelloReply{Version: 1, ProduceWindow: 64 << 20})
		case frame.CmdMetadata:
			reply(&frame.MetadataReply{Endpoints: []frame.Endpoint{{}}, Topics: []frame.TopicMetadata{{
				Name: "a", ID: 1, Settings: frame.DefaultSettings(), Partitions: make([]uint16, 8)}}})
		case frame.CmdProducerID:
			reply(&frame.ProducerIDReply{ProducerID: 1})
		case frame.CmdProduce:
			var m frame.Produce
			if m.Decode(p) != nil {
				return
			}
			if _, err := batch.ParseHeader(m.Batch); err != nil {
				return
			}
			reply(&frame.ProduceReply{Topic: m.Topic, Partition: m.Partition})
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func benchProducer(b testing.TB) (*Producer, func()) {
	c, err := Connect(context.Background(), Options{Transport: sink{}})
	if err != nil {
		b.Fatal(err)
	}
	p, err := c.Producer(context.Background(), "a", ProducerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return p, func() {
		p.Close(context.Background())
		c.Close()
	}
}
