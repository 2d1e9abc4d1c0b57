package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

type consumeFlags struct {
	from       string
	count      uint64
	follow     bool
	output     string
	partitions []uint
}

func newConsume(a *app) *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic",
		Long: "consume prints records, in order within each partition. It ends at the end that the log had when it began, unless --follow.\n" +
			"With -o raw stdout gets each payload and a newline, and nothing else. Other formats: json, one object a line, or\n" +
			templateHelp + ".",
		Example: "  slipring consume orders --from start\n" +
			"  slipring consume orders --from time:2026-11-29T14:00:00Z --follow -o json\n" +
			"  slipring consume orders --from offset:1000 --partition 3 --count 10 -o '%p/%o %k %v\\n'",
		Args:              oneTopic,
		ValidArgsFunction: a.completeTopic,
	}
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "start", "`start`, end, offset:N, or time:T with RFC 3339, a date (its midnight in UTC), Unix milliseconds, or a duration back from now (time:-10m, time:-1d)")
	fl.Uint64VarP(&f.count, "count", "n", 0, "stop after so many records; 0: no limit")
	fl.BoolVarP(&f.follow, "follow", "f", false, "wait for more at the end")
	fl.StringVarP(&f.output, "output", "o", "raw", "`raw`, json or a format with percent signs")
	fl.UintSliceVar(&f.partitions, "partition", nil, "only these partitions")
	c.RunE = command(func(ctx context.Context, args []string) error {
		print, err := parseOutput(f.output)
		if err != nil {
			return err
		}
		start, err := parseFrom(f.from, time.Now())
		if err != nil {
			return err
		}
		if f.from == "end" && !f.follow {
			return usagef("--from end without --follow prints nothing; add --follow")
		}
		return a.with(ctx, func(cl *client.Client) error {
			if err := keepsRecords(ctx, cl, args[0]); err != nil {
				return err
			}
			s, err := cl.Consumer(ctx, args[0], client.ConsumerOptions{Start: start, UntilEnd: !f.follow, Partitions: partitions(f.partitions)})
			if err != nil {
				return err
			}
			defer s.Close()
			return a.print(ctx, s.Poll, args[0], print, f.count)
		})
	})
	return c
}

// keepsRecords refuses a topic that has none to read: consuming it would end at once, or wait for ever.
func keepsRecords(ctx context.Context, cl *client.Client, topic string) error {
	m, err := cl.Metadata(ctx, topic)
	if err == nil && len(m.Topics) == 1 && m.Topics[0].Error == 0 && m.Topics[0].Settings.Storage.String() == "none" {
		return fmt.Errorf("consume %s: the topic has storage none and keeps no records; see new ones with slipring subscribe %s", topic, topic)
	}
	return nil // Consumer says what else is wrong
}

func partitions(given []uint) []uint32 {
	var all []uint32
	for _, p := range given {
		all = append(all, uint32(min(p, 1<<32-1)))
	}
	return all
}

// millisMin is the least number that is taken for milliseconds, in 1973: a smaller one was meant as seconds.
const millisMin = 100_000_000_000

// parseFrom reads the position to begin at.
func parseFrom(s string, now time.Time) (client.Position, error) {
	kind, value, _ := strings.Cut(s, ":")
	switch {
	case s == "start":
		return client.FromStart(), nil
	case s == "end":
		return client.FromEnd(), nil
	case kind == "offset":
		if n, err := strconv.ParseUint(value, 10, 63); err == nil {
			return client.FromOffset(n), nil
		}
	case kind == "time":
		if t, err := time.Parse(time.RFC3339, value); err == nil {
			return client.FromTime(t), nil
		}
		if t, err := time.Parse(time.DateOnly, value); err == nil {
			return client.FromTime(t), nil
		}
		if back, ok := strings.CutPrefix(value, "-"); ok {
			if ms, err := parseSpan(back); err == nil {
				return client.FromTime(now.Add(-time.Duration(ms) * time.Millisecond)), nil
			}
		}
		if ms, err := strconv.ParseInt(value, 10, 64); err == nil && ms >= 0 {
			if ms < millisMin {
				return client.Position{}, usagef("--from %q: a number is Unix milliseconds, and that is %s; for seconds append 000, or use RFC 3339, a date, -1d or -1h30m",
					s, time.UnixMilli(ms).UTC().Format(time.DateOnly))
			}
			return client.FromTime(time.UnixMilli(ms)), nil
		}
	}
	return client.Position{}, usagef("--from %q: want start, end, offset:N or time:T (RFC 3339, a date, Unix milliseconds, -1d or -1h30m)", s)
}

// print writes what poll gives until the end, count records (0: no limit) or a signal. A signal is a proper end.
func (a *app) print(ctx context.Context, poll func(context.Context, int) ([]client.Record, error), topic string, print printer, count uint64) error {
	out := bufio.NewWriterSize(a.stdout, 256<<10)
	var scratch []byte
	var printed uint64
	for {
		limit := 1 << 30
		if count > 0 {
			if printed == count {
				return out.Flush()
			}
			limit = int(min(count-printed, 1<<30))
		}
		records, err := poll(ctx, limit)
		if err != nil {
			if flushErr := out.Flush(); flushErr != nil {
				return flushErr
			}
			if err == io.EOF || ctx.Err() != nil {
				return nil
			}
			return withAdvice(err)
		}
		for i := range records {
			scratch = print(scratch[:0], topic, &records[i])
			if _, err := out.Write(scratch); err != nil {
				return err
			}
		}
		printed += uint64(len(records))
		// What has arrived is shown before waiting for more: a reader of a pipe sees records as they come.
		if out.Buffered() > 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// withAdvice adds what to do where the command line has the means.
func withAdvice(err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok && errors.Is(err, client.ErrOffsetOutOfRange) {
		return fmt.Errorf("%w; use --from start or --from offset:%d", err, e.First)
	}
	return err
}
