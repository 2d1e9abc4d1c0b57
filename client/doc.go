// Package client is the Go client of Slipring: it connects, administers, produces, consumes and subscribes.
//
//	c, err := client.Connect(ctx, client.Options{Addrs: []string{"127.0.0.1:7400"}})
//	p, err := c.Producer(ctx, "orders.eu.created", client.ProducerOptions{})
//	res, err := p.ProduceSync(ctx, &client.Record{Key: []byte("42"), Value: []byte("new")})
//
// A Client keeps one connection per broker address and reopens it, with backoff and jitter, for as long as somebody needs
// it: producers, consumers and subscriptions outlive restarts of the broker. Requests are pipelined by request id.
//
// Thread: a Client, its Producers and Admin calls may be used by many goroutines; a Consumer or a Subscription by one.
// Memory: what the broker sends is bounded before it is believed; a producer's buffered bytes have a limit that blocks.
// Errors: *Error carries the broker's code, outcome, retriable bit, delay and range; errors.Is compares with Err… values.
// Never here: global state, a logger that was not given, a goroutine that outlives Close.
package client
