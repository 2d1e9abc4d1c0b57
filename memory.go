package slipring

import (
	"bufio"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryAllowed is what this process may use, bytes: the least of the host's memory and the limits of its cgroup and
// the cgroups above, of version 1 or 2 (cgroups(7)).
func memoryAllowed() int64 {
	var info unix.Sysinfo_t
	allowed := int64(1) << 30
	if err := unix.Sysinfo(&info); err == nil {
		allowed = int64(info.Totalram) * int64(info.Unit)
	}
	f, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return allowed
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "": // version 2
			allowed = min(allowed, cgroupLimit("/sys/fs/cgroup", parts[2], "memory.max", allowed))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			allowed = min(allowed, cgroupLimit("/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", allowed))
		}
	}
	return allowed
}

// cgroupLimit walks from group up to the root of a hierarchy and returns the least limit found, or none.
func cgroupLimit(root, group, file string, none int64) int64 {
	least := none
	for {
		text, err := os.ReadFile(path.Join(root, group, file))
		if err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
		if group == "/" || group == "." || group == "" {
			return least
		}
		group = path.Dir(group)
	}
}
