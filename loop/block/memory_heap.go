//go:build race || invariants

package block

import "unsafe"

// mapMemory takes aligned bytes from the Go heap, which the race detector watches.
func mapMemory(n int) ([]byte, error) {
	p := make([]byte, n+Align)
	skip := -uintptr(unsafe.Pointer(&p[0])) & (Align - 1)
	return p[skip : int(skip)+n : int(skip)+n], nil
}

func unmapMemory([]byte) error { return nil }
