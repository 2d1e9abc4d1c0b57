//go:build !race && !invariants

package block

import "golang.org/x/sys/unix"

// mapMemory maps n bytes outside the Go heap: the garbage collector neither scans nor counts them. All pages come at
// once, cheaper than by a fault each when the first bytes arrive.
func mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
}

func unmapMemory(p []byte) error { return unix.Munmap(p) }
