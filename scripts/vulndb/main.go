// Command vulndb writes a Go vulnerability database for `govulncheck -db file://DIR` from a folder of OSV entries,
// such as data/osv of the module golang.org/x/vulndb. It is for machines that reach a module proxy but not the public
// database.
//
//	go run ./scripts/vulndb OSVDIR OUTDIR
//
// Layout: https://go.dev/security/vuln/database#api, without the compressed copies that only a web server needs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb OSVDIR OUTDIR")
		os.Exit(2)
	}
	n, err := build(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulndb:", err)
		os.Exit(1)
	}
	fmt.Println("vulndb:", n, "entries in", os.Args[2])
}

// entry is the part of an OSV entry that the indexes repeat.
type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

// module is one element of index/modules.json. The optional "fixed" is left out: a reader then opens every entry of the
// module and judges by its ranges, which is slower and cannot be wrong.
type module struct {
	Path  string `json:"path"`
	Vulns []vuln `json:"vulns"`
}

type vuln struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

// build writes the database aside and renames it, so that OUTDIR exists only when it is whole. It returns the number of
// entries. Errors: no entry at all, an entry that is not named for its id, any error of the file system.
func build(osvDir, outDir string) (int, error) {
	files, err := filepath.Glob(filepath.Join(osvDir, "GO-*.json"))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("%s: no GO-*.json; expected a folder of OSV entries", osvDir)
	}
	aside := outDir + ".part"
	if err := os.RemoveAll(aside); err != nil {
		return 0, err
	}
	for _, dir := range []string{"ID", "index"} {
		if err := os.MkdirAll(filepath.Join(aside, dir), 0o755); err != nil {
			return 0, err
		}
	}
	modules := make(map[string][]vuln)
	var newest time.Time
	for _, file := range files {
		e, err := copyEntry(file, filepath.Join(aside, "ID"))
		if err != nil {
			return 0, err
		}
		if e.Modified.After(newest) {
			newest = e.Modified
		}
		for _, a := range e.Affected {
			v := vuln{e.ID, e.Modified}
			if known := modules[a.Package.Name]; !slices.Contains(known, v) {
				modules[a.Package.Name] = append(known, v)
			}
		}
	}
	if err := writeIndex(filepath.Join(aside, "index"), modules, newest); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(outDir); err != nil {
		return 0, err
	}
	return len(files), os.Rename(aside, outDir)
}

// copyEntry puts file into dir unchanged and returns what the indexes need of it.
func copyEntry(file, dir string) (entry, error) {
	var e entry
	raw, err := os.ReadFile(file)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("%s: %w", file, err)
	}
	if filepath.Base(file) != e.ID+".json" {
		return e, fmt.Errorf("%s: holds the entry %q", file, e.ID)
	}
	return e, os.WriteFile(filepath.Join(dir, filepath.Base(file)), raw, 0o644)
}

func writeIndex(dir string, modules map[string][]vuln, newest time.Time) error {
	list := make([]module, 0, len(modules))
	for path, vulns := range modules {
		list = append(list, module{path, vulns})
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	if err := writeJSON(filepath.Join(dir, "modules.json"), list); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "db.json"), map[string]time.Time{"modified": newest})
}

func writeJSON(file string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}
