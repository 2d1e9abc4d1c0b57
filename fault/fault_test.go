package fault_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipringmq/slipring/fault"
)

// Without the tag no environment plants anything, and the guarded code is not in the binary at all.
func TestUntaggedBuildHoldsNoPlantedCode(t *testing.T) {
	bin := buildReport(t, "-tags=")
	out, err := runWith(bin, "ack-before-flush,no-such-fault")
	if err != nil || out != "" {
		t.Errorf("untagged build printed %q (%v), want nothing", out, err)
	}
	if hasSymbol(t, bin, "main.plantedCode") {
		t.Error("the planted code was not compiled away")
	}
}

func TestTaggedBuildPlantsWhatIsNamed(t *testing.T) {
	bin := buildReport(t, "-tags=planted")
	if !hasSymbol(t, bin, "main.plantedCode") {
		t.Error("the planted code is missing: the check for its absence proves nothing")
	}
	for _, c := range []struct{ env, want string }{
		{"", ""},
		{" rule04-lock-in-ring ,", "rule04-lock-in-ring\n"},
		{"ack-before-flush", "planted code ran\nack-before-flush\n"},
	} {
		if out, err := runWith(bin, c.env); err != nil || out != c.want {
			t.Errorf("SLIPRING_FAULT=%q printed %q (%v), want %q", c.env, out, err, c.want)
		}
	}
}

// A typing error must not pass for a fault that no test could find.
func TestUnknownFaultPanicsAndListsTheKnown(t *testing.T) {
	out, err := runWith(buildReport(t, "-tags=planted"), "ack-before-flsh")
	if err == nil {
		t.Fatalf("an unknown fault was accepted: %q", out)
	}
	for _, want := range []string{`"ack-before-flsh"`, string(fault.AckBeforeFlush), string(fault.Rule04LockInRing)} {
		if !strings.Contains(out, want) {
			t.Errorf("the panic does not name %s:\n%s", want, out)
		}
	}
}

// Every constant is in the table, has a doc line, and no two share a name.
func TestEveryFaultIsListedAndDocumented(t *testing.T) {
	declared := declaredFaults(t)
	listed := make(map[string]bool)
	for _, f := range fault.Names() {
		if listed[string(f)] {
			t.Errorf("%s is listed twice", f)
		}
		listed[string(f)] = true
	}
	for name, doc := range declared {
		if !listed[name] {
			t.Errorf("%s is declared but not in names", name)
		}
		if doc == "" {
			t.Errorf("%s has no doc line", name)
		}
	}
	if len(declared) != len(listed) {
		t.Errorf("%d faults declared, %d listed", len(declared), len(listed))
	}
}

// declaredFaults maps each constant of type Fault in names.go to its comment.
func declaredFaults(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = strings.TrimSpace(v.Doc.Text())
		}
	}
	return found
}

func buildReport(t *testing.T, tags string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "report")
	args := []string{"build", "-o", bin, tags, "./testdata/report"}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return bin
}

func runWith(bin, faults string) (string, error) {
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "SLIPRING_FAULT="+faults)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func hasSymbol(t *testing.T, bin, symbol string) bool {
	t.Helper()
	out, err := exec.Command("go", "tool", "nm", bin).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool nm: %v\n%s", err, out)
	}
	return strings.Contains(string(out), symbol)
}
