package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a kernel without room makes us do, done by hand: completions moved aside and entries kept back keep their order.
func TestBacklogAndSpillKeepTheOrder(t *testing.T) {
	r, got := newRing(t, Config{})
	next := uint64(0)
	enter := func() {
		if err := r.Enter(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		for range 5 {
			nop(r, next)
			next++
		}
		enter()
		r.stash()
	}
	if !r.Ready() || !r.Completions() {
		t.Error("a backlog does not count as ready")
	}
	for range 5 {
		e := new(SQE)
		e.Nop()
		e.Tag(kindTest, next)
		r.spilled = append(r.spilled, e)
		next++
	}
	nop(r, next) // behind those
	next++
	if r.Queued() == 0 {
		t.Error("nothing queued")
	}
	turnUntil(t, r, func() bool { return len(*got) == int(next) })
	for i, c := range *got {
		if c.token != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, c.token)
		}
	}
}

func TestReservedEntriesGoTogether(t *testing.T) {
	r, got := newRing(t, Config{Entries: 8})
	for i := range uint64(6) {
		nop(r, i)
	}
	r.Reserve(4)
	if n := r.Queued(); n > 4 {
		t.Fatalf("%d entries queued, no room for 4 in one submission", n)
	}
	before := r.Stats().Enters
	for i := range uint64(4) {
		nop(r, 6+i)
	}
	if r.Stats().Enters != before {
		t.Error("an enter between reserved entries")
	}
	turnUntil(t, r, func() bool { return len(*got) == 10 })
}

func TestSetupErrorsSayWhatToDo(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.ENOSYS: "Linux 5.11", unix.EPERM: "seccomp", unix.ENOMEM: "RLIMIT_MEMLOCK", unix.EMFILE: "too many open files",
	} {
		err := setupError(os.NewSyscallError("iouring_setup", errno))
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
		if barred := errno == unix.ENOSYS || errno == unix.EPERM; errors.Is(err, ErrUnsupported) != barred {
			t.Errorf("%v: unsupported is %v", errno, !barred)
		}
	}
}

func TestKindsHaveOneHandler(t *testing.T) {
	r, _ := newRing(t, Config{})
	for _, kind := range []uint8{kindTest, kindWake, KindIgnore} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("kind %d took a second handler", kind)
				}
			}()
			r.Handle(kind, func(uint64, int32, uint32) {})
		}()
	}
}

func TestWorkersGoWhereTheyAreSent(t *testing.T) {
	r, got := newRing(t, Config{})
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Fatal(err)
	}
	if err := r.RegisterIOWQAff(&mask); err != nil {
		t.Fatal(err)
	}
	e := r.SQE()
	e.Nop()
	e.Async() // on a worker
	e.Tag(kindTest, 1)
	turnUntil(t, r, func() bool { return len(*got) == 1 })
}

func ExampleUserData() {
	fmt.Printf("%#x\n", UserData(KindLoop, 1<<60|7))
	// Output: 0x1000000000000007
}
