// Command diskfloor measures what a durable write costs at the least: aligned O_DIRECT writes with RWF_DSYNC into a file that
// was written with zeros before, one after the other round and round. Acknowledgements of a broker cannot be faster.
//
//	diskfloor --file ./floor.tmp --size 4096 --count 2000 --depth 1
//
// It prints p50, p99, max and MiB/s, and removes the file. With --depth N, N threads write blocks of their own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const align = 4096

func main() {
	file := flag.String("file", "diskfloor.tmp", "`path` of the file to write; on the file system to be measured")
	size := flag.Int("size", align, "bytes of a write, a multiple of 4096")
	count := flag.Int("count", 2000, "writes to time, of all threads together")
	depth := flag.Int("depth", 1, "writes in flight")
	length := flag.Int64("length", 64<<20, "bytes of the file")
	flag.Parse()
	if *size <= 0 || *size%align != 0 || *count < 1 || *depth < 1 || *length < int64(*size)*int64(*depth) {
		fmt.Fprintln(os.Stderr, "diskfloor: --size must be a multiple of 4096, --count and --depth at least 1, --length at least size x depth")
		os.Exit(2)
	}
	if err := run(*file, *size, *count, *depth, *length); err != nil {
		fmt.Fprintln(os.Stderr, "diskfloor:", err)
		os.Exit(1)
	}
}

func run(name string, size, count, depth int, length int64) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("%s: open with O_DIRECT: %w", name, err)
	}
	defer unix.Unlink(name)
	defer unix.Close(fd)
	if err := zero(fd, length); err != nil {
		return fmt.Errorf("%s: writing zeros: %w", name, err)
	}
	slots := length / int64(size) / int64(depth) // per thread
	times := make([][]time.Duration, depth)
	errs := make([]error, depth)
	start := time.Now()
	var running sync.WaitGroup
	for i := range depth {
		running.Go(func() { times[i], errs[i] = writes(fd, size, share(count, depth, i), int64(i)*slots, slots) })
	}
	running.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: write: %w", name, err)
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	fmt.Printf("size=%d depth=%d count=%d p50=%v p99=%v max=%v mib_per_second=%.1f\n", size, depth, len(all),
		all[len(all)/2], all[len(all)*99/100], all[len(all)-1], float64(len(all)*size)/(1<<20)/took.Seconds())
	return nil
}

// share is how many of count writes thread i of depth does.
func share(count, depth, i int) int {
	n := count / depth
	if i < count%depth {
		n++
	}
	return n
}

// zero writes the whole file, so that later writes neither allocate nor convert extents.
func zero(fd int, length int64) error {
	block := aligned(1 << 20)
	for at := int64(0); at < length; {
		n, err := unix.Pwrite(fd, block[:min(int64(len(block)), roundUp(length-at))], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return unix.Fsync(fd)
}

// writes does n durable writes into slots from first on.
func writes(fd, size, n int, first, slots int64) ([]time.Duration, error) {
	block := aligned(size)
	for i := range block {
		block[i] = byte(i) // zeros could be treated apart by the device
	}
	vectors := [][]byte{block}
	times := make([]time.Duration, 0, n)
	for i := range n {
		at := (first + int64(i)%slots) * int64(size)
		start := time.Now()
		done, err := unix.Pwritev2(fd, vectors, at, unix.RWF_DSYNC)
		if err != nil {
			return times, err
		}
		if done != size {
			return times, fmt.Errorf("%d of %d bytes", done, size)
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

func roundUp(n int64) int64 { return (n + align - 1) / align * align }

// aligned gives n bytes at an address that is a multiple of the alignment.
func aligned(n int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (align - 1))
	return b[off : off+n : off+n]
}
