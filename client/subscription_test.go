package client

import (
	"testing"

	"github.com/slipringmq/slipring/frame"
)

// A delivery beyond the credit is refused and leaves nothing behind: the session after it has the whole credit again.
func TestRefusedDeliveryDoesNotCount(t *testing.T) {
	s := &Subscription{wake: make(chan struct{}, 1), opts: SubscribeOptions{CreditBytes: 1 << 20},
		topic: &topic{settings: frame.DefaultSettings(), owners: make([]string, 1)}}
	if s.put(delivery{data: make([]byte, 64<<20)}) {
		t.Fatal("64 MiB were taken with a credit of 1 MiB")
	}
	if !s.put(delivery{data: make([]byte, 1<<20)}) {
		t.Fatal("what the credit allows is refused")
	}
}
