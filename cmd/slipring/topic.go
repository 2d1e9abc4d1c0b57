package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

func newTopic(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "topic",
		Short:   "Create, list, describe, change and remove topics",
		Example: "  slipring topic create orders --partitions 8\n  slipring topic ls\n  slipring topic info orders",
		Args:    subcommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newTopicCreate(a), newTopicList(a), newTopicInfo(a), newTopicSet(a), newTopicRemove(a))
	return c
}

func newTopicCreate(a *app) *cobra.Command {
	var partitions uint32
	var lenient bool
	var settings settingFlags
	c := &cobra.Command{
		Use:     "create TOPIC",
		Short:   "Create a topic",
		Example: "  slipring topic create orders --partitions 8 --retention-time 7d\n  slipring topic create ticks --storage none",
		Args:    oneTopic,
	}
	c.Flags().Uint32Var(&partitions, "partitions", 1, "number of partitions, fixed at creation")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "succeed without a change when a topic of this name exists, whatever its settings")
	settings.add(c, true)
	c.RunE = command(func(ctx context.Context, args []string) error {
		s, err := settings.parse(c)
		if err != nil {
			return err
		}
		if partitions == 0 {
			return usagef("--partitions 0: want at least 1")
		}
		return a.with(ctx, func(cl *client.Client) error {
			id, err := cl.CreateTopic(ctx, args[0], partitions, s)
			if lenient && errors.Is(err, client.ErrTopicExists) {
				_, err = fmt.Fprintf(a.stdout, "%s exists\n", args[0])
				return err
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "created %s (id %d, %d partitions)\n", args[0], id, partitions)
			return err
		})
	})
	return c
}

func newTopicList(a *app) *cobra.Command {
	var out format
	var prefix string
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List topics",
		Example: "  slipring topic ls\n  slipring topic ls --prefix orders. -o json",
		Args:    nothing,
	}
	out.add(c)
	c.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this")
	c.RunE = command(func(ctx context.Context, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return a.with(ctx, func(cl *client.Client) error {
			topics, err := cl.ListTopics(ctx, prefix)
			if err != nil {
				return err
			}
			rows := make([]row, len(topics))
			for i, t := range topics {
				rows[i] = summaryRow(t)
			}
			return out.list(a.stdout, []string{"name", "partitions", "storage", "durability", "records", "bytes"}, rows)
		})
	})
	return c
}

func summaryRow(t client.TopicSummary) row {
	return row{
		{name: "name", value: t.Name},
		{name: "partitions", value: t.Partitions},
		{name: "storage", value: t.Storage.String()},
		{name: "durability", value: t.Durability.String()},
		{name: "records", value: t.Records, text: showCount(t.Records)},
		{name: "bytes", value: t.Bytes, text: showBytes(t.Bytes)},
	}
}

func newTopicInfo(a *app) *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:               "info TOPIC",
		Aliases:           []string{"describe"},
		Short:             "Show settings and partitions of a topic",
		Example:           "  slipring topic info orders\n  slipring topic info orders -o yaml",
		Args:              oneTopic,
		ValidArgsFunction: a.completeTopic,
	}
	out.add(c)
	c.RunE = command(func(ctx context.Context, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return a.with(ctx, func(cl *client.Client) error {
			d, err := cl.DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return out.object(a.stdout, infoRow(d))
		})
	})
	return c
}

func infoRow(d *client.TopicDescription) row {
	r := row{{name: "name", value: d.Name}, {name: "id", value: d.ID}}
	r = append(r, settingsRow(&d.Settings)...)
	parts := make([]row, len(d.Partitions))
	for i, p := range d.Partitions {
		state := "ok"
		if p.Error != 0 {
			state = p.Error.Name()
		}
		parts[i] = row{
			{name: "partition", value: p.Partition},
			{name: "shard", value: p.Shard},
			{name: "state", value: state},
			{name: "epoch", value: p.Epoch},
			{name: "log_start", value: p.LogStart},
			{name: "log_end", value: p.LogEnd},
			{name: "durable_end", value: p.DurableEnd},
			{name: "high_watermark", value: p.HighWatermark},
			{name: "bytes", value: p.Bytes, text: showBytes(p.Bytes)},
			{name: "segments", value: p.Segments},
		}
	}
	return append(r, field{name: "partitions", value: parts})
}

func newTopicSet(a *app) *cobra.Command {
	var settings settingFlags
	c := &cobra.Command{
		Use:               "set TOPIC",
		Aliases:           []string{"alter"},
		Short:             "Change settings of a topic",
		Long:              "set changes the settings that are named and leaves the others. Storage and the number of partitions cannot be changed.",
		Example:           "  slipring topic set orders --retention-time 7d --retention-bytes 10GiB\n  slipring topic set orders --retention-time none",
		Args:              oneTopic,
		ValidArgsFunction: a.completeTopic,
	}
	settings.add(c, false)
	c.RunE = command(func(ctx context.Context, args []string) error {
		s, err := settings.parse(c)
		if err != nil {
			return err
		}
		if s.Mask == 0 {
			return usagef("topic set changes nothing; name at least one setting, see slipring topic set --help")
		}
		return a.with(ctx, func(cl *client.Client) error {
			before, err := cl.DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			if err := cl.AlterTopic(ctx, args[0], s); err != nil {
				return err
			}
			after, err := cl.DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showChange(before, after)
		})
	})
	return c
}

// showChange prints the settings that have changed, old and new.
func (a *app) showChange(before, after *client.TopicDescription) error {
	old, now := settingsRow(&before.Settings), settingsRow(&after.Settings)
	for i := range old {
		if old[i].show() != now[i].show() {
			if _, err := fmt.Fprintf(a.stdout, "%s: %s -> %s\n", old[i].label(), old[i].show(), now[i].show()); err != nil {
				return err
			}
		}
	}
	return nil
}

func newTopicRemove(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:               "rm TOPIC",
		Aliases:           []string{"delete"},
		Short:             "Remove a topic and its records",
		Long:              "rm removes a topic and all its records, for good. Without --yes it only says what it would remove, and exits with status 3.",
		Example:           "  slipring topic rm orders\n  slipring topic rm orders --yes",
		Args:              oneTopic,
		ValidArgsFunction: a.completeTopic,
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.RunE = command(func(ctx context.Context, args []string) error {
		return a.with(ctx, func(cl *client.Client) error {
			if !yes {
				return a.refuseRemoval(ctx, cl, args[0])
			}
			if err := cl.DeleteTopic(ctx, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.stdout, "removed %s\n", args[0])
			return err
		})
	})
	return c
}

func (a *app) refuseRemoval(ctx context.Context, cl *client.Client, name string) error {
	d, err := cl.DescribeTopic(ctx, name)
	if err != nil {
		return err
	}
	var records, bytes uint64
	for _, p := range d.Partitions {
		records += p.HighWatermark - min(p.LogStart, p.HighWatermark)
		bytes += p.Bytes
	}
	return &refusal{fmt.Sprintf("would remove topic %s with %d partitions, %s records, %s; nothing was done, add --yes to do it",
		name, len(d.Partitions), showCount(records), showBytes(bytes))}
}
