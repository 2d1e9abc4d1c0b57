//go:build planted

package disk

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// The test of rule 4 proves something only if it fails without the rule.
func TestRule04GhostWritesIsFoundWhenPlanted(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestRule04GhostWrites$", "-test.v")
	cmd.Env = append(os.Environ(), fault.EnvName+"="+string(fault.Rule04LockInRing))
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip("no throttle: needs root and a cgroup with blkio (v1) or io (v2)")
	case err == nil || !strings.Contains(string(out), "had yet to land"):
		t.Errorf("the lock was left out of the ring and nobody noticed (%v):\n%s", err, out)
	}
}
