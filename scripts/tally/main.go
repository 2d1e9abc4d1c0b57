// Command tally reads the output of `go test -json` on stdin, prints it for a person (a line per package, everything that
// a failed test said, every skip with its reason), and writes the counts of one stage of .ci/run to a file.
//
//	make test TESTFLAGS=-json | go run ./scripts/tally -stage test -skips .ci/skips -counts FILE
//
// Tests and subtests count alike. A package that fails outside of any test (it does not build, it times out) counts as
// one failed test. A skip that the list does not name is a failure: a test that stops running must be somebody's decision.
// Lines that are not JSON, such as make's, pass through.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	stage := flag.String("stage", "", "name of the stage, as the list of skips spells it")
	skips := flag.String("skips", "", "file that lists the skips which are expected")
	counts := flag.String("counts", "", "file to write `passed failed skipped` to")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *stage, *skips, *counts); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, stage, skipsFile, countsFile string) error {
	file, err := os.Open(skipsFile)
	if err != nil {
		return err
	}
	defer file.Close()
	allowed, err := readSkips(file)
	if err != nil {
		return err
	}
	t := newTally(out, stage, allowed)
	if err := t.read(in); err != nil {
		return err
	}
	t.finish()
	return os.WriteFile(countsFile, fmt.Appendf(nil, "%d %d %d\n", t.passed, t.failed, t.skipped), 0o644)
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// tally counts one stage.
type tally struct {
	out     io.Writer
	stage   string
	allowed skipList

	passed, failed, skipped int

	said      map[string][]string // what a test printed, until its result is known
	failedIn  map[string]int      // failed tests of a package
	forgotten []string            // skips that nobody listed
}

func newTally(out io.Writer, stage string, allowed skipList) *tally {
	return &tally{out: out, stage: stage, allowed: allowed, said: make(map[string][]string), failedIn: make(map[string]int)}
}

// read takes events until the end of in. Lines may be long: a test prints what it likes.
func (t *tally) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			t.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		io.WriteString(t.out, line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		io.WriteString(t.out, e.Output)
	case "output":
		t.said[key] = append(t.said[key], e.Output)
	case "pass", "fail", "skip":
		t.result(e, key)
		delete(t.said, key)
	}
}

// result counts the end of a test, or of a package when e.Test is empty.
func (t *tally) result(e event, key string) {
	said := strings.Join(t.said[key], "")
	if e.Test == "" {
		t.packageEnd(e, said)
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
		t.failedIn[e.Package]++
		fmt.Fprintf(t.out, "FAILED %s %s\n%s", e.Package, e.Test, said)
	case "skip":
		t.skip(e, said)
	}
}

func (t *tally) skip(e event, said string) {
	t.skipped++
	fmt.Fprintf(t.out, "skipped: %s %s: %s\n", e.Package, e.Test, reason(said))
	if !t.allowed.has(t.stage, e.Package, e.Test) {
		t.failed++
		t.forgotten = append(t.forgotten, e.Package+" "+e.Test)
	}
}

func (t *tally) packageEnd(e event, said string) {
	switch {
	case e.Action == "pass":
		fmt.Fprintf(t.out, "ok     %s %.1f s\n", e.Package, e.Elapsed)
	case e.Action == "fail" && t.failedIn[e.Package] == 0:
		t.failed++
		fmt.Fprintf(t.out, "FAILED %s, outside of a test\n%s", e.Package, said)
	}
}

// finish says which skips made the stage fail.
func (t *tally) finish() {
	for _, name := range t.forgotten {
		fmt.Fprintf(t.out, "FAILED %s was skipped and is not in the list of skips\n", name)
	}
}

// reason is what a test gave to t.Skip, on one line.
func reason(said string) string {
	var parts []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}
