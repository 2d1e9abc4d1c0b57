//go:build planted

package fault

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Planted says whether this build can plant faults at all.
const Planted = true

var planted = parse(os.Getenv(EnvName))

// On reports whether f is planted. Cost: one lookup in a small map that nobody writes.
func On(f Fault) bool { return planted[f] }

// parse turns a comma list into a set. A misspelt fault would make a test pass that should fail, so it panics
// on a name that is not in the table.
func parse(list string) map[Fault]bool {
	set := make(map[Fault]bool)
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		f := Fault(word)
		if !slices.Contains(names, f) {
			panic(fmt.Sprintf("fault: %s names %q, which does not exist; known: %q", EnvName, word, names))
		}
		set[f] = true
	}
	return set
}
