package slipring_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// wire is a connection that speaks frames, for what the client is too polite to do.
type wire struct {
	net.Conn
	in   *bufio.Reader
	last uint64 // request id
}

// message is anything that encodes itself as a payload.
type message interface{ Append(dst []byte) []byte }

// dialRaw connects and says nothing.
func dialRaw(t testing.TB, addr string) *wire {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &wire{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}
}

// dial connects and says HELLO.
func dial(t testing.TB, addr string) *wire {
	t.Helper()
	w := dialRaw(t, addr)
	h, _ := w.ask(t, frame.CmdHello, hello(t))
	if h.Command != frame.CmdHello {
		t.Fatalf("HELLO was answered with %v", h.Command)
	}
	return w
}

func hello(t testing.TB) *frame.Hello {
	return &frame.Hello{MinVersion: 1, MaxVersion: 1, ClientName: "test", Software: t.Name()[:min(len(t.Name()), 255)]}
}

// put writes bytes as they are.
func (w *wire) put(t testing.TB, p []byte) {
	t.Helper()
	_ = w.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
}

// send writes one request, in parts if it is long, and returns its id.
func (w *wire) send(t testing.TB, cmd frame.Command, m message) uint64 {
	t.Helper()
	w.last++
	w.put(t, frame.AppendParts(nil, cmd, 0, w.last, m.Append(nil)))
	return w.last
}

// ask sends one request and waits for the next frame.
func (w *wire) ask(t testing.TB, cmd frame.Command, m message) (frame.Header, []byte) {
	t.Helper()
	id := w.send(t, cmd, m)
	h, payload := w.next(t)
	if h.RequestID != id {
		t.Fatalf("request %d was answered as %d", id, h.RequestID)
	}
	return h, payload
}

// next reads one frame.
func (w *wire) next(t testing.TB) (frame.Header, []byte) {
	t.Helper()
	h, payload, err := w.read(20 * time.Second)
	if err != nil {
		t.Fatalf("waiting for a frame: %v", err)
	}
	return h, payload
}

// read reads one frame within a time; io.EOF when the broker has closed.
func (w *wire) read(limit time.Duration) (h frame.Header, payload []byte, err error) {
	_ = w.SetReadDeadline(time.Now().Add(limit))
	var head [frame.HeaderBytes]byte
	if _, err = io.ReadFull(w.in, head[:]); err != nil {
		return h, nil, err
	}
	if h, err = frame.ParseHeader(head[:]); err != nil {
		return h, nil, err
	}
	payload = make([]byte, h.PayloadBytes())
	_, err = io.ReadFull(w.in, payload)
	return h, payload, err
}

// refusal is the ERROR that must have come.
func refusal(t testing.TB, h frame.Header, payload []byte) (e frame.Error) {
	t.Helper()
	if h.Command != frame.CmdError {
		t.Fatalf("%v, want an ERROR", h.Command)
	}
	if err := e.Decode(payload); err != nil {
		t.Fatal(err)
	}
	return e
}

// batchOf is a batch of one record for each value.
func batchOf(o batch.Options, values ...string) []byte {
	var b batch.Builder
	now := time.Now().UnixMilli()
	b.Reset(now)
	for _, v := range values {
		b.Add(nil, false, []byte(v), nil, now)
	}
	return b.Finish(nil, o)
}
