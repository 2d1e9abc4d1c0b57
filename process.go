package slipring

import (
	"runtime"
	"runtime/debug"

	"github.com/slipringmq/slipring/affinity"
)

// heapMin is the least soft limit for the Go heap, bytes: below it the collector would run all the time.
const heapMin = 64 << 20

// ownProcess sets what belongs to the whole process, for a daemon: the Go runtime's threads stay on the housekeeping
// CPUs, a shard that returns from the kernel finds a P free, and the collector knows that blocks count too.
func ownProcess(plan affinity.Plan, s sizes, pin bool) error {
	runtime.GOMAXPROCS(plan.Procs())
	debug.SetMemoryLimit(max(s.heap, heapMin))
	if !pin {
		return nil
	}
	return affinity.Confine(plan.Housekeeping)
}
