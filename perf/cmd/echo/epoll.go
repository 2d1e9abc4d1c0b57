package main

import "golang.org/x/sys/unix"

func serveEpoll(listener int) error {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := add(poll, listener); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	events := make([]unix.EpollEvent, 512)
	for {
		n, err := unix.EpollWait(poll, events, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == listener {
				fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
				if err == nil {
					err = add(poll, fd)
				}
				if err != nil && err != unix.ECONNABORTED && err != unix.EINTR {
					return err
				}
				continue
			}
			echoOnce(int(e.Fd), buffer)
		}
	}
}

func add(poll, fd int) error {
	return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// echoOnce closes the socket at its end or at an error; epoll forgets it then.
func echoOnce(fd int, buffer []byte) {
	n, err := unix.Read(fd, buffer)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if n > 0 {
		if k, err := unix.Write(fd, buffer[:n]); err == nil && k == n {
			return
		}
	}
	_ = unix.Close(fd)
}
