package slipring_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The package shard, without its simulator and its tests, depends on nothing but its inputs. In all builds.
func TestPurityOfShard(t *testing.T) {
	for _, tags := range []string{"", "invariants,planted"} {
		packages := goList(t, "-export", "-deps", "-tags", tags, "./shard/...")
		checked := 0
		for _, p := range packages {
			path := relative(p.ImportPath)
			if path != "shard" && !strings.HasPrefix(path, "shard/") || path == "shard/sim" || strings.HasPrefix(path, "shard/sim/") {
				continue
			}
			checked += len(p.GoFiles)
			for _, problem := range packageImpurities(t, p, exports(packages)) {
				t.Errorf("tags %q: %s", tags, problem)
			}
		}
		if checked == 0 {
			t.Errorf("tags %q: no file of shard was checked", tags)
		}
	}
}

// Each snippet is the body of a function with one impurity, which the check must name.
func TestPurityFindsPlantedImpurities(t *testing.T) {
	lookup := snippetExports(t)
	for _, c := range []struct{ name, imports, body, want string }{
		{"go", "", `go func() {}()`, "go statement"},
		{"now", `"time"`, `_ = time.Now()`, "time.Now"},
		{"now by another name", `clock "time"`, `now := clock.Now; _ = now()`, "time.Now"},
		{"dot import", `. "time"`, `Sleep(1)`, "time.Sleep"},
		{"timer type", `"time"`, `var x *time.Timer; _ = x`, "time.Timer"},
		{"mutex", `"sync"`, `var x sync.Mutex; x.Lock()`, "sync.Mutex"},
		{"promoted lock", `"sync"`, `var x struct{ sync.Mutex }; x.Lock()`, "sync.Lock"},
		{"atomic", `"sync/atomic"`, `var x atomic.Int64; x.Add(1)`, "sync/atomic.Int64"},
		{"blank import", `_ "net/http"`, ``, "import of net/http"},
		{"channel type", "", `var x chan int; _ = x`, "channel"},
		{"channel through inference", "", `x := make(map[int]chan<- int); _ = x[0]`, "channel"},
		{"select", "", `select {}`, "select"},
		{"receive from elsewhere", `"context"`, `<-context.Background().Done()`, "channel receive"},
		{"default source", `"math/rand/v2"`, `_ = rand.IntN(3)`, "math/rand/v2.IntN draws from the default source"},
		{"default source as a value", `"math/rand"`, `f := rand.Int63; _ = f()`, "math/rand.Int63 draws from the default source"},
		{"system randomness", `"crypto/rand"`, `_, _ = rand.Read(nil)`, "crypto/rand.Read"},
		{"environment", `"os"`, `_ = os.Getenv("X")`, "os.Getenv"},
		{"map range", "", `n := ""; for k := range map[string]int{} { n = k }; _ = n`, "range over a map"},
		{"map range with a label", "", `n := ""; out: for k := range map[string]int{} { n = k; break out }; _ = n`, "range over a map"},
		{"map range in a case", "", `n := 0; switch { case n == 0: for k := range map[int]int{} { n += k } }`, "range over a map"},
		{"named map", "", `type set map[int]bool; n := 0; for k := range (set{}) { n = k }; _ = n`, "range over a map"},
		{"keys collected, not sorted", "", `var ks []int; for k := range map[int]int{} { ks = append(ks, k) }; _ = ks`, "range over a map"},
		{"another slice sorted", `"slices"`, `var a, b []int; for k := range map[int]int{} { a = append(a, k) }; slices.Sort(b)`, "range over a map"},
		{"map iterator", `"maps"`, `n := 0; for k := range maps.Keys(map[int]int{}) { n = k }; _ = n`, "maps.Keys"},
		{"map iterator collected", `("maps"; "slices")`, `_ = slices.Collect(maps.Keys(map[int]int{}))`, "maps.Keys"},
		{"empty reason", "", "n := 0\nfor k := range map[int]int{} { // order-free: \nn = k }; _ = n", "range over a map"},
	} {
		problems := snippetImpurities(t, lookup, c.imports, c.body)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, ": "+c.want) }) {
			t.Errorf("%s: want %q, reported: %q", c.name, c.want, problems)
		}
	}
}

func TestPurityAcceptsWhatDependsOnInputsOnly(t *testing.T) {
	lookup := snippetExports(t)
	for _, c := range []struct{ name, imports, body string }{
		{"durations", `"time"`, `var d = 3 * time.Second; _ = d.Nanoseconds(); _ = time.Unix(0, 5).UTC().After(time.Time{})`},
		{"a source of one's own", `"math/rand/v2"`, `r := rand.New(rand.NewPCG(1, 2)); _ = r.IntN(3)`},
		{"sorted iterator", `("maps"; "slices")`, `for range slices.Sorted(maps.Keys(map[int]int{})) {}`},
		{"slice range", "", `for range []int{1} {}; for i := range 3 { _ = i }`},
		{"map range without names", "", `n := 0; for range map[int]int{} { n++ }; _ = n`},
		{"keys sorted", `"slices"`, `var ks []int; for k := range map[int]int{} { ks = append(ks, k) }; slices.Sort(ks)`},
		{"values sorted", `"sort"`, `var vs []int; for _, v := range map[int]int{} { vs = append(vs, v) }; sort.Slice(vs, func(i, j int) bool { return vs[i] < vs[j] })`},
		{"a reason", "", "n := 0\nfor _, v := range map[int]int{} { // order-free: a sum\nn += v }; _ = n"},
		{"a reason above", "", "n := 0\n// order-free: a sum\nfor _, v := range map[int]int{} {\nn += v }; _ = n"},
	} {
		if problems := snippetImpurities(t, lookup, c.imports, c.body); len(problems) != 0 {
			t.Errorf("%s: reported: %q", c.name, problems)
		}
	}
}

// exports finds the compiled types that `go list -export` left in the build cache.
func exports(packages []goPackage) importer.Lookup {
	files := make(map[string]string)
	for _, p := range packages {
		files[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(files[path])
	}
}

// snippetExports knows what the snippets import.
func snippetExports(t *testing.T) importer.Lookup {
	t.Helper()
	return exports(goList(t, "-export", "-deps", "context", "crypto/rand", "maps", "math/rand", "math/rand/v2",
		"net/http", "os", "slices", "sort", "sync", "sync/atomic", "time"))
}

func packageImpurities(t *testing.T, p goPackage, lookup importer.Lookup) []string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parse(t, fset, relative(p.ImportPath)+"/"+name, source))
	}
	return checkFiles(t, fset, p.ImportPath, files, lookup)
}

func snippetImpurities(t *testing.T, lookup importer.Lookup, imports, body string) []string {
	t.Helper()
	if imports != "" {
		imports = "import " + imports + "\n"
	}
	fset := token.NewFileSet()
	source := fmt.Sprintf("package p\n%sfunc f() {\n%s\n}\n", imports, body)
	return checkFiles(t, fset, "p", []*ast.File{parse(t, fset, "snippet.go", []byte(source))}, lookup)
}

func parse(t *testing.T, fset *token.FileSet, name string, source []byte) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, source)
	}
	return file
}

func checkFiles(t *testing.T, fset *token.FileSet, path string, files []*ast.File, lookup importer.Lookup) []string {
	t.Helper()
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
		Defs:  make(map[*ast.Ident]types.Object),
		Uses:  make(map[*ast.Ident]types.Object),
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	if _, err := config.Check(path, fset, files, info); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return impurities(fset, files, info)
}
