package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// cli runs command lines against a broker.
type cli struct {
	t    *testing.T
	addr string
}

// newCLI starts a broker for the test.
func newCLI(t *testing.T) *cli {
	t.Helper()
	cfg := slipring.DefaultConfig()
	cfg.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Data = t.TempDir()
	cfg.Pin = false
	cfg.Buffered = true
	cfg.MemoryLimit = 256 << 20
	b, err := slipring.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &cli{t, b.Addr().String()}
}

// run gives exit status, stdout and stderr.
func (c *cli) run(stdin string, args ...string) (int, string, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.runIn(ctx, strings.NewReader(stdin), args...)
}

func (c *cli) runIn(ctx context.Context, stdin io.Reader, args ...string) (int, string, string) {
	var out, errs bytes.Buffer
	code := run(ctx, append([]string{"--addr", c.addr}, args...), stdin, &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that has to succeed and gives its stdout.
func (c *cli) must(stdin string, args ...string) string {
	c.t.Helper()
	code, out, errs := c.run(stdin, args...)
	if code != 0 {
		c.t.Fatalf("slipring %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func TestTopicsFromCreationToRemoval(t *testing.T) {
	c := newCLI(t)
	golden(t, "ls_empty", c.must("", "topic", "ls"))
	golden(t, "ls_empty_json", c.must("", "topic", "ls", "-o", "json"))
	golden(t, "create", c.must("", "topic", "create", "orders.eu", "--partitions", "2", "--retention-time", "7d", "--max-record", "1MiB"))
	c.must("", "topic", "create", "ticks", "--storage", "none")
	for _, f := range []string{"table", "json", "yaml"} {
		golden(t, "ls_"+f, c.must("", "topic", "ls", "-o", f))
		golden(t, "info_"+f, c.must("", "topic", "info", "orders.eu", "-o", f))
	}
	golden(t, "ls_prefix", c.must("", "topic", "ls", "--prefix", "ord"))
	golden(t, "set", c.must("", "topic", "set", "orders.eu", "--retention-time", "none", "--retention-bytes", "1GiB"))

	code, out, errs := c.run("", "topic", "rm", "orders.eu")
	if code != exitRefused || out != "" {
		t.Fatalf("exit %d, %q", code, out)
	}
	golden(t, "rm_refused", errs)
	golden(t, "rm", c.must("", "topic", "rm", "orders.eu", "--yes"))
	if code, _, errs = c.run("", "topic", "info", "orders.eu"); code != exitFailed || strings.Count(errs, "\n") != 1 {
		t.Fatalf("exit %d: %s", code, errs)
	}
}

// What goes in comes out, byte for byte.
func TestProduceAndConsumeRaw(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	in := "plain\n\nwith spaces \r\n\xff\xfe not UTF-8\n" + strings.Repeat("long ", 300_000) + "\nno newline at the end"
	c.must(in, "produce", "a")
	if got := c.must("", "consume", "a"); got != in+"\n" {
		t.Fatalf("%d bytes came out, %d went in", len(got), len(in)+1)
	}
}

func TestProduceOptions(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a", "--partitions", "3")
	c.must("k1:v1\nnokey\nk2:v:2\n", "produce", "a", "-K", ":", "--partition", "1", "-H", "source=test", "-H", "n=1", "--compression", "zstd")
	if got, want := c.must("", "consume", "a", "--partition", "1", "-o", `%p/%o %k=%v %S [%h] %t\n`),
		"1/0 k1=v1 2 [source=test,n=1] a\n1/1 =nokey 5 [source=test,n=1] a\n1/2 k2=v:2 3 [source=test,n=1] a\n"; got != want {
		t.Fatalf("got %q", got)
	}
	if got := c.must("", "consume", "a", "--partition", "0", "--partition", "2"); got != "" {
		t.Fatalf("got %q", got)
	}
}

// The key of each line is its file, names come from a list, lines of a file stay in order.
func TestProduceFilesKeyedByName(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a", "--partitions", "4")
	dir := t.TempDir()
	var list string
	want := map[string]string{}
	for i := range 20 {
		name := filepath.Join(dir, fmt.Sprintf("f%d", i))
		for n := range 100 {
			want[name] += fmt.Sprintf("%d line %d\n", i, n)
		}
		if err := os.WriteFile(name, []byte(want[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		list += name + "\n"
	}
	c.must(list, "produce", "a", "--files-from", "-", "--file-key", "--quiet")
	got := map[string]string{}
	for line := range strings.Lines(c.must("", "consume", "a", "-o", `%k\t%v\n`)) {
		k, v, _ := strings.Cut(line, "\t")
		got[k] += v
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s: %d bytes, want %d", k, len(got[k]), len(v))
		}
	}
}

func TestConsumePositionsAndCounts(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	c.must("0\n1\n2\n3\n4\n", "produce", "a")
	for args, want := range map[string]string{
		"--from start":                     "0\n1\n2\n3\n4\n",
		"--from offset:3":                  "3\n4\n",
		"--from offset:5":                  "",
		"--from time:2020-01-01T00:00:00Z": "0\n1\n2\n3\n4\n",
		"--from time:-1h -n 1":             "0\n",
		"--count 2":                        "0\n1\n",
		"--from offset:1 --count 2":        "1\n2\n",
	} {
		if got := c.must("", append([]string{"consume", "a"}, strings.Fields(args)...)...); got != want {
			t.Errorf("%s: got %q", args, got)
		}
	}
	code, out, errs := c.run("", "consume", "a", "--from", "offset:99")
	if code != exitFailed || out != "" || !strings.Contains(errs, "--from offset:0") || strings.Count(errs, "\n") != 1 {
		t.Errorf("out of range: exit %d, %q, %q", code, out, errs)
	}
}

func TestConsumeJSON(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	c.must("k|text \"quoted\"\n\xff|\x00\xfe\n", "produce", "a", "-K", "|", "-H", "h=\xfd")
	out := c.must("", "consume", "a", "-o", "json")
	var lines []map[string]any
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		delete(m, "time_ms")
		delete(m, "append_time_ms")
		lines = append(lines, m)
	}
	got, _ := json.MarshalIndent(lines, "", "  ")
	golden(t, "consume_json", string(got)+"\n")
}

// --follow shows records as they come, and a signal is its proper end.
func TestFollowAndSubscribeEndWithASignal(t *testing.T) {
	for _, verb := range [][]string{{"consume", "a", "--follow"}, {"subscribe", "a", "--from", "start"}} {
		t.Run(verb[0], func(t *testing.T) {
			c := newCLI(t)
			c.must("", "topic", "create", "a")
			c.must("0\n", "produce", "a")
			ctx, signal := context.WithCancel(context.Background())
			defer signal()
			r, w := io.Pipe()
			ended := make(chan int)
			go func() {
				code := run(ctx, append([]string{"--addr", c.addr}, verb...), strings.NewReader(""), w, io.Discard)
				w.Close()
				ended <- code
			}()
			lines := newLineReader(r, 100)
			for _, want := range []string{"0", "1"} {
				if got, err := lines.next(); err != nil || string(got) != want {
					t.Fatalf("got %q, %v", got, err)
				}
				c.must("1\n", "publish", "a")
			}
			signal()
			go io.Copy(io.Discard, r)
			if code := <-ended; code != exitDone {
				t.Fatalf("exit %d", code)
			}
		})
	}
}

func TestPublishPrintsWhereItWent(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a", "--partitions", "2")
	if got := c.must("", "publish", "a", "x", "y", "--partition", "1", "--key", "k"); got != "1/0\n1/1\n" {
		t.Fatalf("got %q", got)
	}
	if got := c.must("", "publish", "a", "z", "--acks", "none", "--partition", "0"); got != "" {
		t.Fatalf("got %q", got)
	}
	if got := c.must("", "consume", "a", "--partition", "1", "-o", `%k:%v\n`); got != "k:x\nk:y\n" {
		t.Fatalf("got %q", got)
	}
}

func TestExitStatusOfWrongUsage(t *testing.T) {
	c := newCLI(t)
	for _, line := range []string{
		"nosuch", "topic nosuch", "topic ls extra", "topic create", "topic create a b", "topic create a --nosuch",
		"topic create a --durability sometimes", "topic create a --retention-time soon", "topic create a --segment 1", "topic create a --partitions 0",
		"topic set a", "topic ls -o xml", "produce", "produce a --acks all", "produce a --compression rar", "produce a -H nope",
		"produce a --key k --file-key", "produce a --file-key", "consume a -o nothing", "consume a -o %y", "consume a --from yesterday", "consume a --from end",
		"bench nosuch", "bench durable -o xml", "bench wire --floor onlyone", "version extra", "topic ls --addr nohost", "bench durable --addr nohost",
	} {
		code, out, errs := c.run("", strings.Fields(line)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "slipring: ") || out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, out, errs)
		}
	}
}

func TestFailuresAreOneLineAndSayWhatToDo(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a", "--max-record", "1KiB")
	for line, want := range map[string]string{
		"topic info none":             "topic",
		"topic create a":              "exists",
		"consume none":                "create it",
		"produce none":                "create it",
		"produce a /nonexistent/file": "/nonexistent/file",
		"--addr 127.0.0.1:1 --timeout 100ms topic ls": "start slipringd",
		"produce a testdata/long --linger 1ms":        "line 2",
	} {
		code, out, errs := c.run("", strings.Fields(line)...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		last := lines[len(lines)-1] // produce shows its rate before
		if code != exitFailed || !strings.Contains(last, want) || out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, out, errs)
		}
	}
}

// The rate line at the end counts every record.
func TestProduceShowsItsRate(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	_, _, errs := c.run("1\n2\n3\n", "produce", "a")
	if !strings.HasPrefix(errs, "done: 3 records acknowledged, 6 B read, ") || strings.Count(errs, "\n") != 1 {
		t.Fatalf("got %q", errs)
	}
	if _, _, errs = c.run("1\n", "produce", "a", "-q"); errs != "" {
		t.Fatalf("quiet says %q", errs)
	}
}

// An interrupted produce says how far it came, and that much is stored.
func TestProduceInterrupted(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, signal := context.WithCancel(context.Background())
	type result struct {
		code int
		errs string
	}
	ended := make(chan result)
	go func() {
		code, _, errs := c.runIn(ctx, r, "produce", "a", "-q", "--linger", "0")
		ended <- result{code, errs}
	}()
	fmt.Fprint(w, "0\n1\n")
	for c.must("", "consume", "a") != "0\n1\n" {
		time.Sleep(time.Millisecond) // until both are stored
	}
	signal()
	if got := <-ended; got.code != exitFailed || !strings.Contains(got.errs, "all 2 records read so far are acknowledged") {
		t.Fatalf("exit %d: %s", got.code, got.errs)
	}
}

// Every command explains itself with an example.
func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" || !strings.Contains(c.Example, "slipring") {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for _, sub := range c.Commands() {
			if n := sub.Name(); n != "help" && n != "completion" {
				walk(sub)
			}
		}
	}
	walk(newRoot(&app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}))
}

