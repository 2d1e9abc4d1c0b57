package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

// forPeople puts an error of the client into the words of the command that was typed.
func forPeople(c *cobra.Command, args []string, err error) error {
	e, ok := err.(*client.Error)
	if !ok || len(args) == 0 {
		return err
	}
	verb, topic := strings.TrimPrefix(c.CommandPath(), "slipring "), args[0]
	own := *e
	if i := strings.Index(e.Op, " "+topic); i >= 0 {
		own.Op = verb + e.Op[i:]
	}
	if errors.Is(err, client.ErrUnknownTopic) {
		own.Text = "no such topic; slipring topic ls lists all"
		if c.Parent() == c.Root() { // produce and its like want one
			own.Text = fmt.Sprintf("no such topic; create it with slipring topic create %s", topic)
		}
	}
	return &own
}

// wrongUsage says whether the broker refused what the command line asked for, as opposed to failing at it.
func wrongUsage(err error) bool {
	for _, code := range []error{client.ErrUnknownPartition, client.ErrInvalidName, client.ErrInvalidSetting} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// subcommand refuses an argument that no subcommand has for a name, with the nearest one that there is.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	nearest, least := "", 1<<30
	for _, sub := range c.Commands() {
		for _, name := range append([]string{sub.Name()}, sub.Aliases...) {
			if d := editDistance(args[0], name); d < least && sub.IsAvailableCommand() {
				nearest, least = name, d
			}
		}
	}
	return usagef("unknown command %q; did you mean %s %s?", args[0], c.CommandPath(), nearest)
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
