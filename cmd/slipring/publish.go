package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

func newPublish(a *app) *cobra.Command {
	var key, acks string
	var partition int
	c := &cobra.Command{
		Use:   "publish TOPIC [PAYLOAD...]",
		Short: "Publish small records one by one",
		Long: "publish sends each argument, or without any each line of stdin, as one small record in a request of its own, and prints\n" +
			"partition and offset of each. To send many, or large ones, use produce.",
		Example:           "  slipring publish orders.eu.created '{\"id\":42}'\n  slipring publish ticks hello --acks leader --key k",
		Args:              atLeastTopic,
		ValidArgsFunction: a.completeTopic,
	}
	c.Flags().StringVar(&key, "key", "", "key of the records")
	c.Flags().StringVar(&acks, "acks", "", "none, leader or durable; default the strongest that the topic offers")
	c.Flags().IntVar(&partition, "partition", -1, "publish to this partition; default as produce does, by hash of the key")
	c.RunE = command(func(ctx context.Context, args []string) error {
		level, err := client.ParseAcks(acks)
		if err != nil {
			return usagef("--%v", err)
		}
		var r client.Record
		choose := client.KeyHash()
		if partition >= 0 {
			r.Partition, choose = uint32(min(partition, 1<<31-1)), client.Explicit()
		}
		if key != "" {
			r.Key = []byte(key)
		}
		return a.with(ctx, func(cl *client.Client) error {
			one := func(payload []byte) error {
				ctx, cancel := context.WithTimeout(ctx, a.timeout)
				defer cancel()
				r.Value = payload
				res, err := cl.PublishBy(ctx, args[0], &r, choose, level)
				if errors.Is(err, client.ErrTooLarge) && len(payload)+len(r.Key) > publishMax {
					return fmt.Errorf("publish %s: PUBLISH takes at most %d bytes of key and payload, this is %d; use slipring produce", args[0], publishMax, len(payload)+len(r.Key))
				}
				if err != nil || level == client.AcksNone {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "%d/%d\n", res.Partition, res.Offset)
				return err
			}
			for _, payload := range args[1:] {
				if err := one([]byte(payload)); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				if err := eachLine(ctx, a.stdin, one); err != nil {
					return err
				}
			}
			return a.settle(ctx, cl, level)
		})
	})
	return c
}

// settle makes sure that requests without a reply have left before the connection closes.
func (a *app) settle(ctx context.Context, cl *client.Client, level client.Acks) error {
	if level != client.AcksNone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	_, err := cl.Ping(ctx)
	return err
}

// publishMax bounds key and payload together, bytes.
const publishMax = client.PublishMax

func eachLine(ctx context.Context, r io.Reader, work func([]byte) error) error {
	lines := newLineReader(&contextReader{ctx: ctx, r: r}, publishMax)
	lines.advice = "use slipring produce, which takes large ones"
	for {
		line, err := lines.next()
		switch {
		case err == io.EOF, ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("stdin: %w", err)
		}
		if err := work(line); err != nil {
			return err
		}
	}
}

func newSubscribe(a *app) *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "subscribe TOPIC",
		Short: "Print records the moment they become readable",
		Long: "subscribe has records pushed, and prints them until a signal or --count. From the end, the default, it is at most once:\n" +
			"records published while the connection is down pass by.",
		Example:           "  slipring subscribe orders.eu.created\n  slipring subscribe ticks --count 1 -o json\n  slipring subscribe orders --from start -o '%k=%v\\n'",
		Args:              oneTopic,
		ValidArgsFunction: a.completeTopic,
	}
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "end", "`end`, start or offset:N")
	fl.Uint64VarP(&f.count, "count", "n", 0, "stop after so many records; 0: no limit")
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
		return a.with(ctx, func(cl *client.Client) error {
			s, err := cl.Subscribe(ctx, args[0], client.SubscribeOptions{Start: start, Partitions: partitions(f.partitions)})
			if err != nil {
				return err
			}
			defer s.Close()
			err = a.print(ctx, s.Poll, args[0], print, f.count)
			if n := s.Lost(); n > 0 {
				fmt.Fprintf(a.stderr, "%d records were dropped by the broker: this reader is too slow\n", n)
			}
			return err
		})
	})
	return c
}
