package slipring_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// room says what the packages below one folder may import. The fields for tests come on top of those for all.
type room struct {
	ours        []string // rooms and leaves of this module; a room does not include its leaves here
	theirs      []string // modules of others
	oursTests   []string
	theirsTests []string
}

const (
	sys     = "golang.org/x/sys"
	iouring = "github.com/iceber/iouring-go"
	rapid   = "pgregory.net/rapid"
	goleak  = "go.uber.org/goleak"
)

// rooms are the arrows of the design. A new line, or a new name in one, is a decision that its commit explains.
// A package belongs to the longest key that is its path or a parent of it; "." is the root package alone.
var rooms = map[string]room{
	"frame":       {ours: []string{"frame/batch"}, oursTests: nil, theirsTests: []string{rapid}},
	"frame/batch": {theirsTests: []string{rapid, "github.com/twmb/franz-go/pkg/kmsg"}},

	"affinity": {theirs: []string{sys}},

	"loop":       {ours: []string{"affinity", "loop/block", "loop/spsc", "loop/uring"}, theirs: []string{sys}, theirsTests: []string{goleak}},
	"loop/uring": {ours: []string{"loop/block"}, theirs: []string{sys, iouring}, theirsTests: []string{goleak}},
	"loop/block": {theirs: []string{sys}},
	"loop/spsc":  {theirsTests: []string{rapid}},

	"disk": {ours: []string{"frame/batch", "loop/block", "loop/uring"}, theirs: []string{sys}, theirsTests: []string{rapid, goleak}},

	"shard":     {ours: []string{"frame", "frame/batch", "disk", "loop/block"}, oursTests: []string{"shard/sim"}, theirsTests: []string{rapid}},
	"shard/sim": {ours: []string{"frame", "frame/batch", "disk", "loop/block", "shard"}, theirsTests: []string{rapid}},

	"client": {
		ours: []string{"frame", "frame/batch"},
		theirs: []string{
			"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "github.com/golang/snappy",
		},
		oursTests:   []string{"."},
		theirsTests: []string{goleak},
	},

	".": {
		ours: []string{
			"affinity", "client", "disk", "frame", "frame/batch",
			"loop", "loop/block", "loop/spsc", "loop/uring", "shard", "shard/sim",
		},
		theirs:      []string{sys, "go.yaml.in/yaml/v3"},
		theirsTests: []string{goleak, rapid},
	},

	"perf": {
		ours:      []string{"client", "affinity"},
		theirs:    []string{sys, "github.com/HdrHistogram/hdrhistogram-go"},
		oursTests: []string{"."},
	},

	"cmd/slipringd": {ours: []string{"."}, oursTests: []string{"client"}, theirsTests: []string{sys}},
	"cmd/slipring": {
		ours:      []string{"client", "perf", "affinity"},
		theirs:    []string{"github.com/spf13/cobra", "golang.org/x/term", "github.com/schollz/progressbar/v3"},
		oursTests: []string{"."},
	},

	"fault":    {},
	"scripts":  {},
	"examples": {ours: []string{"client", "."}},
}

// leaves may be imported by every room.
var leaves = []string{"fault"}

// edge is one import: from a package of this module, to a package of this module or to a module of others.
type edge struct {
	from   string // path relative to the module, "." for the root
	to     string // the same when ours, else a module path
	ours   bool
	inTest bool
}

// Only the arrows in the table exist, in all builds.
func TestArrowsBetweenRooms(t *testing.T) {
	for _, tags := range []string{"", "invariants,planted"} {
		edges := listEdges(t, tags)
		if len(edges) == 0 {
			t.Fatalf("tags %q: go list shows no import at all", tags)
		}
		for _, problem := range newArrows(edges) {
			t.Errorf("tags %q: %s", tags, problem)
		}
	}
}

// The check finds each kind of bad edge, and nothing in the good ones.
func TestArrowsFindPlantedEdges(t *testing.T) {
	bad := []edge{
		{from: "frame", to: "disk", ours: true},
		{from: "frame/batch", to: "frame", ours: true},
		{from: "shard", to: "loop/uring", ours: true},
		{from: "shard", to: "shard/sim", ours: true},
		{from: "disk/sim", to: "shard", ours: true, inTest: true},
		{from: "client", to: ".", ours: true},
		{from: ".", to: "cmd/slipring", ours: true, inTest: true},
		{from: "examples/hello", to: "perf", ours: true},
		{from: "fault", to: "frame", ours: true},
		{from: "util", to: "fault", ours: true},
		{from: "shard", to: sys},
		{from: "client", to: goleak},
		{from: "frame", to: "github.com/twmb/franz-go/pkg/kmsg", inTest: true},
	}
	for _, e := range bad {
		if problems := newArrows([]edge{e}); len(problems) != 1 {
			t.Errorf("%+v: %d problems reported, want 1", e, len(problems))
		}
	}
	good := []edge{
		{from: "frame", to: "frame/batch", ours: true},
		{from: "disk/sim", to: "disk", ours: true},
		{from: "shard", to: "shard/sim", ours: true, inTest: true},
		{from: "shard", to: "fault", ours: true},
		{from: "client", to: goleak, inTest: true},
		{from: "perf/cmd/relay", to: sys},
	}
	if problems := newArrows(good); len(problems) != 0 {
		t.Errorf("good edges were refused: %v", problems)
	}
}

// The system call package is for whoever talks to the kernel; any other library enters through one room.
func TestArrowsLetALibraryInThroughOneRoom(t *testing.T) {
	entered := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		for _, module := range rooms[name].theirs {
			if other := entered[module]; other != "" && module != sys {
				t.Errorf("%s may be imported by %s and by %s", module, other, name)
			}
			entered[module] = name
		}
	}
}

// newArrows returns one line for each edge that the table does not allow.
func newArrows(edges []edge) []string {
	var problems []string
	for _, e := range edges {
		from := roomOf(e.from)
		r, known := rooms[from]
		if !known {
			problems = append(problems, fmt.Sprintf("%s belongs to no room", e.from))
			continue
		}
		ours, theirs := r.ours, r.theirs
		if e.inTest {
			ours, theirs = slices.Concat(ours, r.oursTests), slices.Concat(theirs, r.theirsTests)
		}
		switch to := roomOf(e.to); {
		case e.ours && (to == from || slices.Contains(leaves, to) || slices.Contains(ours, to)):
		case !e.ours && slices.Contains(theirs, e.to):
		default:
			problems = append(problems, fmt.Sprintf("new arrow: %s (room %s) imports %s (in a test: %v)", e.from, from, e.to, e.inTest))
		}
	}
	return problems
}

// roomOf returns the longest key of rooms that is path or a parent of it, or "" when there is none.
func roomOf(path string) string {
	for path != "." {
		if _, ok := rooms[path]; ok {
			return path
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return ""
		}
		path = path[:cut]
	}
	return "."
}
