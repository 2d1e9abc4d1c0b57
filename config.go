package slipring

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slipringmq/slipring/shard"
)

// Config is everything a broker can be told. The zero value is not usable; start from DefaultConfig.
type Config struct {
	Listen         netip.AddrPort // address of the client port; port 0 lets the kernel choose
	Advertise      string         // host that METADATA names; empty: the one the client connected to
	Data           string         // data directory; made if missing
	Shards         int            // this version runs one
	MemoryLimit    int64          // bytes for blocks and heap together; 0: half of what the cgroup or host allows
	Pin            bool           // pin shard threads to CPUs
	Buffered       bool           // allow a file system without direct I/O
	MaxRecordBytes int64          // greatest max record a topic may have
	MaxConnections int            // per shard
	JournalBytes   int64          // all journals together; 0: min(1 GiB, memory limit / 4). Fixed once the directory exists
	SegmentBytes   int64          // roll size of topics that name none
	LockWait       time.Duration  // how long a start waits for a killed broker's last disk writes
	LogLevel       string         // debug, info, warn, error
	LogFormat      string         // text, json

	// OwnProcess lets Open set what belongs to the whole process: GOMAXPROCS, the memory limit of the Go heap and, with
	// Pin, the CPUs of all other threads. For a daemon, not for a program that embeds a broker.
	OwnProcess bool

	limits *shard.Limits // tests only: instead of the defaults
}

// DefaultConfig is what the daemon runs with when nothing is configured.
func DefaultConfig() Config {
	return Config{
		Listen:         netip.MustParseAddrPort("127.0.0.1:7400"),
		Data:           "./slipring-data",
		Shards:         1,
		Pin:            true,
		MaxRecordBytes: 16 << 20,
		MaxConnections: 9500,
		SegmentBytes:   256 << 20,
		LockWait:       60 * time.Second,
		LogLevel:       "info",
		LogFormat:      "text",
	}
}

// setting is one key of the configuration file: the only table of names, for parser, errors and docs.
type setting struct {
	key   string
	about string
	set   func(c *Config, v string) error
}

var settings = []setting{
	{"listen", "address and port for clients, e.g. 127.0.0.1:7400", func(c *Config, v string) (err error) {
		c.Listen, err = ParseListen(v)
		return err
	}},
	{"advertise", "host name or address that clients are told; empty: the one they connected to", func(c *Config, v string) error {
		c.Advertise = v
		return nil
	}},
	{"data", "data directory", func(c *Config, v string) error {
		if v == "" {
			return errors.New("is empty")
		}
		c.Data = v
		return nil
	}},
	{"shards", "number of shards; this version runs 1", intSetting(func(c *Config) *int { return &c.Shards }, 1, 1)},
	{"memory.limit", "bytes for everything, e.g. 4GiB; 0: half of what the cgroup or host allows", bytesSetting(func(c *Config) *int64 { return &c.MemoryLimit }, 0, 1<<50)},
	{"cpu.pin", "pin shard threads to CPUs: true or false", boolSetting(func(c *Config) *bool { return &c.Pin })},
	{"disk.buffered", "allow buffered I/O on a file system without direct I/O: true or false", boolSetting(func(c *Config) *bool { return &c.Buffered })},
	{"disk.journal", "bytes of all journals together, e.g. 512MiB; 0: a quarter of memory.limit, at most 1GiB; fixed once the directory exists", bytesSetting(func(c *Config) *int64 { return &c.JournalBytes }, 0, 1<<40)},
	{"disk.segment", "segment size of topics that name none, e.g. 256MiB", bytesSetting(func(c *Config) *int64 { return &c.SegmentBytes }, 1<<20, 1<<31)},
	{"disk.lock_wait", "how long a start waits for a killed broker's last writes, e.g. 60s", durationSetting(func(c *Config) *time.Duration { return &c.LockWait }, 0, time.Hour)},
	{"limits.max_record", "greatest record of any topic, e.g. 16MiB", bytesSetting(func(c *Config) *int64 { return &c.MaxRecordBytes }, 1<<10, 100<<20)},
	{"limits.connections", "connections a shard accepts", intSetting(func(c *Config) *int { return &c.MaxConnections }, 1, 1<<20)},
	{"log.level", "debug, info, warn or error", choiceSetting(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warn", "error")},
	{"log.format", "text or json", choiceSetting(func(c *Config) *string { return &c.LogFormat }, "text", "json")},
}

// Settings lists every key of the configuration file with one line about it.
func Settings() (lines []string) {
	for _, s := range settings {
		lines = append(lines, fmt.Sprintf("%-20s %s", s.key, s.about))
	}
	return lines
}

// ReadFile lays the YAML file at path over c. Keys may be nested or dotted.
//
// Errors: one line that names file, line and key; c is unchanged then.
func (c *Config) ReadFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	next := *c
	if err := next.parse(path, text); err != nil {
		return err
	}
	*c = next
	return nil
}

func (c *Config) parse(path string, text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("config: %s: %w", path, err)
	}
	if doc.Kind == 0 { // an empty file
		return nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	return c.walk(path, "", root, map[string]int{})
}

// walk visits a mapping; seen keeps the line of each full key, so that a dotted twin of a nested key is found too.
func (c *Config) walk(path, prefix string, n *yaml.Node, seen map[string]int) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("config: %s:%d: %s: expected keys below it", path, n.Line, orFile(prefix))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := name.Value
		if prefix != "" {
			key = prefix + "." + key
		}
		s := findSetting(key)
		if s == nil {
			if isSection(key) {
				if err := c.walk(path, key, value, seen); err != nil {
					return err
				}
				continue
			}
			return fmt.Errorf("config: %s:%d: unknown key %q; did you mean %q?", path, name.Line, key, nearestSetting(key))
		}
		if line := seen[key]; line != 0 {
			return fmt.Errorf("config: %s:%d: %s is set twice, first at line %d", path, name.Line, key, line)
		}
		seen[key] = name.Line
		if value.Kind != yaml.ScalarNode {
			return fmt.Errorf("config: %s:%d: %s: expected a single value", path, value.Line, key)
		}
		if err := s.set(c, value.Value); err != nil {
			return fmt.Errorf("config: %s:%d: %s: %w", path, value.Line, key, err)
		}
	}
	return nil
}

