package loop

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a client of many connections to the address it holds.
const childEnv = "LOOP_TEST_CHILD"

// TestMain runs the tests and then looks for goroutines and descriptors that they left.
func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		os.Exit(childMain(addr))
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // the runtime's poller keeps descriptors of its own
		l.Close()
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

func leaks(before int) int {
	if err := goleak.Find(); err != nil {
		fmt.Println(err)
		return 1
	}
	now := descriptors()
	for end := time.Now().Add(5 * time.Second); now > before && time.Now().Before(end); now = descriptors() {
		time.Sleep(10 * time.Millisecond) // the kernel frees a ring's files a little after its close
	}
	if now > before {
		fmt.Printf("%d descriptors before the tests, %d after\n", before, now)
		return 1
	}
	return 0
}

func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}
