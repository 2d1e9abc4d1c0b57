package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// dial opens a stream to addr and shakes hands.
func dial(ctx context.Context, o *Options, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	stream, err := o.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConnection, addr, err)
	}
	c := &conn{
		addr: addr, stream: stream, in: newInstream(stream), out: newOutstream(), silent: o.RequestTimeout,
		calls: map[uint64]*call{}, nextID: 1, dying: make(chan struct{}), dead: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	err = c.handshake(o.Name)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the stream was closed under us
	}
	if err != nil {
		stream.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer to HELLO: %w", context.Cause(ctx))
		}
		if errors.As(err, new(*Error)) {
			return nil, withOp("hello "+addr, err)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrConnection, addr, err)
	}
	c.window.max = int(c.hello.ProduceWindow)
	go c.read()
	return c, nil
}

// handshake sends HELLO and, where asked for, AUTH with the mechanism "none".
func (c *conn) handshake(name string) error {
	hello := frame.Hello{MinVersion: frame.Version, MaxVersion: frame.Version, ClientName: name, Software: software}
	if err := c.exchange(frame.CmdHello, &hello, &c.hello); err != nil {
		return err
	}
	if c.hello.Version != frame.Version {
		return fmt.Errorf("%w: HELLO chose version %d", ErrProtocol, c.hello.Version)
	}
	if !c.hello.AuthRequired {
		return nil
	}
	var reply frame.AuthReply
	if err := c.exchange(frame.CmdAuth, &frame.Auth{Mechanism: "none"}, &reply); err != nil {
		return err
	}
	if !reply.Done {
		return fmt.Errorf("%w: AUTH none wants another step", ErrProtocol)
	}
	return nil
}

// exchange is one request and its reply before the goroutines run.
func (c *conn) exchange(cmd frame.Command, request encoder, reply decoder) error {
	id := c.nextID
	c.nextID++
	if _, err := c.stream.Write(frame.AppendFrame(nil, cmd, 0, id, request)); err != nil {
		return err
	}
	h, payload, err := c.in.next()
	switch {
	case err != nil:
		return err
	case h.Command == frame.CmdError:
		return decodeError(payload)
	case h.RequestID != id || h.Command != cmd || h.More():
		return fmt.Errorf("%w: %v in answer to %v", ErrProtocol, h.Command, cmd)
	}
	if err := reply.Decode(payload); err != nil {
		return fmt.Errorf("%w: %v: %v", ErrProtocol, cmd, err)
	}
	return nil
}

func decodeError(payload []byte) error {
	var e frame.Error
	if err := e.Decode(payload); err != nil {
		return fmt.Errorf("%w: ERROR: %v", ErrProtocol, err)
	}
	return fromFrame("", &e)
}
