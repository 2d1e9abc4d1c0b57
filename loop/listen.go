package loop

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// listenSocket opens a listening TCP socket and returns its actual address.
func listenSocket(addr netip.AddrPort, reusePort bool) (int, netip.AddrPort, error) {
	family, name := sockaddr(addr)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	actual, err := bindAndListen(fd, name, reusePort)
	if err != nil {
		_ = unix.Close(fd)
		return -1, netip.AddrPort{}, err
	}
	return fd, actual, nil
}

func bindAndListen(fd int, name unix.Sockaddr, reusePort bool) (netip.AddrPort, error) {
	// SO_REUSEADDR skips the wait for TIME_WAIT after a restart; a port with a listener is refused all the same.
	// TCP_NODELAY is inherited by accepted sockets: a turn sends what it has at once, so delaying would gain nothing.
	options := []struct{ level, name int }{{unix.SOL_SOCKET, unix.SO_REUSEADDR}, {unix.IPPROTO_TCP, unix.TCP_NODELAY}}
	if reusePort {
		options = append(options, struct{ level, name int }{unix.SOL_SOCKET, unix.SO_REUSEPORT})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			return netip.AddrPort{}, fmt.Errorf("setsockopt: %w", err)
		}
	}
	if err := unix.Bind(fd, name); err != nil {
		return netip.AddrPort{}, fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, listenBacklog); err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen: %w", err)
	}
	actual, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("getsockname: %w", err)
	}
	return addrPort(actual), nil
}

func sockaddr(addr netip.AddrPort) (family int, name unix.Sockaddr) {
	if ip := addr.Addr(); ip.Is6() && !ip.Is4In6() {
		return unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16()}
	}
	v4 := &unix.SockaddrInet4{Port: int(addr.Port())}
	if ip := addr.Addr().Unmap(); ip.IsValid() {
		v4.Addr = ip.As4()
	}
	return unix.AF_INET, v4
}

func addrPort(name unix.Sockaddr) netip.AddrPort {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
