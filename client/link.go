package client

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// link is an address and the connection to it, reopened on demand. All who need it share one attempt at a time; between
// failed attempts lies a pause that doubles up to a bound, with jitter so that many clients do not come back at once.
type link struct {
	client *Client
	addr   string

	mu       sync.Mutex
	conn     *conn
	attempt  chan struct{} // closed when the attempt under way has ended; nil without one
	failures int
	retryAt  time.Time // no attempt before
	lastErr  error
}

// try gives the live connection, or makes one attempt unless the pause after a failure still lasts.
func (l *link) try(ctx context.Context) (*conn, error) {
	l.mu.Lock()
	if l.conn != nil && l.conn.alive() {
		defer l.mu.Unlock()
		return l.conn, nil
	}
	if l.attempt == nil {
		if l.failures > 0 && time.Now().Before(l.retryAt) {
			defer l.mu.Unlock()
			return nil, l.lastErr
		}
		if !l.client.goRun(l.connect) {
			defer l.mu.Unlock()
			return nil, ErrClosed
		}
		l.attempt = make(chan struct{})
	}
	attempt := l.attempt
	l.mu.Unlock()

	select {
	case <-attempt:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.conn, nil
	}
	return nil, l.lastErr
}

// connect is one attempt, on its own goroutine: it serves every waiter and outlives the context of any of them.
func (l *link) connect() {
	c, err := dial(l.client.ctx, &l.client.opts, l.addr)
	if err == nil {
		l.client.learnDirectory(c.hello.DirectoryID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.lastErr = c, err
	close(l.attempt)
	l.attempt = nil
	log := l.client.opts.Logger
	switch {
	case err == nil:
		log.Debug("connected", "addr", l.addr, "shard", c.hello.Shard)
		l.failures = 0
		l.client.watch(c)
	case l.client.ctx.Err() != nil:
		l.lastErr = ErrClosed
	default:
		l.failures++
		pause := l.pause()
		l.retryAt = time.Now().Add(pause)
		log.Warn("cannot connect", "addr", l.addr, "error", err, "attempt", l.failures, "retry_in", pause)
	}
}

// pause is the next backoff: half of it certain, half of it jitter.
func (l *link) pause() time.Duration {
	o := &l.client.opts
	return jitter(backoff(o.BackoffMin, o.BackoffMax, l.failures))
}

// backoff is low after the first failure and doubles up to high.
func backoff(low, high time.Duration, failures int) time.Duration {
	d := low
	for i := 1; i < failures && d < high; i++ {
		d *= 2
	}
	return min(d, high)
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// wait is how long the pause after a failure still lasts.
func (l *link) wait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures == 0 {
		return 0
	}
	return max(0, time.Until(l.retryAt))
}

// close ends the connection.
func (l *link) close() {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.fail(ErrClosed)
	}
}
