package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// reply gathers the parts of one reply and hands it to the goroutine that waits.
type reply struct {
	payload []byte
	done    chan error // of one element
}

func (r *reply) part(_ frame.Header, p []byte) error {
	if len(r.payload)+len(p) > frame.MaxReplyBytes {
		return fmt.Errorf("%w: reply above %d bytes", ErrProtocol, frame.MaxReplyBytes)
	}
	r.payload = append(r.payload, p...)
	return nil
}

func (r *reply) end(err error) { r.done <- err }

// ask sends one request over cn and waits for its reply.
func (c *Client) ask(ctx context.Context, cn *conn, cmd frame.Command, request encoder, into decoder) error {
	r := &reply{done: make(chan error, 1)}
	id, err := cn.register(&call{cmd: cmd, to: r})
	if err != nil {
		return err
	}
	cn.send(cmd, id, request)
	select {
	case err = <-r.done:
	case <-ctx.Done():
		cn.forget(id)
		cn.cancel(id)
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if err := into.Decode(r.payload); err != nil {
		err = fmt.Errorf("%w: %v: %v", ErrProtocol, cmd, err)
		cn.fail(err)
		return err
	}
	return nil
}

// bounded gives ctx a deadline if it has none.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.opts.RequestTimeout)
}

// do is ask with retries until ctx is done, or Options.RequestTimeout where it has no deadline. A lost connection is
// retried only for requests that may run twice (again); for the others the outcome is unknown.
func (c *Client) do(ctx context.Context, op string, again bool, cmd frame.Command, request encoder, into decoder) error {
	_, err := c.doFrom(ctx, op, again, cmd, request, into)
	return err
}

// doFrom is do that says which connection gave the answer.
func (c *Client) doFrom(ctx context.Context, op string, again bool, cmd frame.Command, request encoder, into decoder) (*conn, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var last error
	for failures := 1; ; failures++ {
		pause := backoff(c.opts.BackoffMin, c.opts.BackoffMax, failures)
		cn, err := c.waitConn(ctx, "")
		if err == nil {
			err = c.ask(ctx, cn, cmd, request, into)
		}
		switch e, answered := answer(err); {
		case err == nil:
			return cn, nil
		case ctx.Err() != nil && last != nil:
			return nil, withOp(op, fmt.Errorf("%w; the last attempt: %w", err, last))
		case ctx.Err() != nil, errors.Is(err, ErrClosed):
			return nil, withOp(op, err)
		case answered && e.Retriable && (again || !e.Unknown):
			pause = max(pause, e.Delay)
		case answered || !errors.Is(err, ErrConnection):
			return nil, withOp(op, err)
		case !again:
			return nil, withOp(op, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
		}
		last = err
		if c.sleep(ctx, jitter(pause)) != nil {
			return nil, withOp(op, last)
		}
	}
}

// Ping measures one round trip to the broker.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := c.do(ctx, "ping", true, frame.CmdPing, &frame.Empty{}, &frame.Empty{})
	return time.Since(start), err
}