func TestCompletion(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "orders")
	c.must("", "topic", "create", "other")
	out := c.must("", "__complete", "consume", "or")
	if lines := strings.Split(out, "\n"); !slices.Contains(lines, "orders") || slices.Contains(lines, "other") {
		t.Fatalf("got %q", out)
	}
	// Without a broker: nothing, and quickly.
	dead := &cli{t, "127.0.0.1:1"}
	start := time.Now()
	if out := dead.must("", "__complete", "consume", ""); strings.Contains(out, "orders") || time.Since(start) > time.Second {
		t.Fatalf("got %q after %v", out, time.Since(start))
	}
	if out := c.must("", "completion", "bash"); !strings.Contains(out, "bash completion") {
		t.Fatal("no bash completion")
	}
}

func TestBench(t *testing.T) {
	c := newCLI(t)
	for _, line := range []string{
		"bench wire --duration 200ms --warmup 50ms",
		"bench durable --count 20",
		"bench durable --count 20 --raw",
		"bench durable --connections 4 --partitions 2 --duration 200ms --warmup 0s --rate 200",
		"bench stream --duration 200ms --warmup 50ms --connections 2 --compression lz4",
		"bench stream --count 5000 --rate 50000",
		"bench replay --count 20000 --partitions 3",
	} {
		var r struct {
			Mode    string
			Records uint64
			Latency *struct {
				P50 float64
				Max float64
			} `json:"latency_us"`
		}
		out := c.must("", append(strings.Fields(line), "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		timed := strings.Contains(line, "durable") || strings.Contains(line, "stream")
		if r.Records == 0 || timed && (r.Latency == nil || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P50) {
			t.Errorf("%s: %s", line, out)
		}
	}
	if out := c.must("", "topic", "ls", "--prefix", "bench"); strings.Count(out, "\n") != 1 {
		t.Errorf("left behind: %s", out)
	}
	if out := c.must("", "bench", "durable", "--count", "5"); !strings.Contains(out, "p99.9") || !strings.Contains(out, "Linux") {
		t.Errorf("got %s", out)
	}
}

// A command that begins before its broker listens waits for it, says so after a while, and then works.
func TestWaitsForABrokerThatIsStarting(t *testing.T) {
	front := later(t)
	c := &cli{t, front.addr}
	var errs lockedBuffer
	ended := make(chan int)
	go func() {
		ended <- run(context.Background(), []string{"--addr", c.addr, "topic", "create", "a"}, strings.NewReader(""), io.Discard, &errs)
	}()
	for !strings.Contains(errs.String(), "slipring: waiting for a broker at "+c.addr+"\n") {
		select {
		case code := <-ended:
			t.Fatalf("exit %d before there was a broker: %s", code, errs.String())
		case <-time.After(time.Millisecond):
		}
	}
	front.start(newCLI(t).addr)
	if code := <-ended; code != exitDone {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
}

// Without a broker a command ends after --timeout, and names the address and what to do.
func TestGivesUpWaitingAfterTimeout(t *testing.T) {
	c := &cli{t, "127.0.0.1:1"}
	begun := time.Now()
	code, _, errs := c.run("", "topic", "ls", "--timeout", "200ms")
	if took := time.Since(begun); code != exitFailed || took < 200*time.Millisecond || took > 5*time.Second ||
		!strings.Contains(errs, "127.0.0.1:1") || !strings.Contains(errs, "refused") || !strings.Contains(errs, "start slipringd") {
		t.Errorf("exit %d after %v: %s", code, took, errs)
	}
}

// The same key takes publish and produce to the same partition.
func TestPublishRoutesByKeyAsProduceDoes(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a", "--partitions", "8")
	for i := range 10 {
		key := fmt.Sprint("key", i)
		c.must("produced\n", "produce", "a", "--key", key, "-q")
		c.must("", "publish", "a", "published", "--key", key)
		where := map[string]bool{}
		for line := range strings.Lines(c.must("", "consume", "a", "-o", `%k %p\n`)) {
			if k, p, _ := strings.Cut(line, " "); k == key {
				where[p] = true
			}
		}
		if len(where) != 1 {
			t.Errorf("%s is in %d partitions", key, len(where))
		}
	}
}

// A payload above what PUBLISH takes is refused with the command that takes it.
func TestPublishNamesProduceForLargePayloads(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	big := strings.Repeat("x", 70_000)
	for _, x := range []struct {
		stdin string
		args  []string
	}{{big, []string{"publish", "a"}}, {"", []string{"publish", "a", big}}} {
		code, _, errs := c.run(x.stdin, x.args...)
		if code != exitFailed || !strings.Contains(errs, "slipring produce") || !strings.Contains(errs, "655") || strings.Contains(errs, "max-record") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}

// What the command line asks for and the broker does not have is wrong usage too, and aliases are commands.
func TestWrongUsageFoundByTheBroker(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	for line, want := range map[string]string{
		"consume a --partition 7":               "partition 7",
		"publish a x --partition 7":             "partition 7",
		"produce a -q --partition 3 testdata/x": "partition 3",
		"topic lst":                             "did you mean slipring topic ls?",
		"topci ls":                              "did you mean slipring topic?",
		"produce a -K \\q":                      "\\q",
	} {
		if code, _, errs := c.run("", strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", line, code, errs)
		}
	}
	if got := c.must("", "topic", "list"); got != c.must("", "topic", "ls") {
		t.Errorf("got %s", got)
	}
	if got := c.must("", "--version"); !strings.Contains(got, "slipring version ") {
		t.Errorf("got %s", got)
	}
}

// A topic that is not there is named in the words of the command that was typed.
func TestNoSuchTopicInTheWordsOfTheCommand(t *testing.T) {
	c := newCLI(t)
	for line, want := range map[string]string{
		"topic set nope --retention-time 7d": "slipring: topic set nope: no such topic; slipring topic ls lists all\n",
		"topic rm nope":                      "slipring: topic rm nope: no such topic; slipring topic ls lists all\n",
		"publish nope x":                     "slipring: publish nope: no such topic; create it with slipring topic create nope\n",
		"produce nope":                       "slipring: produce nope: no such topic; create it with slipring topic create nope\n",
		"consume nope":                       "slipring: consume nope: no such topic; create it with slipring topic create nope\n",
	} {
		if code, _, errs := c.run("", strings.Fields(line)...); code != exitFailed || errs != want {
			t.Errorf("%s: exit %d: %s", line, code, errs)
		}
	}
}

// The separator of keys takes the escapes that -o takes, so that one command reads what the other wrote.
func TestKeySeparatorTakesEscapes(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	for _, x := range [][2]string{{`\t`, "k\tv\n"}, {`\x1f`, "k\x1fv\n"}, {`\0`, "k\x00v\n"}, {`:`, "k:v\n"}} {
		c.must(x[1], "produce", "a", "-q", "-K", x[0])
	}
	if got := c.must("", "consume", "a", "-o", `%k=%v\n`); got != strings.Repeat("k=v\n", 4) {
		t.Errorf("got %q", got)
	}
}

// A produce that fails does not say that it is done.
func TestProduceThatFailsStopped(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "a")
	if _, _, errs := c.run("", "produce", "a", "/nonexistent/file"); !strings.HasPrefix(errs, "stopped: 0 records") {
		t.Errorf("got %q", errs)
	}
}

// A setting that topic set leaves alone has no default in its help.
func TestHelpOfSetShowsNoDefaults(t *testing.T) {
	c := &cli{t, "127.0.0.1:1"}
	help := c.must("", "topic", "set", "--help")
	own, _, _ := strings.Cut(help, "Global Flags")
	if strings.Contains(own, "(default") || !strings.Contains(own, "cannot be changed") {
		t.Errorf("got %s", own)
	}
}

func TestConsumeOfATopicThatKeepsNothingNamesSubscribe(t *testing.T) {
	c := newCLI(t)
	c.must("", "topic", "create", "ticks", "--storage", "none")
	for _, args := range [][]string{{"consume", "ticks"}, {"consume", "ticks", "--follow"}} {
		if code, out, errs := c.run("", args...); code != exitFailed || out != "" || !strings.Contains(errs, "slipring subscribe ticks") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}

func TestCreateIfNotExists(t *testing.T) {
	c := newCLI(t)
	for _, want := range []string{"created a", "a exists"} {
		if got := c.must("", "topic", "create", "a", "--if-not-exists"); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDurationsTakeDaysAndNeedAUnit(t *testing.T) {
	c := &cli{t, "127.0.0.1:1"}
	for flag, want := range map[string]string{"5": "500ms, 12h or 7d", "-1s": "500ms, 12h or 7d"} {
		if code, _, errs := c.run("", "topic", "ls", "--timeout", flag); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", flag, code, errs)
		}
	}
	var s span
	if err := s.Set("1d"); err != nil || time.Duration(s) != 24*time.Hour {
		t.Errorf("got %v, %v", time.Duration(s), err)
	}
}
