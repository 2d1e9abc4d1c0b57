//go:build planted

package disk

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// The tests of these rules prove something only if they fail without the rule, and for the right reason.
func TestDirectoryRulesAreFoundWhenPlanted(t *testing.T) {
	for _, c := range []struct {
		planted    fault.Fault
		test, says string
	}{
		{fault.Rule04LockInRing, "TestRule04GhostWrites", "had yet to land"},
		{fault.Rule05NewWithoutManifest, "TestRule05MissingManifestIsDamage", "started over"},
		{fault.Rule05StartNotFirst, "TestRule05StartNumbersSurvivePowerCuts", "was given out"},
		{fault.Rule27UnlinkWhole, "TestRule27LargeRemovalInSteps", "waited for the large removal"},
	} {
		t.Run(string(c.planted), func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^"+c.test+"$", "-test.v")
			cmd.Env = append(os.Environ(), fault.EnvName+"="+string(c.planted))
			out, err := cmd.CombinedOutput()
			switch {
			case strings.Contains(string(out), "--- SKIP"):
				t.Skip("no throttle: needs root and a cgroup with blkio (v1) or io (v2)")
			case err == nil || !strings.Contains(string(out), c.says):
				t.Errorf("%s did not notice (%v):\n%s", c.test, err, out)
			}
		})
	}
}
