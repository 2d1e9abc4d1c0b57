package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/slipringmq/slipring/client"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 600_000) // more than the reader's buffer
	for in, want := range map[string][]string{
		"":                          nil,
		"\n":                        {""},
		"a":                         {"a"},
		"a\nb\n":                    {"a", "b"},
		"a\r\n\n":                   {"a\r", ""},
		long + "\nb":                {long, "b"},
		"a\n" + long:                {"a", long},
		strings.Repeat("y\n", 5000): slices.Repeat([]string{"y"}, 5000),
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			lines := newLineReader(r, len(long))
			var got []string
			for {
				line, err := lines.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%.20q: %d lines, want %d", in, len(got), len(want))
			}
		}
	}
	for _, n := range []int{11, 300_000, 600_001} {
		lines := newLineReader(strings.NewReader("fine\n"+strings.Repeat("x", n)+"\n"), 10)
		lines.next()
		if _, err := lines.next(); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	broken := errors.New("broken")
	if _, err := newLineReader(iotest.ErrReader(broken), 10).next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestSizesAndSpans(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "4096": 4096, "64k": 64 << 10, "16MiB": 16 << 20, "1GB": 1 << 30, "2 t": 2 << 40, "3K": 3 << 10} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "k", "-1", "1.5k", "9999999999t", "1x"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%s: %d", in, got)
		}
	}
	for in, want := range map[string]int64{"7d": 604_800_000, "12h": 43_200_000, "250ms": 250} {
		if got, err := parseSpan(in); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "d", "-1d", "soon", "-5s"} {
		if got, err := parseSpan(in); err == nil {
			t.Errorf("%s: %d", in, got)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 2_900_000: "2,900,000"} {
		if got := showCount(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 3 << 40: "3.0 TiB"} {
		if got := showBytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestTemplates(t *testing.T) {
	r := &client.Record{Key: []byte("k"), Value: []byte("v\xff"), Partition: 3, Offset: 42, UnixMillis: 7,
		Headers: []client.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}}
	for in, want := range map[string]string{
		"raw":             "v\xff\n",
		`%v`:              "v\xff",
		`%s/%S/%V`:        "v\xff/2/2",
		`%k %K %h\n`:      "k 1 a=1,b=\n",
		`%t-%p-%o-%T`:     "top-3-42-7",
		`100%% é\t\r\\\0`: "100% é\t\r\\\x00",
		`%o`:              "42",
		"%p\n":            "3\n",
	} {
		p, err := parseOutput(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(p(nil, "top", r)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{"", "plain", "%", `\`, "%y", `\q`, "%v%"} {
		if _, err := parseOutput(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
	p, _ := parseOutput(`%K`)
	if got := string(p(nil, "", &client.Record{})); got != "-1" {
		t.Errorf("length of no key: %s", got)
	}
}

func TestFrom(t *testing.T) {
	now := time.Unix(1000, 0)
	for in, want := range map[string]client.Position{
		"start": client.FromStart(), "end": client.FromEnd(), "offset:17": client.FromOffset(17),
		"time:2026-01-02T03:04:05Z": client.FromTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		"time:1764600000000":        client.FromTime(time.UnixMilli(1764600000000)), "time:-10s": client.FromTime(time.Unix(990, 0)),
		"time:2026-11-29": client.FromTime(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)), "time:-1d": client.FromTime(now.Add(-24 * time.Hour)),
	} {
		if got, err := parseFrom(in, now); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "middle", "offset:", "offset:-1", "offset:x", "time:", "time:10m", "time:1764600000", "time:yesterday"} {
		if _, err := parseFrom(in, now); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestListingsInEachFormat(t *testing.T) {
	rows := []row{
		{{name: "name", value: "a: \"b\""}, {name: "bytes", value: uint64(2048), text: "2.0 KiB"}, {name: "parts", value: []row{{{name: "n", value: 1}, {name: "ok", value: true}}}}},
		{{name: "name", value: ""}, {name: "bytes", value: uint64(0)}, {name: "parts", value: []row{}}},
	}
	for _, f := range []format{"json", "yaml"} {
		var out strings.Builder
		if err := f.list(&out, nil, rows); err != nil {
			t.Fatal(err)
		}
		golden(t, "rows_"+string(f), out.String())
	}
}
