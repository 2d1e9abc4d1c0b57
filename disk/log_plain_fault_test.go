package disk

import (
	"errors"
	"syscall"
	"testing"
)

// The segment of a log outside the journal fails once. What was flushed, before it or after, is there after a power cut: no
// entry and no snapshot would name a file that took the failed one's place.
func TestPlainSegmentThatFailsLosesNothingFlushed(t *testing.T) {
	for after := range uint64(3) {
		b := plainBench(t, 71+after, 1e6)
		b.mustAppend(testKey, 100, 5000)
		b.settle()
		b.dev.Plan(SimFault{Kind: OpWrite, Prefix: "topics/7", After: after, Times: 1, Err: syscall.EIO})
		for range 6 {
			if err := b.append(testKey, 5000); err != nil && !errors.Is(err, ErrFenced) {
				t.Fatal(err)
			}
			b.settle()
			b.now += 2e6
			b.settle()
		}
		if len(b.m.fenced) != 1 {
			t.Errorf("after %d: fenced %v, want the log alone", after, b.m.fenced)
		}
		b.check(testKey) // reads go on
		end := b.log(testKey).DurableEnd()
		b.crash()
		if got := b.log(testKey).LogEnd(); got < end {
			t.Errorf("after %d: %d records flushed, %d after a power cut", after, end, got)
		}
	}
}
