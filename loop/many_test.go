package loop

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const manyConns = 9000

// 9,000 connections, opened and driven by a child process (descriptors are limited per process): all live at once, all
// are served, and an idle one holds no block.
func TestNineThousandConnections(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < manyConns+100 {
		t.Skipf("needs %d descriptors a process, the limit is %d", manyConns+100, limit.Cur)
	}
	each(t, func(t *testing.T, e engine) {
		idle := make(chan int, 1)
		echoed := 0
		s := serve(t, e, Config{}, options{}, func(l Loop) *handler {
			baseline := poolInUse(l)
			return &handler{
				received: func(c Conn, p []byte) { l.Send(c, p); echoed += len(p) },
				endTurn: func(int64, int64) int64 {
					if st := l.Stats(); echoed == 2*manyConns*manyBytes && st.Connections == manyConns && st.BytesOut == st.BytesIn {
						select {
						case idle <- poolInUse(l) - baseline:
						default:
						}
					}
					return 0
				},
			}
		})
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+s.addr.String())
		var out bytes.Buffer
		child.Stdout, child.Stderr = &out, &out
		stdin, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case n := <-idle:
			if n != 0 {
				t.Errorf("%d connections at rest hold %d bytes of blocks", manyConns, n)
			}
		case <-time.After(60 * time.Second):
			t.Errorf("not all served: %+v", s.turnStats())
		}
		stdin.Close() // lets the child close everything
		if err := child.Wait(); err != nil {
			t.Fatalf("child: %v\n%s", err, out.String())
		}
		eventually(t, "all closed", func() bool { return s.turnStats().Connections == 0 })
		if st := s.turnStats(); st.Accepted != manyConns || st.Refused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func poolInUse(l Loop) int {
	if u, ok := l.(*Uring); ok {
		return u.pool.Stats().InUse
	}
	return 0
}

const manyBytes = 100

// childMain opens the connections, echoes over all of them twice, and closes when its input ends.
func childMain(addr string) int {
	conns := make([]net.Conn, manyConns)
	err := inParallel(func(i int) (err error) {
		conns[i], err = net.Dial("tcp", addr)
		return err
	})
	for range 2 {
		if err == nil {
			err = inParallel(func(i int) error {
				_, err := conns[i].Write(pattern(manyBytes, uint32(i)))
				return err
			})
		}
		if err == nil {
			err = inParallel(func(i int) error {
				got := make([]byte, manyBytes)
				if _, err := io.ReadFull(conns[i], got); err != nil {
					return err
				}
				if !bytes.Equal(got, pattern(manyBytes, uint32(i))) {
					return fmt.Errorf("connection %d: echo differs", i)
				}
				return nil
			})
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = inParallel(func(i int) error { return conns[i].Close() })
	return 0
}

// inParallel runs f for every connection, 64 at a time, and returns one of the errors.
func inParallel(f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for worker := range 64 {
		wg.Go(func() {
			for i := worker; i < manyConns; i += 64 {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Out of descriptors: the loop neither spins nor gives up, says so once, and accepts when there are some again.
func TestAcceptWithoutDescriptorsBacksOff(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		restore := limit
		defer unix.Setrlimit(unix.RLIMIT_NOFILE, &restore)
		limit.Cur = 3 // every new descriptor is above it; those that are open go on
		opened := make(chan struct{}, 1)
		log := &lines{}
		s := serve(t, e, Config{Spin: -1, Log: log.logger()}, options{}, func(Loop) *handler {
			// Between Listen and Run: a ring takes the limit as it is when an accept is submitted.
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				t.Error(err)
			}
			return &handler{opened: func(Conn, int, netip.AddrPort) { opened <- struct{}{} }}
		})
		before := s.turnStats()
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(s.addr.Port()), Addr: s.addr.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(350 * time.Millisecond) // three or four tries
		after := s.turnStats()
		if turns := after.Turns - before.Turns; turns < 2 || turns > 50 || after.Accepted != 0 {
			t.Errorf("%d turns, %d accepted without a descriptor", turns, after.Accepted)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &restore); err != nil {
			t.Fatal(err)
		}
		within(t, "Opened", opened)
		if n := log.count("cannot accept"); n != 1 {
			t.Errorf("reported %d times", n)
		}
	})
}
