// Command slipring is the command line for people: topics, producing, consuming, publishing, subscribing, benchmarks.
//
// It never asks anything. Results go to stdout, everything else to stderr.
// Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused for want of --yes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// run executes one command line. A first signal ends ctx, which every command answers by ending cleanly.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "slipring: %s\n", oneLine(err))
	var failed *failure
	switch {
	case errors.As(err, new(*refusal)):
		return exitRefused
	case errors.As(err, new(*usageError)), wrongUsage(err), !errors.As(err, &failed):
		return exitUsage // whatever did not come out of a command came out of reading the command line
	}
	return exitFailed
}

// failure marks an error of a command that was understood.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usageError is a command line that means nothing.
type usageError struct{ text string }

func (u *usageError) Error() string { return u.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// refusal is something that cannot be undone and was not confirmed.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// oneLine keeps an error on one line, whatever it was put together from.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
