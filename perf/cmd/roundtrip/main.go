// Command roundtrip measures one loopback round trip: a request of --size bytes to an echo (perf/cmd/echo) and the same
// bytes back, one at a time. A durable acknowledgement costs at least this and a durable write (perf/cmd/diskfloor).
//
//	roundtrip --addr 127.0.0.1:7503 --size 256 --count 5000
//
// It prints p50 and p99.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:7503", "address of the echo")
	size := flag.Int("size", 256, "bytes of a request")
	count := flag.Int("count", 5000, "round trips to time")
	flag.Parse()
	if *size < 1 || *count < 1 {
		fmt.Fprintln(os.Stderr, "roundtrip: --size and --count must be at least 1")
		os.Exit(2)
	}
	if err := run(*addr, *size, *count); err != nil {
		fmt.Fprintln(os.Stderr, "roundtrip:", err)
		os.Exit(1)
	}
}

func run(addr string, size, count int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	request, reply := make([]byte, size), make([]byte, size)
	took := make([]time.Duration, 0, count)
	for i := range count + count/10 { // the first tenth warms up
		start := time.Now()
		if _, err := c.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			return err
		}
		if i >= count/10 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	fmt.Printf("size=%d count=%d p50=%v p99=%v\n", size, count, took[count/2], took[count*99/100])
	return nil
}
