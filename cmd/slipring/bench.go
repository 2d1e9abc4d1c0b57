package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
	"github.com/slipringmq/slipring/perf"
)

func newBench(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker",
		Long: "bench makes a topic of its own, measures, and removes the topic. Latency counts from the moment a record was due: give\n" +
			"--rate for figures that show stalls.",
		Example: "  slipring bench durable --duration 10s\n  slipring bench stream --connections 4 --rate 50000 -o json",
		Args:    subcommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newBenchMode(a, benchMode{
			name: "wire", short: "Bandwidth from one publisher to one push subscriber, nothing stored",
			example: "  slipring bench wire --size 64 --batch 1000\n  slipring bench wire --floor 127.0.0.1:7501,127.0.0.1:7502",
			run:     perf.Wire, flags: "size batch duration warmup window floor", size: 64, batch: 1000,
		}),
		newBenchMode(a, benchMode{
			name: "durable", short: "Latency of durable acknowledgements, one small record in flight per connection",
			example: "  slipring bench durable\n  slipring bench durable --connections 64 --partitions 8 --rate 10000",
			run:     perf.Durable, flags: "size connections partitions duration warmup count rate raw", size: 64, batch: 1,
		}),
		newBenchMode(a, benchMode{
			name: "stream", short: "Batched producing: throughput, and latency of acknowledgements",
			example: "  slipring bench stream --connections 4 --partitions 8 --size 1024",
			run:     perf.Stream, flags: "size batch connections partitions duration warmup count rate acks compression", size: 128, batch: 1000,
		}),
		newBenchMode(a, benchMode{
			name: "replay", short: "Reading a log from start to end",
			example: "  slipring bench replay --count 2000000 --partitions 8",
			run:     perf.Replay, flags: "size batch partitions count compression", size: 128, batch: 1000, count: 1_000_000,
		}),
	)
	return c
}

// benchMode is one subcommand: what it runs and which flags it has.
type benchMode struct {
	name, short, example string
	run                  func(context.Context, perf.Config) (*perf.Report, error)
	flags                string
	size, batch, count   int
}

func newBenchMode(a *app, m benchMode) *cobra.Command {
	var cfg perf.Config
	var out, acks, codec, floor, window string
	c := &cobra.Command{Use: m.name, Short: m.short, Example: m.example, Args: nothing}
	fl := c.Flags()
	for _, name := range strings.Fields(m.flags) {
		switch name {
		case "size":
			fl.IntVar(&cfg.Size, name, m.size, "payload bytes of a record")
		case "batch":
			fl.IntVar(&cfg.Batch, name, m.batch, "records of a batch")
		case "connections":
			fl.IntVar(&cfg.Connections, name, 1, "producers at once, each with a connection of its own")
		case "partitions":
			fl.IntVar(&cfg.Partitions, name, 1, "partitions of the topic")
		case "duration":
			fl.Var(spanFlag(&cfg.Duration, 5*time.Second), name, "of the measured part")
		case "warmup":
			fl.Var(spanFlag(&cfg.Warmup, time.Second), name, "before the measured part")
		case "count":
			fl.IntVar(&cfg.Count, name, m.count, "end after so many records; 0: after --duration")
		case "rate":
			fl.Float64Var(&cfg.Rate, name, 0, "records a second, all connections together, from a fixed schedule; 0: as fast as it goes")
		case "acks":
			fl.StringVar(&acks, name, "", "none, leader or durable; default durable")
		case "compression":
			fl.StringVar(&codec, name, "none", "none, gzip, snappy, lz4 or zstd")
		case "raw":
			fl.BoolVar(&cfg.Raw, name, false, "bare request and reply instead of the client's producer")
		case "window":
			fl.StringVar(&window, name, "1MiB", "how far the publisher may be ahead of the subscriber")
		case "floor":
			fl.StringVar(&floor, name, "", "measure a relay at `ADDR_IN,ADDR_OUT` instead of a broker, with the same bytes")
		}
	}
	fl.StringVarP(&out, "output", "o", "table", "table or json")
	c.RunE = command(func(ctx context.Context, _ []string) error {
		if out != "table" && out != "json" {
			return usagef("-o %q: want table or json", out)
		}
		if err := completeBench(a, &cfg, acks, codec, floor, window); err != nil {
			return err
		}
		report, err := m.run(ctx, cfg)
		if err != nil {
			return fmt.Errorf("bench %s: %w", m.name, err)
		}
		if out == "json" {
			return writeJSON(a.stdout, report)
		}
		return showReport(a.stdout, report)
	})
	return c
}

