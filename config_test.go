package slipring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A wrong file is refused in one line that names file, line and key, and changes nothing.
func TestConfigErrorsNameFileLineAndKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"lisen: 1.2.3.4:5", `:1: unknown key "lisen"; did you mean "listen"?`},
		{"memory:\n  limt: 1GiB", `:2: unknown key "memory.limt"; did you mean "memory.limit"?`},
		{"memory: 4GiB", `:1: memory: expected keys below it`},
		{"listen: nowhere", `:1: listen: "nowhere" is no address`},
		{"data: [a, b]", `:1: data: expected a single value`},
		{"data: ''", `:1: data: is empty`},
		{"shards: 2", `:1: shards: 2 is outside 1 to 1`},
		{"shards: one", `:1: shards: "one" is no whole number`},
		{"cpu:\n  pin: maybe", `:2: cpu.pin: "maybe" is neither true nor false`},
		{"memory.limit: 4 parsecs", `:1: memory.limit: "4 parsecs" is no size`},
		{"memory.limit: 9999999999TiB", `:1: memory.limit: "9999999999TiB" is too large`},
		{"memory.limit: -1", `:1: memory.limit: "-1" is no size`},
		{"disk.lock_wait: 2h", `:1: disk.lock_wait: 2h0m0s is outside`},
		{"disk:\n  lock_wait: 1s\ndisk.lock_wait: 2s", `:3: disk.lock_wait is set twice, first at line 2`},
		{"log.level: loud", `:1: log.level: "loud" is none of debug, info, warn, error`},
		{"just words", `:1: the file: expected keys below it`},
		{"a: [", `: yaml: `},
	} {
		path := filepath.Join(t.TempDir(), "slipring.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		err := cfg.ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error has more than one line: %q", c.text, err)
		}
		if cfg != DefaultConfig() {
			t.Errorf("%q: a refused file changed the configuration", c.text)
		}
	}
}

// Every key is settable, nested or dotted.
func TestConfigFileSetsEveryKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slipring.yaml")
	text := `
listen: 127.0.0.1:0
advertise: broker.example
data: /somewhere
shards: 1
memory:
  limit: 2GiB
cpu.pin: false
disk:
  buffered: true
  journal: 64MiB
  segment: 32MiB
  lock_wait: 5s
limits:
  max_record: 1MiB
  connections: 10
log:
  level: debug
  format: json
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := DefaultConfig()
	if err := got.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	listen, _ := ParseListen("127.0.0.1:0")
	want := Config{Listen: listen, Advertise: "broker.example", Data: "/somewhere", Shards: 1, MemoryLimit: 2 << 30,
		Buffered: true, JournalBytes: 64 << 20, SegmentBytes: 32 << 20, LockWait: 5 * time.Second,
		MaxRecordBytes: 1 << 20, MaxConnections: 10, LogLevel: "debug", LogFormat: "json"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, s := range settings {
		last := s.key[strings.LastIndex(s.key, ".")+1:]
		if !strings.Contains(text, last+":") {
			t.Errorf("key %s is not in this test", s.key)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for v, want := range map[string]int64{"0": 0, "17": 17, "4KiB": 4096, "1 MiB": 1 << 20, "3MB": 3e6, "2GiB": 2 << 30} {
		if got, err := ParseBytes(v); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", v, got, err, want)
		}
	}
	for _, v := range []string{"", "B", "MiB", "1.5GiB", "-4", "4kiB", "12 bananas"} {
		if got, err := ParseBytes(v); err == nil {
			t.Errorf("%q: got %d, want an error", v, got)
		}
	}
}
