package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// A campaign that does not find planted bugs proves nothing: each of these must be found within its default number of cuts.
func TestCampaignFindsPlantedBugs(t *testing.T) {
	if testing.Short() || fault.Planted {
		t.Skip("builds this package's tests anew")
	}
	bin := filepath.Join(t.TempDir(), "planted.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "planted", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for planted, says := range map[fault.Fault]string{ // order-free: each runs alone
		fault.AckBeforeFlush:        "",
		fault.Rule05ForgetProducers: "",
		fault.Rule07MetaAtOnce:      "",
		fault.Rule12NoTombstone:     "damage",
		fault.Rule13NoCeiling:       "",
		fault.Rule15KeepSequences:   "",
	} {
		t.Run(string(planted), func(t *testing.T) {
			cmd := exec.Command(bin, "-test.run=^TestCampaignPowerCut$", "-test.v", "-campaign.n=2000")
			cmd.Env = append(os.Environ(), fault.EnvName+"="+string(planted))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "lost 1") || !strings.Contains(string(out), says) {
				t.Errorf("not found (%v):\n%s", err, out)
			}
		})
	}
}