func completeBench(a *app, cfg *perf.Config, acks, codec, floor, window string) (err error) {
	if cfg.Connect, err = a.options(); err != nil {
		return err
	}
	if cfg.Acks, err = client.ParseAcks(acks); err != nil {
		return usagef("--%v", err)
	}
	if codec != "" {
		var ok bool
		if cfg.Codec, ok = client.ParseCodec(codec); !ok {
			return usagef("--compression %q: want none, gzip, snappy, lz4 or zstd", codec)
		}
	}
	if window != "" {
		n, err := parseSize(window)
		if err != nil {
			return err
		}
		cfg.Window = int(max(n, 128<<10)) // two writes of the publisher
	}
	if floor != "" {
		var ok bool
		if cfg.FloorIn, cfg.FloorOut, ok = strings.Cut(floor, ","); !ok {
			return usagef("--floor %q: want ADDR_IN,ADDR_OUT", floor)
		}
	}
	if cfg.Count > 0 {
		cfg.Warmup = 0
		cfg.Duration = max(cfg.Duration, 10*time.Minute) // the count ends it
	}
	cfg.Connections = max(cfg.Connections, 1)
	cfg.Partitions = max(cfg.Partitions, 1)
	if cfg.Size < 1 || cfg.Batch < 0 || cfg.Rate < 0 {
		return usagef("--size, --batch and --rate want positive numbers")
	}
	return nil
}

func showReport(w io.Writer, r *perf.Report) error {
	o := row{
		{name: "mode", value: r.Mode + " (" + r.Target + ")"},
		{name: "record", value: fmt.Sprintf("%d B, batches of up to %d, acks %s, compression %s", r.Size, r.Batch, r.Acks, r.Codec)},
		{name: "load", value: fmt.Sprintf("%d connections, %d partitions, %s", r.Connections, r.Partitions, showRate(r.Rate))},
		{name: "took", value: fmt.Sprintf("%.2f s", r.Seconds)},
		{name: "records", value: fmt.Sprintf("%s, %s/s", showCount(r.Records), showCount(uint64(r.PerSecond)))},
		{name: "payload", value: fmt.Sprintf("%s, %.1f MiB/s", showBytes(r.Bytes), r.MiBSecond)},
	}
	if r.WireBytes > 0 {
		o = append(o, field{name: "wire", value: fmt.Sprintf("%s, %.1f MiB/s", showBytes(r.WireBytes), r.WireMiB)})
	}
	if r.Lost > 0 {
		o = append(o, field{name: "lost", value: showCount(r.Lost)})
	}
	if q := r.Latency; q != nil {
		o = append(o, field{name: "latency", value: fmt.Sprintf("p50 %s, p99 %s, p99.9 %s, max %s (%s timed)", showMicros(q.P50), showMicros(q.P99), showMicros(q.P999), showMicros(q.Max), showCount(uint64(q.Count)))})
	}
	o = append(o, field{name: "host", value: fmt.Sprintf("%d x %s, Linux %s, %s", r.Host.CPUs, r.Host.CPU, r.Host.Kernel, r.Host.Go)})
	return format("table").object(w, o)
}

func showRate(rate float64) string {
	if rate == 0 {
		return "as fast as it goes"
	}
	return fmt.Sprintf("%.0f records/s offered", rate)
}

// showMicros gives a latency in the unit that suits it.
func showMicros(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e4:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f µs", us)
}
