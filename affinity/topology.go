package affinity

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// CPU is one hardware thread.
type CPU struct {
	ID   int
	Core int // equal for hyperthreads of one core: the lowest CPU among them
	Node int // NUMA node
}

const (
	cpuDir  = "devices/system/cpu"
	nodeDir = "devices/system/node"
)

// Topology reads the given CPUs from a sysfs tree (os.DirFS("/sys")). What the tree does not tell is taken as simple:
// own core, node 0.
//
// Errors: a file that is there and not in its documented form (Documentation/ABI/stable/sysfs-devices-system-cpu).
func Topology(sys fs.FS, cpus []int) ([]CPU, error) {
	nodes, err := nodeOf(sys)
	if err != nil {
		return nil, err
	}
	list := make([]CPU, 0, len(cpus))
	for _, id := range cpus {
		siblings, err := readList(sys, path.Join(cpuDir, "cpu"+strconv.Itoa(id), "topology/thread_siblings_list"))
		if err != nil {
			return nil, err
		}
		core := id
		if len(siblings) > 0 {
			core = slices.Min(siblings)
		}
		list = append(list, CPU{ID: id, Core: core, Node: nodes[id]})
	}
	return list, nil
}

func nodeOf(sys fs.FS) (map[int]int, error) {
	nodes := map[int]int{}
	entries, _ := fs.ReadDir(sys, nodeDir) // missing without NUMA
	for _, e := range entries {
		node, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "node"))
		if err != nil || !strings.HasPrefix(e.Name(), "node") {
			continue
		}
		cpus, err := readList(sys, path.Join(nodeDir, e.Name(), "cpulist"))
		if err != nil {
			return nil, err
		}
		for _, id := range cpus {
			nodes[id] = node
		}
	}
	return nodes, nil
}

// readList reads a CPU list; a missing file is an empty list.
func readList(sys fs.FS, name string) ([]int, error) {
	text, err := fs.ReadFile(sys, name)
	if err != nil {
		return nil, nil
	}
	list, err := ParseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("affinity: %s: %w", name, err)
	}
	return list, nil
}

// maxCPU bounds lists from files and flags: unix.CPUSet has room for 1024.
const maxCPU = 1023

// ParseList reads the kernel's list form, "0-3,8,10-11", sorted and without repeats.
func ParseList(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var list []int
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 16)
		b, errB := strconv.ParseUint(to, 10, 16)
		if errA != nil || errB != nil || a > b || b > maxCPU {
			return nil, fmt.Errorf("%q is no list of CPUs", text)
		}
		for id := a; id <= b; id++ {
			list = append(list, int(id))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// FormatList is the inverse of ParseList.
func FormatList(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		end := i
		for end+1 < len(cpus) && cpus[end+1] == cpus[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if end > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(cpus[end]))
		}
		i = end + 1
	}
	return b.String()
}
