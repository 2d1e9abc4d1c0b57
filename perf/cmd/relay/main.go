// Command relay copies bytes from one TCP connection to another with a bare epoll loop: the least that any broker must do
// between a publisher and a subscriber, and the floor that streaming figures are compared with.
//
//	relay --in 127.0.0.1:7501 --out 127.0.0.1:7502     publisher connects to the first, subscriber to the second
//	relay --listen 127.0.0.1:7501                      both to one address, the subscriber first
//
// It prints "listening IN OUT", serves --pairs pairs one after the other (0: without end), and prints bytes and rate of
// each to standard error. One thread, reads of 256 KiB, a short write waits for the subscriber.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const readBytes = 256 << 10

func main() {
	in := flag.String("in", "127.0.0.1:0", "address on which the publisher connects")
	out := flag.String("out", "127.0.0.1:0", "address on which the subscriber connects")
	both := flag.String("listen", "", "one address for both; the subscriber connects first")
	pairs := flag.Int("pairs", 1, "pairs to serve; 0: without end")
	flag.Parse()
	if err := run(*in, *out, *both, *pairs); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(in, out, both string, pairs int) error {
	if both != "" {
		in, out = both, both
	}
	fromListener, err := listen(out)
	if err != nil {
		return err
	}
	toListener := fromListener
	if both == "" {
		if fromListener, err = listen(in); err != nil {
			return err
		}
	}
	fmt.Println("listening", fromListener.Addr(), toListener.Addr())
	runtime.LockOSThread()
	for n := 0; pairs == 0 || n < pairs; n++ {
		if err := serve(fromListener, toListener); err != nil {
			return err
		}
	}
	return nil
}

func listen(addr string) (*net.TCPListener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// serve relays one pair from its first byte to the publisher's end.
func serve(fromListener, toListener *net.TCPListener) error {
	to, err := accept(toListener)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	from, err := accept(fromListener)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	start := time.Now()
	total, err := copyAll(to, from)
	took := time.Since(start)
	how := "end of the publisher"
	if err != nil { // one side went away: the end of this pair, not of the relay
		how = err.Error()
	}
	fmt.Fprintf(os.Stderr, "%d bytes in %.3f s, %.0f MiB/s, %s\n", total, took.Seconds(), float64(total)/(1<<20)/took.Seconds(), how)
	return nil
}

// accept returns a nonblocking descriptor that Go's own poller does not know.
func accept(l *net.TCPListener) (int, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return -1, err
	}
	defer c.Close()
	f, err := c.File()
	if err != nil {
		return -1, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetNonblock(fd, true)
}

func copyAll(to, from int) (total int64, err error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(poll)
	// Exactly one of the two is armed: reading stops while the subscriber does not take what was read.
	input := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(from)}
	output := unix.EpollEvent{Fd: int32(to)}
	if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, from, &input); err != nil {
		return 0, err
	}
	if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, to, &output); err != nil {
		return 0, err
	}
	arm := func(in, out uint32) error {
		input.Events, output.Events = in, out
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, from, &input); err != nil {
			return err
		}
		return unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, to, &output)
	}
	buffer := make([]byte, readBytes)
	var rest []byte
	events := make([]unix.EpollEvent, 2)
	for {
		n, err := unix.EpollWait(poll, events, -1)
		if err != nil && err != unix.EINTR {
			return total, err
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == to && e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
				return total, unix.EPIPE
			}
		}
		wasFull := len(rest) > 0
		if !wasFull {
			n, err := unix.Read(from, buffer)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
				continue
			case err != nil:
				return total, err
			case n == 0:
				return total, nil
			}
			rest = buffer[:n]
		}
		n, err = unix.Write(to, rest)
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return total, err
		}
		n = max(n, 0)
		total += int64(n)
		rest = rest[n:]
		switch {
		case len(rest) > 0 && !wasFull:
			err = arm(0, unix.EPOLLOUT)
		case len(rest) == 0 && wasFull:
			err = arm(unix.EPOLLIN, 0)
		default:
			err = nil
		}
		if err != nil {
			return total, err
		}
	}
}
