package affinity

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// UnpinnedEnv names the environment variable that, when it is not empty, turns Pin and Confine off: test processes that
// run side by side would all crowd on the first CPUs.
const UnpinnedEnv = "SLIPRING_UNPINNED"

// Unpinned reports whether pinning is switched off.
func Unpinned() bool { return os.Getenv(UnpinnedEnv) != "" }

// Allowed is the CPUs that the calling thread may use, sorted.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("affinity: sched_getaffinity: %w", err)
	}
	var list []int
	for id := 0; id <= maxCPU; id++ {
		if set.IsSet(id) {
			list = append(list, id)
		}
	}
	return list, nil
}

// Pin moves the calling thread to one CPU. The goroutine is locked to the thread and must end locked, so that the thread
// ends with it: nobody else may inherit the pin. Nothing happens when Unpinned.
func Pin(cpu int) error {
	if Unpinned() {
		return nil
	}
	set := maskOf([]int{cpu})
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("affinity: pin to CPU %d: %w", cpu, err)
	}
	return nil
}

// Confine keeps every present thread of the process, and those they will start, on the given CPUs. Call it before the
// shards start: their threads then leave by Pin. Nothing happens when Unpinned.
//
// The runtime starts threads at any time, so we look again until a pass finds only threads it has seen. (A thread locked
// to a goroutine starts none: the runtime hands that to another.)
func Confine(cpus []int) error {
	if Unpinned() || len(cpus) == 0 {
		return nil
	}
	set := maskOf(cpus)
	seen := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("affinity: list threads: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || seen[id] {
				continue
			}
			seen[id], fresh = true, true
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("affinity: confine to CPUs %s: %w", FormatList(cpus), err)
			}
		}
	}
	return nil
}

func maskOf(cpus []int) (set unix.CPUSet) {
	for _, id := range cpus {
		set.Set(id)
	}
	return set
}