func orFile(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return prefix
}

func findSetting(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}

func isSection(key string) bool {
	for _, s := range settings {
		if strings.HasPrefix(s.key, key+".") {
			return true
		}
	}
	return false
}

func nearestSetting(key string) string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.key
	}
	sort.SliceStable(names, func(i, j int) bool { return editDistance(key, names[i]) < editDistance(key, names[j]) })
	return names[0]
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, change)
		}
	}
	return row[len(b)]
}

// ParseListen reads "host:port" with a literal address or "localhost"; ":port" means every address.
func ParseListen(v string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(v, ":")
	if ok && (host == "" || host == "localhost") {
		if host == "" {
			v = "0.0.0.0:" + port
		} else {
			v = "127.0.0.1:" + port
		}
	}
	a, err := netip.ParseAddrPort(v)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address with a port, e.g. 127.0.0.1:7400", v)
	}
	return a, nil
}

func intSetting(field func(*Config) *int, low, high int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is no whole number", v)
		}
		if n < low || n > high {
			return fmt.Errorf("%d is outside %d to %d", n, low, high)
		}
		*field(c) = n
		return nil
	}
}

func boolSetting(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "true" && v != "false" {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		*field(c) = v == "true"
		return nil
	}
}

func choiceSetting(field func(*Config) *string, choices ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		for _, choice := range choices {
			if v == choice {
				*field(c) = v
				return nil
			}
		}
		return fmt.Errorf("%q is none of %s", v, strings.Join(choices, ", "))
	}
}

func durationSetting(field func(*Config) *time.Duration, low, high time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is no duration, e.g. 30s", v)
		}
		if d < low || d > high {
			return fmt.Errorf("%s is outside %s to %s", d, low, high)
		}
		*field(c) = d
		return nil
	}
}

func bytesSetting(field func(*Config) *int64, low, high int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := ParseBytes(v)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("%d bytes is outside %d to %d", n, low, high)
		}
		*field(c) = n
		return nil
	}
}

// ParseBytes reads a size: a whole number with an optional unit B, KiB, MiB, GiB, TiB, kB, MB, GB or TB.
func ParseBytes(v string) (int64, error) {
	digits := strings.TrimRight(v, "BKMGTkbit")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	factor, ok := byteUnits[strings.TrimSpace(v[len(digits):])]
	if err != nil || !ok || n < 0 {
		return 0, fmt.Errorf("%q is no size, e.g. 256MiB", v)
	}
	if n > (1<<62)/factor {
		return 0, fmt.Errorf("%q is too large", v)
	}
	return n * factor, nil
}

var byteUnits = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}
