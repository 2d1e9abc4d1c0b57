package disk

import "unsafe"

// alignedHeap returns n bytes of the Go heap at a multiple of blockBytes, as direct I/O needs them.
func alignedHeap(n int) []byte {
	p := make([]byte, n+blockBytes)
	skip := int(-uintptr(unsafe.Pointer(&p[0])) & (blockBytes - 1))
	return p[skip : skip+n : skip+n]
}
