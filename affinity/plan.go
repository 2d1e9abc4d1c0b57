package affinity

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Plan says which CPU each shard gets and which are left for everything else: Go's runtime, HTTP, the log writer, and
// the kernel's worker threads.
type Plan struct {
	Shards       []int // CPU of shard i; several shards share one when there are more shards than CPUs
	Housekeeping []int // never empty; all CPUs when shards take them all
}

// MakePlan plans for this process and host: the CPUs that sched_getaffinity allows, which includes the cgroup's cpuset.
// shards 0 takes the default, CPUs - housekeeping. It must run before Confine and Pin.
func MakePlan(shards int) (Plan, error) {
	allowed, err := Allowed()
	if err != nil {
		return Plan{}, err
	}
	return planFor(os.DirFS("/sys"), allowed, shards)
}

func planFor(sys fs.FS, allowed []int, shards int) (Plan, error) {
	cpus, err := Topology(sys, allowed)
	if err != nil {
		return Plan{}, err
	}
	return PlanFor(cpus, shards)
}

// PlanFor is the decision itself.
//
// Shards go to one hyperthread per core first, node by node, then to the second threads. The lowest cores, which most
// interrupts use, come last. Housekeeping is what remains.
func PlanFor(cpus []CPU, shards int) (Plan, error) {
	if len(cpus) == 0 {
		return Plan{}, errors.New("affinity: no CPU to plan for")
	}
	if shards < 0 {
		return Plan{}, errors.New("affinity: the number of shards is negative")
	}
	kept := housekeepingCount(len(cpus))
	if shards == 0 {
		shards = len(cpus) - kept
	}
	order := preference(cpus, kept)
	var p Plan
	for i := range shards {
		p.Shards = append(p.Shards, order[i%len(order)])
	}
	if shards < len(order) {
		p.Housekeeping = slices.Clone(order[shards:])
	} else {
		p.Housekeeping = order
	}
	slices.Sort(p.Housekeeping)
	return p, nil
}

// housekeepingCount is one CPU in eight, at least one from three CPUs on. With one or two, shards share theirs.
func housekeepingCount(cpus int) int {
	if cpus <= 2 {
		return 0
	}
	return max(1, cpus/8)
}

// preference orders CPUs by how well they suit a shard; the last kept ones are the best for housekeeping.
func preference(cpus []CPU, kept int) []int {
	sorted := slices.SortedFunc(slices.Values(cpus), func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	reserved, rest := sorted[:kept], sorted[kept:]
	var order []int
	for thread := 0; len(order) < len(rest); thread++ {
		nth := 0
		for i, c := range rest {
			if i > 0 && rest[i-1].Core == c.Core {
				nth++
			} else {
				nth = 0
			}
			if nth == thread {
				order = append(order, c.ID)
			}
		}
	}
	for _, c := range reserved {
		order = append(order, c.ID)
	}
	return order
}

// HousekeepingMask is the housekeeping CPUs as the kernel wants them.
func (p Plan) HousekeepingMask() unix.CPUSet { return maskOf(p.Housekeeping) }

// Procs is the GOMAXPROCS to set. A shard that returns from a system call needs a P at once; with two more than threads
// that can run, one is always free.
func (p Plan) Procs() int { return len(p.Shards) + len(p.Housekeeping) + 2 }
