package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are powers of 1024, with and without the i and the B.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}}

// parseSize reads "4096", "64k", "16MiB", "1GB". Units are powers of 1024.
func parseSize(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	t = strings.TrimSuffix(strings.TrimSuffix(t, "b"), "i")
	factor := int64(1)
	for _, u := range sizeUnits {
		if strings.HasSuffix(t, u.suffix) {
			t, factor = strings.TrimSuffix(t, u.suffix), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(t), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return 0, usagef("size %q: want a number with k, MiB, GiB or nothing, like 64k", s)
	}
	return n * factor, nil
}

// parseLimit is parseSize with "none" for no limit, which is -1.
func parseLimit(s string, parse func(string) (int64, error)) (int64, error) {
	if s == "none" || s == "-1" {
		return -1, nil
	}
	return parse(s)
}

// parseSpan reads a duration in milliseconds; days ("7d") on top of Go's units.
func parseSpan(s string) (int64, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n >= 0 {
			return n * 24 * 3600 * 1000, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, usagef("duration %q: want something like 500ms, 12h or 7d", s)
	}
	return d.Milliseconds(), nil
}

// parseCount reads a plain number.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, usagef("count %q: want a whole number", s)
	}
	return n, nil
}

// showBytes is for people: "1.5 MiB".
func showBytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if v /= 1 << 10; v < 1<<10 {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.1f TiB", v/(1<<10))
}

// showCount separates thousands: "2,900,000".
func showCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// showLimit is a retention for people.
func showLimit(n int64, show func(int64) string) string {
	if n < 0 {
		return "none"
	}
	return show(n)
}

func showMillis(n int64) string {
	const day = 24 * 3600 * 1000
	if n > 0 && n%day == 0 {
		return fmt.Sprintf("%dd", n/day)
	}
	return (time.Duration(n) * time.Millisecond).String()
}

// span is a flag's duration, with days.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

// Type is the word that help shows for the value.
func (s *span) Type() string { return "duration" }

// Set reads what parseSpan reads, and keeps what is below a millisecond.
func (s *span) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		*s = span(d)
		return nil
	}
	ms, err := parseSpan(text)
	if err != nil {
		return err
	}
	*s = span(time.Duration(ms) * time.Millisecond)
	return nil
}

// spanFlag makes a field a flag's value, with a default.
func spanFlag(field *time.Duration, otherwise time.Duration) *span {
	*field = otherwise
	return (*span)(field)
}
