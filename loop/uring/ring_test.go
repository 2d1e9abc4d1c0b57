package uring

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const kindTest = 200

type completion struct {
	token  uint64
	result int32
	flags  uint32
}

// newRing gives the test a ring on its own thread and a slice that collects what completes.
func newRing(t *testing.T, c Config) (*Ring, *[]completion) {
	t.Helper()
	runtime.LockOSThread()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	var got []completion
	r.Handle(kindTest, func(token uint64, result int32, flags uint32) {
		got = append(got, completion{token, result, flags})
	})
	return r, &got
}

func turnUntil(t *testing.T, r *Ring, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatal("no completion within 10 s")
		}
		if err := r.Enter(1, int64(time.Second)); err != nil {
			t.Fatal(err)
		}
		r.Dispatch()
	}
}

func nop(r *Ring, token uint64) {
	e := r.SQE()
	e.Nop()
	e.Tag(kindTest, token)
}

// Where the kernel is new enough, the best mode must be the one we get.
func TestModeIsTheBestOfTheKernel(t *testing.T) {
	r, _ := newRing(t, Config{})
	if !r.Deferred() {
		t.Fatalf("mode %q", r.Mode())
	}
	plain, _ := newRing(t, Config{Plain: true})
	if plain.Deferred() || !strings.Contains(plain.Mode(), "Linux 6.1") {
		t.Fatalf("fallback mode %q does not name the kernel it lacks", plain.Mode())
	}
	got := 0
	plain.Handle(kindTest+1, func(uint64, int32, uint32) { got++ })
	e := plain.SQE()
	e.Nop()
	e.Tag(kindTest+1, 1)
	turnUntil(t, plain, func() bool { return got == 1 })
}

func TestOneEnterSubmitsAndWaits(t *testing.T) {
	r, got := newRing(t, Config{})
	for i := range uint64(100) {
		nop(r, 1<<50+i)
	}
	if err := r.Enter(100, int64(time.Second)); err != nil {
		t.Fatal(err)
	}
	r.Dispatch()
	if len(*got) != 100 || r.Stats().Enters != 1 {
		t.Fatalf("%d completions after %d enters", len(*got), r.Stats().Enters)
	}
	for i, c := range *got {
		if c.token != 1<<50+uint64(i) {
			t.Fatalf("completion %d has token %#x", i, c.token)
		}
	}
}

func TestFullSubmissionQueueCostsAnEnterAndLosesNothing(t *testing.T) {
	r, got := newRing(t, Config{Entries: 8, CompletionQ: 16})
	const n = 1000
	for i := range uint64(n) {
		nop(r, i)
	}
	turnUntil(t, r, func() bool { return len(*got) == n })
	for i, c := range *got {
		if c.token != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, c.token)
		}
	}
	if s := r.Stats(); s.ExtraEnters == 0 || s.Overflows == 0 {
		t.Errorf("stats %+v: neither full nor overflown, the test shows nothing", s)
	}
}

// A handler that submits while its completion is dispatched must not lose its siblings' completions.
func TestHandlersMaySubmitIntoAFullQueue(t *testing.T) {
	r, _ := newRing(t, Config{Entries: 8, CompletionQ: 16})
	left, ended := 2000, 0
	r.Handle(kindTest+1, func(token uint64, _ int32, _ uint32) {
		ended++
		for i := 0; i < 2 && left > 0; i++ {
			left--
			e := r.SQE()
			e.Nop()
			e.Tag(kindTest+1, 0)
		}
	})
	left--
	e := r.SQE()
	e.Nop()
	e.Tag(kindTest+1, 0)
	turnUntil(t, r, func() bool { return ended == 2000 })
}

