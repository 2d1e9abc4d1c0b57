//go:build race

package slipring_test

// raceBuild: the race detector slows everything and takes blocks from the Go heap.
const raceBuild = true
