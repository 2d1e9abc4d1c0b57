// Command echo sends back what it receives, with nothing between socket and socket: the floor that a request's round
// trip through a broker is compared with. One thread, any number of connections.
//
//	echo --engine epoll|ring [--listen 127.0.0.1:7503]
//
// epoll: wait, read up to 64 KiB, write. ring: io_uring with multishot receive into provided buffers, sends straight from
// those buffers, one enter a turn (Linux 6.1). Neither spins. It prints "listening ADDR" and runs until it is killed.
// Clients must read what they get: a write that would block ends the connection (epoll), a buffer stays with its send (ring).
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	engine := flag.String("engine", "epoll", "epoll or ring")
	addr := flag.String("listen", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	run, ok := map[string]func(int) error{"epoll": serveEpoll, "ring": serveRing}[*engine]
	if !ok {
		fmt.Fprintf(os.Stderr, "echo: no engine %q: epoll or ring\n", *engine)
		os.Exit(2)
	}
	runtime.LockOSThread()
	fd, err := listen(*addr)
	if err == nil {
		err = run(fd)
	}
	fmt.Fprintln(os.Stderr, "echo:", err)
	os.Exit(1)
}

// listen returns a blocking listening socket; accepted ones inherit TCP_NODELAY.
func listen(addr string) (int, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return -1, err
	}
	fmt.Println("listening", l.Addr())
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return -1, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}
