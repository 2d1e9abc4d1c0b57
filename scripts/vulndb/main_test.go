package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestDatabaseHasEntryAndBothIndexes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "db")
	n, err := build("testdata/osv", out)
	if err != nil || n != 1 {
		t.Fatalf("build: %d entries, %v", n, err)
	}
	var modules []module
	readJSON(t, filepath.Join(out, "index", "modules.json"), &modules)
	if len(modules) != 1 || modules[0].Path != "stdlib" || len(modules[0].Vulns) != 1 || modules[0].Vulns[0].ID != "GO-0000-0001" {
		t.Errorf("modules index: %+v", modules)
	}
	var db map[string]string
	readJSON(t, filepath.Join(out, "index", "db.json"), &db)
	if db["modified"] != "2026-01-02T03:04:05Z" {
		t.Errorf("db index: %v", db)
	}
	var e entry
	readJSON(t, filepath.Join(out, "ID", "GO-0000-0001.json"), &e)
	if e.ID != "GO-0000-0001" {
		t.Errorf("entry: %+v", e)
	}
}

// An empty database would find nothing and look like success.
func TestNoEntriesOrAMisnamedOneIsAnError(t *testing.T) {
	empty := t.TempDir()
	if _, err := build(empty, filepath.Join(t.TempDir(), "db")); err == nil {
		t.Error("an empty folder became a database")
	}
	if err := os.WriteFile(filepath.Join(empty, "GO-2026-0001.json"), []byte(`{"id":"GO-2026-0002"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "db")
	if _, err := build(empty, out); err == nil {
		t.Error("an entry under another's name was accepted")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed build left a database behind")
	}
}

func readJSON(t *testing.T, file string, value any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, value); err != nil {
		t.Fatal(err)
	}
}
