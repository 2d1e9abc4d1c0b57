package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// software is what HELLO says of this library.
const software = "slipring-go/1"

// Client is a set of connections to one broker, by address. Make one with Connect and share it.
type Client struct {
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	gone   sync.WaitGroup // every goroutine of the client

	mu        sync.Mutex
	closed    bool
	links     map[string]*link
	seed      int // index into opts.Addrs of the address that answered last
	directory [16]byte
	topics    map[string]*topic // METADATA, until an error or another directory id says that it is stale
}

// Connect opens a connection to the first of the addresses that answers. ctx bounds this call only.
//
// Errors: ErrConnection and the reasons, when none answers, at once or (Options.WaitForBroker) when ctx ends. A broker that
// answers and refuses is not waited for.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c := &Client{opts: o.withDefaults(), links: map[string]*link{}, topics: map[string]*topic{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.firstConn(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// firstConn tries each address once, or, with WaitForBroker, until one answers or ctx ends; then the last attempt says why.
func (c *Client) firstConn(ctx context.Context) error {
	var last error
	for {
		_, err := c.anyConn(ctx)
		if err == nil || !c.opts.WaitForBroker || !errors.Is(err, ErrConnection) {
			if ctx.Err() != nil && last != nil {
				return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
			}
			return err
		}
		last = err
		if err := c.sleep(ctx, c.nextAttempt()); err != nil {
			return fmt.Errorf("%w (%w)", last, err)
		}
	}
}

// Close ends every connection and waits for the client's goroutines. Producers, consumers and subscriptions fail with
// ErrClosed; flush or close them first.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	links := make([]*link, 0, len(c.links))
	for _, l := range c.links {
		links = append(links, l)
	}
	c.mu.Unlock()
	c.cancel()
	for _, l := range links {
		l.close()
	}
	c.gone.Wait()
	return nil
}

// goRun starts a goroutine that Close waits for; false after Close.
func (c *Client) goRun(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.gone.Go(f)
	return true
}

// watch makes Close wait for the goroutines of a new connection, and ends it at once when Close was faster.
func (c *Client) watch(cn *conn) {
	if !c.goRun(func() { <-cn.dead }) {
		cn.fail(ErrClosed)
		<-cn.dead
	}
}

func (c *Client) link(addr string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[addr]
	if l == nil {
		l = &link{client: c, addr: addr}
		c.links[addr] = l
	}
	return l
}

// anyConn gives a connection to one of the addresses of Connect, the one that answered last if it still does.
func (c *Client) anyConn(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	first := c.seed
	c.mu.Unlock()
	var errs []error
	for i := range c.opts.Addrs {
		n := (first + i) % len(c.opts.Addrs)
		cn, err := c.link(c.opts.Addrs[n]).try(ctx)
		if err == nil {
			c.mu.Lock()
			c.seed = n
			c.mu.Unlock()
			return cn, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, oneLine(errs)
}

// connTo gives a connection to addr, the owner's endpoint, or, where that cannot be reached (address translation, a
// firewall, a shard that is gone), to the address of Connect: any shard takes any request.
func (c *Client) connTo(ctx context.Context, addr string) (*conn, error) {
	if addr != "" && !slices.Contains(c.opts.Addrs, addr) {
		if cn, err := c.link(addr).try(ctx); err == nil || ctx.Err() != nil {
			return cn, err
		}
	}
	return c.anyConn(ctx)
}

// waitConn is connTo that goes on until there is a connection, ctx is done or the client is closed.
func (c *Client) waitConn(ctx context.Context, addr string) (*conn, error) {
	for {
		cn, err := c.connTo(ctx, addr)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return cn, err
		}
		if err := c.sleep(ctx, c.nextAttempt()); err != nil {
			return nil, err
		}
	}
}

// nextAttempt is when the first of the addresses of Connect may be tried again.
func (c *Client) nextAttempt() time.Duration {
	least := c.opts.BackoffMax
	for _, a := range c.opts.Addrs {
		least = min(least, c.link(a).wait())
	}
	return max(least, time.Millisecond)
}

// sleep waits for d, the end of ctx or the end of the client.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// learnDirectory notes which data directory answered. Ids of another one mean nothing here and are dropped.
func (c *Client) learnDirectory(id [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != c.directory {
		c.directory = id
		clear(c.topics)
	}
}

// oneLine joins errors into one line that errors.Is can look through.
func oneLine(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	format, args := "%w", []any{errs[0]}
	for _, e := range errs[1:] {
		format += "; %w"
		args = append(args, e)
	}
	return fmt.Errorf(format, args...)
}
