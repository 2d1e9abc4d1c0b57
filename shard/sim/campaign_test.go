package sim

import (
	"flag"
	"testing"
)

var (
	campaignN    = flag.Int("campaign.n", 300, "power cuts of TestCampaignPowerCut")
	campaignSeed = flag.Uint64("campaign.seed", 1, "where the seeds of its runs begin")
)

// The power fails between any two completions, in the middle of work and of recovery, again and again: everything that was
// acknowledged is there, unchanged, at its offset, and nothing that was deleted comes back.
func TestCampaignPowerCut(t *testing.T) {
	r := Campaign(*campaignSeed, *campaignN)
	t.Log(r)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if *campaignN >= 300 && (r.Acked == 0 || r.Read == 0 || r.Stops == 0) {
		t.Fatalf("the campaign did nothing worth a cut: %v", r)
	}
}
