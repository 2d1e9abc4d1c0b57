package client

import (
	"context"
	"io"
	"net"
	"time"
)

// Conn is a byte stream to a broker. Close makes blocked Reads and Writes return.
type Conn = io.ReadWriteCloser

// Transport opens streams. TCP is the default; a broker in the same process offers its own.
type Transport interface {
	// Dial connects to addr, one of Options.Addrs or an endpoint that METADATA named. It gives up when ctx is done.
	Dial(ctx context.Context, addr string) (Conn, error)
}

// TCP is the network transport.
type TCP struct{}

// Dial implements Transport. Keep-alive finds peers that vanished without a word.
func (TCP) Dial(ctx context.Context, addr string) (Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err // not c: a nil *net.TCPConn in an interface is not nil
	}
	return c, nil
}
