package sim

import (
	"flag"
	"runtime/debug"
	"testing"
)

var (
	campaignN     = flag.Int("campaign.n", 300, "power cuts of TestCampaignPowerCut")
	campaignTrace = flag.Bool("campaign.trace", false, "say what happens; for a seed that failed, with -campaign.n=8")
	campaignSeed  = flag.Uint64("campaign.seed", 1, "where the seeds of its runs begin")
)

// The power fails between any two completions, in the middle of work and of recovery, again and again: everything that was
// acknowledged is there, unchanged, at its offset, and nothing that was deleted comes back.
func TestCampaignPowerCut(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // little is live; most of the rest is garbage of the clients
	var trace func(string, ...any)
	if *campaignTrace {
		trace = t.Logf
	}
	r := Campaign(*campaignSeed, *campaignN, trace)
	t.Log(r)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if *campaignN >= 300 && (r.Acked == 0 || r.Read == 0 || r.Stops == 0) {
		t.Fatalf("the campaign did nothing worth a cut: %v", r)
	}
}

// A seed that fails must fail again, or it cannot be looked into: four times the same, byte for byte.
func TestCampaignIsDeterministic(t *testing.T) {
	first := Campaign(*campaignSeed, 40, nil)
	for range 3 {
		if again := Campaign(*campaignSeed, 40, nil); again.Hash != first.Hash || again.String() != first.String() {
			t.Fatalf("the same seed gave two results:\n%v\n%v", first, again)
		}
	}
	if other := Campaign(*campaignSeed+1000, 40, nil); other.Hash == first.Hash {
		t.Fatal("another seed gave the same hash: it says nothing")
	}
}
