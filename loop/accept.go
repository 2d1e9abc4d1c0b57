package loop

import (
	"fmt"
	"net/netip"

	"github.com/slipringmq/slipring/loop/uring"
	"golang.org/x/sys/unix"
)

type listener struct {
	fd      int
	index   int
	addr    netip.AddrPort
	armed   bool  // a multishot accept is in flight
	closed  bool  // no more accepting; the socket goes when armed ends
	retryAt int64 // when to accept again after a shortage; 0: no shortage
}

// Listen opens a listener and returns its index and actual address; before Run.
//
// Errors: the kernel's, wrapped, with the address: EADDRINUSE, EACCES, EADDRNOTAVAIL.
func (e *Uring) Listen(addr netip.AddrPort) (int, netip.AddrPort, error) {
	fd, actual, err := listenSocket(addr, e.config.ReusePort)
	if err != nil {
		return 0, netip.AddrPort{}, fmt.Errorf("loop: listen on %s: %w", addr, err)
	}
	l := &listener{fd: fd, index: len(e.listeners), addr: actual}
	e.listeners = append(e.listeners, l)
	if e.handler != nil { // else Run does: the ring may turn for the disk before there is anybody to tell
		e.armAccept(l)
	}
	return l.index, actual, nil
}

// CloseListeners stops accepting. Connections that the kernel has established but not handed over are reset.
func (e *Uring) CloseListeners() {
	for _, l := range e.listeners {
		if l.closed {
			continue
		}
		l.closed, l.retryAt = true, 0
		if l.armed {
			s := e.ring.SQE()
			s.Cancel(uring.UserData(kindAccept, uint64(l.index)))
			s.Tag(uring.KindIgnore, 0)
			continue
		}
		l.closeSocket()
	}
}

// listening reports whether the kernel still holds an accept.
func (e *Uring) listening() bool {
	for _, l := range e.listeners {
		if l.armed {
			return true
		}
	}
	return false
}

func (e *Uring) closeListenerSockets() {
	for _, l := range e.listeners {
		l.closed = true
		l.closeSocket()
	}
}

func (l *listener) closeSocket() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

func (e *Uring) armAccept(l *listener) {
	l.armed, l.retryAt = true, 0
	s := e.ring.SQE()
	s.AcceptMultishot(l.fd, unix.SOCK_CLOEXEC)
	s.Tag(kindAccept, uint64(l.index))
}

// accepted is the completion of an accept: a connection, or why there is none.
func (e *Uring) accepted(token uint64, result int32, flags uint32) {
	l := e.listeners[token]
	if result >= 0 {
		e.acceptWarn = false
		e.admit(l, result)
	}
	if flags&uring.FlagMore != 0 {
		return
	}
	l.armed = false
	switch errno := unix.Errno(-result); {
	case l.closed:
		l.closeSocket()
	case result >= 0, errno == unix.ECONNABORTED, errno == unix.EINTR, errno == unix.EAGAIN, errno == unix.ECANCELED:
		e.armAccept(l)
	default:
		// Out of descriptors or memory, mostly. The connections stay in the kernel's queue meanwhile.
		l.retryAt = e.now + acceptRetryNanos
		if !e.acceptWarn {
			e.acceptWarn = true
			e.config.Log.Warn("cannot accept connections, trying again", "listener", l.addr.String(), "error", errno,
				"connections", e.conns.live)
		}
	}
}

func (e *Uring) admit(l *listener, fd int32) {
	var c *conn
	if !l.closed && !e.stopped.Load() {
		c = e.conns.add(fd)
	}
	if c == nil {
		e.stats.Refused++
		e.closeFD(fd)
		return
	}
	e.stats.Accepted++
	var remote netip.AddrPort
	if name, err := unix.Getpeername(int(fd)); err == nil { // fails when the peer is gone already; the receive will say so
		remote = addrPort(name)
	}
	e.touch(c)
	e.handler.Opened(c.id(), l.index, remote)
}

func (e *Uring) closeFD(fd int32) {
	s := e.ring.SQE()
	s.Close(int(fd))
	s.Tag(uring.KindIgnore, 0)
}
