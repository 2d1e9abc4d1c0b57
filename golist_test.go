package slipring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const modulePath = "github.com/slipringmq/slipring"

// goPackage is what the guards read of `go list -json`.
type goPackage struct {
	ImportPath   string
	Dir          string
	Export       string // file with the types of the package, when asked for
	Standard     bool
	Module       *struct{ Path string }
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// goList runs `go list` with args and decodes its stream of packages.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}
	var packages []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
		packages = append(packages, p)
	}
}

// listEdges returns every import of this module's packages, tests included, without those of the standard library.
func listEdges(t *testing.T, tags string) []edge {
	t.Helper()
	packages := goList(t, "-deps", "-test", "-tags", tags, "./...")
	moduleOf := make(map[string]string) // by import path; "" for the standard library
	for _, p := range packages {
		if p.Module != nil {
			moduleOf[p.ImportPath] = p.Module.Path
		}
	}
	var edges []edge
	for _, p := range packages {
		// With -test a package comes once more as "path [path.test]" and as the generated main "path.test". The plain one
		// has all three lists.
		if moduleOf[p.ImportPath] != modulePath || strings.ContainsAny(p.ImportPath, " ") || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		for i, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, to := range imports {
				if e, ok := newEdge(p.ImportPath, to, moduleOf); ok {
					e.inTest = i > 0
					edges = append(edges, e)
				}
			}
		}
	}
	return edges
}

func newEdge(from, to string, moduleOf map[string]string) (edge, bool) {
	switch module := moduleOf[to]; module {
	case "":
		return edge{}, false
	case modulePath:
		return edge{from: relative(from), to: relative(to), ours: true}, true
	default:
		return edge{from: relative(from), to: module}, true
	}
}

// relative turns an import path of this module into the folder it lies in.
func relative(path string) string {
	if path == modulePath {
		return "."
	}
	return strings.TrimPrefix(path, modulePath+"/")
}
