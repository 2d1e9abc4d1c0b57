// Command report prints the faults that are on, one a line. The tests of fault build it with and without the tag.
package main

import (
	"fmt"

	"github.com/slipringmq/slipring/fault"
)

func main() {
	if fault.On(fault.AckBeforeFlush) {
		plantedCode()
	}
	for _, f := range fault.Names() {
		if fault.On(f) {
			fmt.Println(f)
		}
	}
}

// plantedCode must be absent from a binary that was built without the tag.
//
//go:noinline
func plantedCode() { fmt.Println("planted code ran") }
