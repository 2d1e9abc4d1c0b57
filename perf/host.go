package perf

import (
	"bytes"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is what a figure was measured on.
type Host struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisHost() Host {
	h := Host{CPU: cpuModel(), CPUs: runtime.NumCPU(), Go: runtime.Version()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = string(bytes.TrimRight(u.Release[:], "\x00"))
	}
	return h
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // unreadable: unknown
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
