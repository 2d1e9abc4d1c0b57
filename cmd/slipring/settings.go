package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

// settingFlags are the flags of topic create and topic set. Only those that were given are sent.
type settingFlags struct {
	storage, durability                  string
	interval                             time.Duration
	retainTime, retainBytes, retainCount string
	retainAcked                          bool
	maxRecord, segment                   string
}

func (s *settingFlags) add(c *cobra.Command, creating bool) {
	f := c.Flags()
	if creating {
		f.StringVar(&s.storage, "storage", "log", "log, or none: nothing is kept, only subscribers see records; fixed at creation")
		c.RegisterFlagCompletionFunc("storage", cobra.FixedCompletions([]string{"log", "none"}, cobra.ShellCompDirectiveNoFileComp))
	}
	f.StringVar(&s.durability, "durability", "sync", "when bytes become durable: sync, interval or none")
	c.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"sync", "interval", "none"}, cobra.ShellCompDirectiveNoFileComp))
	f.Var(spanFlag(&s.interval, time.Second), "interval", "of durability interval")
	f.StringVar(&s.retainTime, "retention-time", "none", "records older than this may go, in whole segments, like 12h or 7d")
	f.StringVar(&s.retainBytes, "retention-bytes", "none", "bytes kept per partition, at least, like 10GiB; whole segments go")
	f.StringVar(&s.retainCount, "retention-records", "none", "records kept per partition, at least; whole segments go, so more are there until one is rolled")
	f.BoolVar(&s.retainAcked, "retention-acked", false, "records that every lease group has acked may go; has an effect with lease groups only, which a later release brings")
	f.StringVar(&s.maxRecord, "max-record", "16MiB", "greatest key, value and headers of one record")
	f.StringVar(&s.segment, "segment", "256MiB", "size at which a segment file is rolled")
	if !creating { // what is not given stays: no default is true
		for _, name := range []string{"durability", "interval", "retention-time", "retention-bytes", "retention-records", "max-record", "segment"} {
			f.Lookup(name).DefValue = ""
		}
	}
}

// parse gives the settings whose flags were set.
func (s *settingFlags) parse(c *cobra.Command) (set client.Settings, err error) {
	given := func(flag string, bit uint32) bool {
		changed := err == nil && c.Flags().Changed(flag)
		if changed {
			set.Mask |= bit
		}
		return changed
	}
	if given("storage", client.SetStorage) {
		set.Storage, err = client.ParseStorage(s.storage)
	}
	if given("durability", client.SetDurability) {
		set.Durability, err = client.ParseDurability(s.durability)
	}
	if given("interval", client.SetIntervalMillis) {
		if ms := s.interval.Milliseconds(); ms < 1 || ms > 1<<31 {
			err = usagef("--interval %v: want 1ms to 1h", s.interval)
		} else {
			set.IntervalMillis = uint32(ms)
		}
	}
	if given("retention-time", client.SetRetentionMillis) {
		set.RetentionMillis, err = parseLimit(s.retainTime, parseSpan)
	}
	if given("retention-bytes", client.SetRetentionBytes) {
		set.RetentionBytes, err = parseLimit(s.retainBytes, parseSize)
	}
	if given("retention-records", client.SetRetentionRecords) {
		set.RetentionRecords, err = parseLimit(s.retainCount, parseCount)
	}
	if given("retention-acked", client.SetRetentionAcked) {
		set.RetentionAcked = s.retainAcked
	}
	if given("max-record", client.SetMaxRecordBytes) {
		set.MaxRecordBytes, err = parseSize32("max-record", s.maxRecord)
	}
	if given("segment", client.SetSegmentBytes) {
		set.SegmentBytes, err = parseSize32("segment", s.segment)
	}
	if err == nil {
		err = set.Validate()
	}
	if err != nil {
		return set, usagef("%v", err)
	}
	return set, nil
}

func parseSize32(flag, s string) (uint32, error) {
	n, err := parseSize(s)
	if err == nil && n > 1<<32-1 {
		err = fmt.Errorf("--%s %s: too large", flag, s)
	}
	return uint32(n), err
}

// settingsRow shows settings under their flags' names.
func settingsRow(s *client.Settings) row {
	return row{
		{name: "storage", value: s.Storage.String()},
		{name: "durability", value: s.Durability.String()},
		{name: "interval_ms", value: s.IntervalMillis, text: showMillis(int64(s.IntervalMillis))},
		{name: "retention_time_ms", value: s.RetentionMillis, text: showLimit(s.RetentionMillis, showMillis)},
		{name: "retention_bytes", value: s.RetentionBytes, text: showLimit(s.RetentionBytes, func(n int64) string { return showBytes(uint64(n)) })},
		{name: "retention_records", value: s.RetentionRecords, text: showLimit(s.RetentionRecords, func(n int64) string { return showCount(uint64(n)) })},
		{name: "retention_acked", value: s.RetentionAcked},
		{name: "max_record_bytes", value: s.MaxRecordBytes, text: showBytes(uint64(s.MaxRecordBytes))},
		{name: "segment_bytes", value: s.SegmentBytes, text: showBytes(uint64(s.SegmentBytes))},
	}
}
