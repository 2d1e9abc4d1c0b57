package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every way a test can end, a package that does not build, make's own lines.
const events = `go test -json ./...
{"Action":"build-output","ImportPath":"m/broken","Output":"broken.go:3:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"m/broken"}
{"Action":"fail","Package":"m/broken","Elapsed":0,"FailedBuild":"m/broken"}
{"Action":"run","Package":"m/a","Test":"TestPass"}
{"Action":"pass","Package":"m/a","Test":"TestPass/sub"}
{"Action":"pass","Package":"m/a","Test":"TestPass"}
{"Action":"output","Package":"m/a","Test":"TestFail","Output":"    a_test.go:1: lost record 7\n"}
{"Action":"fail","Package":"m/a","Test":"TestFail"}
{"Action":"fail","Package":"m/a","Elapsed":0.2}
{"Action":"output","Package":"github.com/slipringmq/slipring/loop","Test":"TestRing","Output":"=== RUN   TestRing\n"}
{"Action":"output","Package":"github.com/slipringmq/slipring/loop","Test":"TestRing","Output":"    ring_test.go:9: needs io_uring\n"}
{"Action":"output","Package":"github.com/slipringmq/slipring/loop","Test":"TestRing","Output":"--- SKIP: TestRing (0.00s)\n"}
{"Action":"skip","Package":"github.com/slipringmq/slipring/loop","Test":"TestRing"}
{"Action":"pass","Package":"github.com/slipringmq/slipring/loop","Elapsed":1.5}
{"Action":"skip","Package":"m/notests","Elapsed":0}
`

func TestCountsEveryEnd(t *testing.T) {
	out, counts := runTally(t, "test", "* loop TestRing needs io_uring\n")
	if counts != "2 2 1\n" {
		t.Errorf("passed, failed, skipped = %q, want 2 2 1", counts)
	}
	for _, want := range []string{
		"go test -json ./...\n",
		"broken.go:3:1: syntax error\n",
		"FAILED m/broken, outside of a test\n",
		"FAILED m/a TestFail\n    a_test.go:1: lost record 7\n",
		"skipped: github.com/slipringmq/slipring/loop TestRing: ring_test.go:9: needs io_uring\n",
		"ok     github.com/slipringmq/slipring/loop 1.5 s\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// The list is per stage, and a skip that it does not name fails the stage.
func TestUnlistedSkipIsAFailure(t *testing.T) {
	for _, skips := range []string{"", "race loop TestRing why\n", "test loop/uring TestRing why\n", "test loop TestRing/sub why\n"} {
		out, counts := runTally(t, "test", skips)
		if counts != "2 3 1\n" || !strings.Contains(out, "loop TestRing was skipped and is not in the list") {
			t.Errorf("with the list %q: counts %q, output:\n%s", skips, counts, out)
		}
	}
	if _, counts := runTally(t, "race", "race loop TestRing why\n"); counts != "2 2 1\n" {
		t.Errorf("a skip listed for its stage counts as %q", counts)
	}
}

func TestSkipWithoutReasonIsRefused(t *testing.T) {
	for _, text := range []string{"* loop TestRing\n", "* loop TestRing a\n* loop TestRing b\n"} {
		if _, err := readSkips(strings.NewReader(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestCommittedListIsWellFormed(t *testing.T) {
	file, err := os.Open("../../.ci/skips")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := readSkips(file); err != nil {
		t.Error(err)
	}
}

func runTally(t *testing.T, stage, skips string) (out, counts string) {
	t.Helper()
	dir := t.TempDir()
	skipsFile, countsFile := filepath.Join(dir, "skips"), filepath.Join(dir, "counts")
	if err := os.WriteFile(skipsFile, []byte("# comment\n\n"+skips), 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := run(strings.NewReader(events), &b, stage, skipsFile, countsFile); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), string(raw)
}
