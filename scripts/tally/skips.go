package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// modulePath is left off in the list: `.` is the root package.
const modulePath = "github.com/slipringmq/slipring"

// skipList holds the skips that somebody decided on, one a line:
//
//	STAGE PACKAGE TEST WHY...
//
// STAGE is a stage of .ci/run or * for all. PACKAGE is relative to the module, TEST exact, a subtest with its parent.
type skipList map[[3]string]bool

// readSkips refuses a line that gives no reason, and a test that it names twice.
func readSkips(in io.Reader) (skipList, error) {
	list := make(skipList)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 4 {
			return nil, fmt.Errorf("list of skips: %q: want STAGE PACKAGE TEST WHY", lines.Text())
		}
		key := [3]string(words[:3])
		if list[key] {
			return nil, fmt.Errorf("list of skips: %q is there twice", lines.Text())
		}
		list[key] = true
	}
	return list, lines.Err()
}

func (l skipList) has(stage, pkg, test string) bool {
	pkg = strings.TrimPrefix(strings.TrimPrefix(pkg, modulePath), "/")
	if pkg == "" {
		pkg = "."
	}
	return l[[3]string{stage, pkg, test}] || l[[3]string{"*", pkg, test}]
}
