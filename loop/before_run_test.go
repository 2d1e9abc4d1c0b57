package loop

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/slipringmq/slipring/loop/block"
	"github.com/slipringmq/slipring/loop/uring"
)

// The ring turns for the disk before the loop runs: a client that connects during a recovery waits in the backlog, and is
// announced once there is a handler.
func TestConnectionsBeforeRunWaitForTheHandler(t *testing.T) {
	runtime.LockOSThread() // with the ring it owns, the thread ends with the test
	ring, err := uring.New(uring.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	pool := block.NewPool(64 << 20)
	l, err := NewUring(ring, pool, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	_, addr, err := l.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 { // a recovery's turns
		if err := ring.Enter(1, 1e6); err != nil {
			t.Fatal(err)
		}
		ring.Dispatch()
	}
	opened := 0
	err = l.Run(&handler{
		opened:  func(Conn, int, netip.AddrPort) { opened++; l.Stop() },
		endTurn: func(int64, int64) int64 { return 0 },
	})
	if err != nil || opened != 1 {
		t.Errorf("%d connections announced, want 1; %v", opened, err)
	}
}
