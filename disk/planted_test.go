//go:build !planted

package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// Each rule switched off must be found by the test of the rule: a test that passes without its rule proves nothing. The
// package is built once with the tag planted; the parent's own tests are the other half, they pass with the rule on.
func TestRulesAreFoundWhenSwitchedOff(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package's tests a second time")
	}
	bin := filepath.Join(t.TempDir(), "disk.test")
	if out, err := exec.Command("go", "test", "-c", "-tags=planted", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	for _, c := range []struct {
		planted fault.Fault
		test    string
		says    string // in its output, where a failure alone could have another cause
	}{
		{fault.Rule01CutDamage, "TestRule01LastGroupDamageIsReported", ""},
		{fault.Rule01CutDamage, "TestEveryFlippedByteIsNoticed", ""},
		{fault.Rule01NoIdleMarks, "TestRule01LastGroupDamageIsReported", ""},
		{fault.Rule02DataFirst, "TestRule02DataBeforeReference", ""},
		{fault.Rule02HoldLater, "TestRule02LaterAppendsWait", ""},
		{fault.Rule02WholeBlocks, "TestRule02BothEndsAreWritten", ""},
		{fault.Rule02NoCopy, "TestRule02AnyPhaseInMemory", ""},
		{fault.Rule08HandOutPadding, "TestRule08PaddingIsNotHandedOut", ""},
		{fault.Rule08KeepTails, "TestRule08PlacedTailHoldsNoMemory", ""},
		{fault.Rule12UnlinkEarly, "TestRule12UnlinkWaitsForTheTrim", ""},
		{fault.Rule12IgnoreTrims, "TestRule12TrimmedStaysAway", ""},
		{fault.Rule13ForgetSegments, "TestRule13SnapshotNamesEverySegment", "is lost"},
		{fault.Rule13ScanWholeBlocks, "TestRule13ScanGoesOnAtTheDurableEnd", "after the crash, want 32"},
		{fault.Rule16SameSegment, "TestRule16NewSegmentAfterACrash", ""},
		{fault.Rule16ScanForEnd, "TestRule16EndComesFromTheJournal", ""},
		{fault.Rule03ReuseUndeclared, "TestRule03LiveFileIsNotReused", ""},
		{fault.Rule03TrustStale, "TestRule03WritingOnAfterACut", ""},
		{fault.Rule03NoMadeMark, "TestRule03LostNewestFile", ""},
		{fault.Rule03KeepDead, "TestRule03ReusedFileHead", ""},
		{fault.Rule05NoIndex, "TestRule05SnapshotAndEntries", ""},
		{fault.Rule05DamageUnnamed, "TestRule05DamageNamesPartitions", ""},
		{fault.Rule05StateReset, "TestRule05LostSnapshotFences", ""},
		{fault.Rule08CopyForward, "TestRule08SmallTails", ""},
		{fault.Rule09NoShare, "TestRule09QuarterStaysOpenToTheRest", ""},
		{fault.Rule12DiscardUnknown, "TestRule12UnknownIsNeverDiscarded", ""},
		{fault.Rule12GoneEarly, "TestRule12GoneAfterTheLastEntry", ""},
		{fault.Rule25ChunkPerPartition, "TestRule25OneStateFile", ""},
		{fault.Rule30NoStall, "TestRule30Stall", ""},
		{fault.Rule04LockInRing, "TestRule04GhostWrites", "had yet to land"},
		{fault.Rule05NewWithoutManifest, "TestRule05MissingManifestIsDamage", "started over"},
		{fault.Rule05StartNotFirst, "TestRule05StartNumbersSurvivePowerCuts", "was given out"},
		{fault.Rule27UnlinkWhole, "TestRule27LargeRemovalInSteps", "waited for the large removal"},
	} {
		t.Run(string(c.planted)+"/"+c.test, func(t *testing.T) {
			cmd := exec.Command(bin, "-test.run=^"+c.test+"$", "-test.short", "-test.v")
			cmd.Env = append(os.Environ(), fault.EnvName+"="+string(c.planted))
			out, err := cmd.CombinedOutput()
			if strings.Contains(string(out), "--- SKIP: "+c.test) {
				t.Skip("its test is skipped here")
			}
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+c.test) || !strings.Contains(string(out), c.says) {
				t.Errorf("%s did not notice (%v):\n%s", c.test, err, out)
			}
		})
	}
}
