// Command slipringd is the broker's daemon: it reads flags and one YAML file, runs a broker, and stops it cleanly on
// SIGTERM, SIGINT or SIGHUP, the loss of its terminal. SIGUSR1 makes it write its counters to the log. It decides nothing.
//
// When it serves it prints one line on stdout, "listening ADDR"; everything else goes to stderr as structured log.
// Exit status: 0 stopped cleanly, 1 failed while running, 2 something it needs is missing or wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/slipringmq/slipring"
)

// stopWithin bounds a clean stop. What is acknowledged is durable before, so giving up loses nothing.
const stopWithin = 10 * time.Second

// The main thread stays main's own, so that no shard gets it: its name is the process's.
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := configure(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "slipringd: %v\n", err)
		return 2
	}
	log := newLogger(cfg, stderr)
	// Never undone: a second signal must not end a stop that is under way.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup wants it to stay so
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader of stdout or stderr that has gone must not kill the broker: writes fail instead, and the log is lost.
	signal.Ignore(syscall.SIGPIPE)
	tell := make(chan os.Signal, 1)
	signal.Notify(tell, syscall.SIGUSR1)

	broker, err := open(cfg, log, signals)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "slipringd: %v\n", err)
		return 2
	case broker == nil:
		return 0
	}
	fmt.Fprintf(stdout, "listening %s\n", broker.Addr())

	for {
		select {
		case <-tell:
			tellCounters(broker, log)
		case s := <-signals:
			log.Info("signal received", "event", "signal", "signal", s.String())
			code := stop(broker, stderr)
			if code == 0 {
				log.Info("stopped", "event", "stopped")
			}
			return code
		case <-broker.Done():
			fmt.Fprintf(stderr, "slipringd: %v\n", broker.Err())
			return 1
		}
	}
}

func stop(broker *slipring.Broker, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := broker.Close(ctx); err != nil {
		fmt.Fprintf(stderr, "slipringd: stop: %v\n", err)
		return 1
	}
	return 0
}

// tellCounters answers SIGUSR1 with one line in the log.
func tellCounters(broker *slipring.Broker, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := broker.Stats(ctx)
	if err != nil {
		log.Warn("the shard does not answer", "event", "counters", "error", err)
		return
	}
	log.Info("counters since the start", "event", "counters", "turns", s.Loop.Turns, "enters", s.Loop.Enters, "parks", s.Loop.Parks,
		"connections", s.Loop.Connections, "bytes_in", s.Loop.BytesIn, "bytes_out", s.Loop.BytesOut,
		"topics", s.Shard.Topics, "partitions", s.Shard.Partitions, "records", s.Shard.Records, "errors", s.Shard.Errors,
		"blocks", s.Pool.InUse, "blocks_limit", s.Pool.Limit)
}

// open starts the broker, which may wait for a killed one's last writes and read for a while. A signal meanwhile ends the
// process as it is (nil, nil): nothing was acknowledged yet, and the next start recovers.
func open(cfg slipring.Config, log *slog.Logger, signals <-chan os.Signal) (*slipring.Broker, error) {
	type result struct {
		broker *slipring.Broker
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		broker, err := slipring.Open(cfg, log)
		opened <- result{broker, err}
	}()
	select {
	case r := <-opened:
		return r.broker, r.err
	case s := <-signals:
		log.Info("stopping before it served", "event", "stop", "signal", s.String())
		return nil, nil
	}
}

// configure lays flags over the file over the defaults.
func configure(args []string, out io.Writer) (slipring.Config, error) {
	cfg := slipring.DefaultConfig()
	cfg.OwnProcess = true
	flags := flag.NewFlagSet("slipringd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var (
		file     = flags.String("config", "", "YAML `file`; keys below")
		listen   = flags.String("listen", cfg.Listen.String(), "`address` for clients; port 0 lets the kernel choose")
		data     = flags.String("data", cfg.Data, "data `directory`, made if missing")
		shards   = flags.Int("shards", cfg.Shards, "number of shards; this version runs 1")
		buffered = flags.Bool("allow-buffered", cfg.Buffered, "run on a file system without direct I/O")
		version  = flags.Bool("version", false, "print the version and exit")
	)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		usage(flags, out)
		return cfg, err
	case err != nil:
		return cfg, fmt.Errorf("%w; see slipringd --help", err)
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q; see slipringd --help", flags.Arg(0))
	case *version:
		fmt.Fprintf(out, "slipringd %s\n", slipring.Version)
		return cfg, flag.ErrHelp
	}
	if *file != "" {
		if err := cfg.ReadFile(*file); err != nil {
			return cfg, err
		}
	}
	var err error
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "listen":
			var e error
			if cfg.Listen, e = slipring.ParseListen(*listen); e != nil {
				err = fmt.Errorf("--listen: %w", e)
			}
		case "data":
			if cfg.Data = *data; *data == "" {
				err = errors.New("--data: is empty")
			}
		case "shards":
			if cfg.Shards = *shards; *shards != 1 {
				err = fmt.Errorf("--shards: %d; this version runs 1", *shards)
			}
		case "allow-buffered":
			cfg.Buffered = *buffered
		}
	})
	return cfg, err
}

func usage(flags *flag.FlagSet, out io.Writer) {
	fmt.Fprintln(out, "slipringd runs a Slipring broker.\n\nUsage: slipringd [--listen ADDR] [--data DIR] [--shards N] [--config FILE] [--allow-buffered]\n\nFlags:")
	flags.VisitAll(func(f *flag.Flag) {
		value, about := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			about += ", default " + f.DefValue
		}
		fmt.Fprintf(out, "  %-22s %s\n", strings.TrimSpace("--"+f.Name+" "+value), about)
	})
	fmt.Fprintf(out, "\nKeys of the configuration file (a flag wins over the file), nested or dotted:\n  %s\n", strings.Join(slipring.Settings(), "\n  "))
	fmt.Fprint(out, "\nSIGTERM, SIGINT and SIGHUP stop it cleanly; SIGUSR1 writes its counters to the log.\n"+
		"Exit status: 0 stopped cleanly, 1 failed while running, 2 something it needs is missing or wrong.\n")
}

func newLogger(cfg slipring.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // the configuration admits valid levels only
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
