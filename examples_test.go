package slipring_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// python runs a program of examples/python and wants its last line to end in OK.
func python(t *testing.T, arguments ...string) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	cmd := exec.CommandContext(within(t, 2*time.Minute), path, append([]string{"-B"}, arguments...)...)
	cmd.Dir = "examples/python"
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "OK") {
		t.Fatalf("%v: %v\n%s", arguments, err, out)
	}
}

// The client that was written from docs/PROTOCOL.md alone reads and writes every block of the page.
func TestPythonReadsTheProtocolPage(t *testing.T) {
	python(t, "test_vectors.py", "../../docs/PROTOCOL.md")
}

// The same client produces, fetches, subscribes and compares, against the broker as it is.
func TestPythonRoundtrip(t *testing.T) {
	b := openBroker(t, testConfig(t.TempDir()))
	python(t, "roundtrip.py", b.Addr().String())
}
