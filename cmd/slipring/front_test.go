package main

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// front is an address at which a broker can appear late and go away: it passes connections on.
type front struct {
	t    *testing.T
	addr string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

// later reserves an address at which nobody listens yet.
func later(t *testing.T) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, addr: l.Addr().String()}
	l.Close()
	t.Cleanup(f.stop)
	return f
}

// start passes connections on to a broker.
func (f *front) start(broker string) {
	f.t.Helper()
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.listener = l
	f.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", broker)
			if err != nil {
				in.Close()
				continue
			}
			f.mu.Lock()
			f.conns = append(f.conns, in, out)
			f.mu.Unlock()
			go pass(in, out)
			go pass(out, in)
		}
	}()
}

func pass(to, from net.Conn) {
	io.Copy(to, from)
	to.Close()
}

// stop breaks every connection and takes no more.
func (f *front) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		f.listener.Close()
	}
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
