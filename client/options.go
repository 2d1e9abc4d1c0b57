package client

import (
	"log/slog"
	"time"
)

// Options of Connect. The zero value of each field is its default.
type Options struct {
	Addrs     []string     // host:port of brokers, tried in order; default 127.0.0.1:7400
	Name      string       // shown in the broker's logs and listings; at most 255 bytes
	Logger    *slog.Logger // reconnects and retries; default: silent
	Transport Transport    // default TCP

	DialTimeout    time.Duration // of one attempt: connect, HELLO and AUTH; default 5 s
	RequestTimeout time.Duration // of an admin call whose context has no deadline, and of a silent broker; default 30 s
	BackoffMin     time.Duration // before the second attempt at an address; default 50 ms
	BackoffMax     time.Duration // the pause doubles up to this, with jitter; default 2 s

	// WaitForBroker makes Connect go on trying until its context is done. Without it Connect tries each address once.
	WaitForBroker bool
}

const defaultAddr = "127.0.0.1:7400"

func (o Options) withDefaults() Options {
	if len(o.Addrs) == 0 {
		o.Addrs = []string{defaultAddr}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		o.Transport = TCP{}
	}
	setDefault(&o.DialTimeout, 5*time.Second)
	setDefault(&o.RequestTimeout, 30*time.Second)
	setDefault(&o.BackoffMin, 50*time.Millisecond)
	setDefault(&o.BackoffMax, 2*time.Second)
	return o
}

func setDefault[T ~int | ~int64 | ~uint32](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}