func TestWaitEndsWithItsTimeout(t *testing.T) {
	r, _ := newRing(t, Config{})
	start := time.Now()
	if err := r.Enter(1, int64(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 19*time.Millisecond || took > 5*time.Second {
		t.Fatalf("waited %v", took)
	}
}

// However Wake falls relative to the park, the wait ends long before its timeout.
func TestNoWakeIsLost(t *testing.T) {
	r, _ := newRing(t, Config{})
	const rounds = 5000
	var posted, taken atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range int64(rounds) {
			posted.Add(1)
			r.Wake()
			for taken.Load() <= i {
				runtime.Gosched()
			}
		}
	}()
	for taken.Load() < rounds {
		start := time.Now()
		if err := r.Enter(1, int64(20*time.Second)); err != nil {
			t.Fatal(err)
		}
		r.Dispatch()
		if time.Since(start) > 10*time.Second {
			t.Fatalf("round %d slept through its wake", taken.Load())
		}
		taken.Store(posted.Load())
	}
	<-stopped
}

func TestWakeAfterCloseTouchesNobody(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.bell.parked.Store(1) // as if Wake had found the owner parked, just before it closed
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Wake()
	if err := r.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
}

func TestAnotherThreadIsRefused(t *testing.T) {
	r, _ := newRing(t, Config{})
	r.flags &^= enterRegisteredRing // the index would be unknown on the other thread
	r.enterFD = uintptr(r.fd)
	errs := make(chan error)
	go func() {
		runtime.LockOSThread()
		nop(r, 1)
		errs <- r.Enter(0, 0)
	}()
	if err := <-errs; err == nil {
		t.Fatal("a second thread could submit")
	}
}

func TestDurableVectoredWriteAndRead(t *testing.T) {
	r, got := newRing(t, Config{})
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, b := []byte("hello "), []byte("world")
	iov := []unix.Iovec{{Base: &a[0], Len: uint64(len(a))}, {Base: &b[0], Len: uint64(len(b))}}
	e := r.SQE()
	e.Writev(int(f.Fd()), &iov[0], 2, 3, RWFDSync)
	e.Tag(kindTest, 1)
	e.Link()
	p := make([]byte, 11)
	e = r.SQE()
	e.Read(int(f.Fd()), p, 3)
	e.Tag(kindTest, 2)
	e.Link()
	e = r.SQE()
	e.Fsync(int(f.Fd()), true)
	e.Tag(kindTest, 3)
	turnUntil(t, r, func() bool { return len(*got) == 3 })
	if (*got)[0].result != 11 || (*got)[1].result != 11 || (*got)[2].result != 0 || string(p) != "hello world" {
		t.Fatalf("%v %q", *got, p)
	}
}

func TestRegisteredBuffers(t *testing.T) {
	r, got := newRing(t, Config{})
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.RegisterSparse(4); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := r.UpdateBuffer(2, memory); err != nil {
		t.Fatal(err)
	}
	copy(memory, "pinned")
	e := r.SQE()
	e.WriteFixed(int(f.Fd()), memory[:6], 0, RWFDSync, 2)
	e.Tag(kindTest, 1)
	e.Link()
	e = r.SQE()
	e.ReadFixed(int(f.Fd()), memory[4096:4102], 0, 2)
	e.Tag(kindTest, 2)
	turnUntil(t, r, func() bool { return len(*got) == 2 })
	if (*got)[0].result != 6 || (*got)[1].result != 6 || string(memory[4096:4102]) != "pinned" {
		t.Fatalf("%v %q", *got, memory[4096:4102])
	}
}

func TestMemlockErrorIsRecognised(t *testing.T) {
	if err := memlockError(os.NewSyscallError("x", unix.ENOMEM)); err == nil || !strings.Contains(err.Error(), ErrMemlock.Error()) {
		t.Fatal(err)
	}
}

func TestCancelEndsAPoll(t *testing.T) {
	r, got := newRing(t, Config{})
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	e := r.SQE()
	e.Poll(pipe[0], unix.POLLIN, true)
	e.Tag(kindTest, 5)
	if err := r.Enter(0, 0); err != nil {
		t.Fatal(err)
	}
	e = r.SQE()
	e.Cancel(UserData(kindTest, 5))
	e.Tag(KindIgnore, 0)
	turnUntil(t, r, func() bool { return len(*got) == 1 })
	if c := (*got)[0]; c.result != -int32(unix.ECANCELED) || c.flags&FlagMore != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestMsgRingWakesAnotherRing(t *testing.T) {
	r, got := newRing(t, Config{})
	other := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		sender, err := New(Config{})
		if err == nil {
			e := sender.SQE()
			e.MsgRing(r.FD(), UserData(kindTest, 9), 42)
			e.Tag(KindIgnore, 0)
			err = sender.Enter(1, int64(time.Second))
			sender.Dispatch()
			sender.Close()
		}
		other <- err
	}()
	turnUntil(t, r, func() bool { return len(*got) == 1 })
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	if c := (*got)[0]; c.token != 9 || c.result != 42 {
		t.Fatalf("%+v", c)
	}
}

func TestTurnAllocatesNothing(t *testing.T) {
	r, _ := newRing(t, Config{})
	n := 0
	r.Handle(kindTest+1, func(uint64, int32, uint32) { n++ })
	turn := func() {
		for range 16 {
			e := r.SQE()
			e.Nop()
			e.Tag(kindTest+1, 1)
		}
		_ = r.Enter(1, int64(time.Second))
		r.Dispatch()
	}
	turn()
	if a := testing.AllocsPerRun(200, turn); a != 0 {
		t.Fatalf("%v allocations a turn", a)
	}
	if n < 16*200 {
		t.Fatalf("only %d completions", n)
	}
}

// A kill leaves requests of a dead process in the kernel; a registered lock is released by the last of them only. Here:
// closing the descriptor does not free the lock while the ring lives, closing the ring does.
func TestRegisteredFileKeepsItsLock(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() int {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	fd := open()
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RegisterFiles(fd); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	second := open()
	defer unix.Close(second)
	if err := unix.Flock(second, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Fatalf("lock while the ring holds it: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(second, unix.LOCK_EX); err != nil { // waits, at most as long as the test may run
		t.Fatal(err)
	}
}

func TestProvidedBuffersCarryAPipe(t *testing.T) {
	r, got := newRing(t, Config{})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	group, err := r.RegisterBufRing(3, 4)
	if err != nil {
		t.Fatal(err)
	}
	buffers := make([][]byte, 4)
	for i := range buffers {
		buffers[i] = make([]byte, 16)
		group.Add(uint16(i), buffers[i])
	}
	group.Publish()
	e := r.SQE()
	e.RecvMultishot(pair[0], 3)
	e.Tag(kindTest, 1)
	var text []byte
	used := 0
	for i := range 50 {
		msg := []byte{byte('a' + i%26), '0'}
		if _, err := unix.Write(pair[1], msg); err != nil {
			t.Fatal(err)
		}
		turnUntil(t, r, func() bool { return len(*got) > used })
		c := (*got)[used]
		used++
		id, ok := BufferID(c.flags)
		if !ok || c.flags&FlagMore == 0 || c.result != 2 {
			t.Fatalf("receive %d: %+v", i, c)
		}
		text = append(text, buffers[id][:c.result]...)
		group.Add(id, buffers[id])
		group.Publish()
	}
	if len(text) != 100 || string(text[:4]) != "a0b0" {
		t.Fatalf("%q", text)
	}
	unix.Close(pair[1])
	turnUntil(t, r, func() bool { return len(*got) > used })
	if c := (*got)[used]; c.result != 0 || c.flags&FlagMore != 0 {
		t.Fatalf("end of stream: %+v", c)
	}
	if err := group.Close(); err != nil {
		t.Fatal(err)
	}
}
