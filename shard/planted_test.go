package shard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// The tests of the rules prove something only if they fail without the rule, and for that reason.
func TestRulesAreMissedWhenSwitchedOff(t *testing.T) {
	if testing.Short() || fault.Planted {
		t.Skip("builds this package's tests anew")
	}
	bin := filepath.Join(t.TempDir(), "planted.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "planted", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, c := range []struct {
		planted    fault.Fault
		test, says string
	}{
		{"", "TestRule", "PASS"},
		{fault.Rule05ForgetProducers, "TestRule05ProducersSurviveRestarts", "UnknownProducer"},
		{fault.Rule05OldStands, "TestRule05EntryDoesNotTakeProducersBack", "a repeat is at"},
		{fault.Rule07RepeatAtOnce, "TestRule07aRepeatWaitsForItsOriginal", "nothing is flushed"},
		{fault.Rule07MetaAtOnce, "TestRule07cMetadataWaitsForItsFlush", "nothing is flushed"},
		{fault.Rule12NoTombstone, "TestRule12dDeletedTopicStaysDeleted", "reported as damage"},
		{fault.Rule13NoCeiling, "TestRule13NoOffsetMeansTwoRecords", "is another record now"},
		{fault.Rule15ApplyAtStage, "TestRule15StagedStateIsAnOverlay", `want ["a"]`},
		{fault.Rule15KeepSequences, "TestRule15StagedStateIsAnOverlay", "log end 4"},
		{fault.Rule17TrustRecords, "TestRule17RecordFramingIsChecked", "want Corrupt"},
		{fault.Rule21IgnoreRecordCredit, "TestRule21CreditGoesBelowZeroByOneDelivery", "want"},
		{fault.Rule23KeepDirectoryID, "TestRule23DirectoryIDIsTold", "HELLO tells directory"},
		{fault.Rule30NoStall, "TestRule30StalledFlush", "nothing has arrived"},
		{fault.Rule31HoldBlocks, "TestRule31UnfinishedFramesHoldWhatArrived", "bytes for 100 each"},
	} {
		t.Run(string(c.planted), func(t *testing.T) {
			cmd := exec.Command(bin, "-test.run=^"+c.test)
			cmd.Env = append(os.Environ(), fault.EnvName+"="+string(c.planted))
			out, err := cmd.CombinedOutput()
			if (err != nil) != (c.planted != "") || !strings.Contains(string(out), c.says) {
				t.Errorf("%s did not answer as it should (%v):\n%s", c.test, err, out)
			}
		})
	}
}
