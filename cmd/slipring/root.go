package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipringmq/slipring/client"
)

// app is what the commands share.
type app struct {
	addr    string
	timeout time.Duration
	verbose bool

	stdin          io.Reader
	stdout, stderr io.Writer
}

const addrEnv = "SLIPRING_ADDR"

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "slipring",
		Short:         "Talk to a Slipring broker",
		Long:          "slipring talks to a Slipring broker: it manages topics, produces, consumes, publishes, subscribes and measures.",
		Example:       "  slipring topic create orders --partitions 8\n  slipring produce orders < lines.txt\n  slipring consume orders --from start",
		Version:       buildVersion(),
		Args:          subcommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringVar(&a.addr, "addr", envOr(addrEnv, "127.0.0.1:7400"), "broker `ADDR[,ADDR]`, tried in order; environment "+addrEnv)
	f.Var(spanFlag(&a.timeout, 10*time.Second), "timeout", "for connecting and for each administrative request")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log reconnects and retries to stderr")
	root.AddCommand(newTopic(a), newProduce(a), newConsume(a), newPublish(a), newSubscribe(a), newBench(a), newVersion(a))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v; see %s --help", err, c.CommandPath())
	})
	return root
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// command wraps the work of a command so that its errors are told from those of the command line.
func command(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := work(c.Context(), args); err != nil {
			return &failure{forPeople(c, args, err)}
		}
		return nil
	}
}

// options are a client's, from the flags that all commands have.
func (a *app) options() (client.Options, error) {
	addrs := strings.Split(a.addr, ",")
	for i, s := range addrs {
		if addrs[i] = strings.TrimSpace(s); !strings.Contains(addrs[i], ":") {
			return client.Options{}, usagef("--addr %q: want HOST:PORT", s)
		}
	}
	return client.Options{Addrs: addrs, Name: "slipring", Logger: a.logger(), RequestTimeout: a.timeout, WaitForBroker: true}, nil
}

// waitQuietly is how long a command waits for a broker without a word.
const waitQuietly = time.Second

// connect opens a client, or says in one line what to do. A broker that is about to start is waited for: a script may start
// both.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	said := make(chan struct{})
	note := time.AfterFunc(waitQuietly, func() {
		defer close(said)
		if waiting.Err() == nil {
			fmt.Fprintf(a.stderr, "slipring: waiting for a broker at %s\n", a.addr)
		}
	})
	c, err := client.Connect(waiting, o)
	if !note.Stop() {
		<-said // stderr is the caller's again
	}
	if ctx.Err() != nil && err != nil {
		return nil, errors.New("interrupted before a broker answered")
	}
	if errors.Is(err, client.ErrConnection) || errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("cannot reach a broker at %s (%w); start slipringd there, or set --addr or %s", a.addr, err, addrEnv)
	}
	return c, err
}

// with runs work with a client. Each of its administrative calls has the timeout of --timeout.
func (a *app) with(ctx context.Context, work func(c *client.Client) error) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return work(c)
}

// terminal says whether w is one, and how wide.
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 80
	}
	return width, true
}

// completeTopic offers the broker's topics, or quickly nothing.
func (a *app) completeTopic(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	var names []string
	a.with(ctx, func(cl *client.Client) error {
		topics, err := cl.ListTopics(ctx, prefix)
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// oneTopic wants TOPIC as the only argument.
func oneTopic(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s wants one TOPIC, got %d arguments; see %s --help", c.CommandPath(), len(args), c.CommandPath())
	}
	return nil
}

// atLeastTopic wants TOPIC first.
func atLeastTopic(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s wants a TOPIC; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
}

// nothing wants no arguments.
func nothing(c *cobra.Command, args []string) error {
	if len(args) != 0 {
		return usagef("%s takes no arguments, got %q; see %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}
