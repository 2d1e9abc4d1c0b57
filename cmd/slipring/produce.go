package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipringmq/slipring/client"
)

type produceFlags struct {
	keySeparator string
	separator    []byte // keySeparator with its escapes read
	key          string
	fileKey      bool
	filesFrom    string
	headers      []string
	acks         string
	compression  string
	partition    int
	linger       time.Duration
	batchBytes   string
	quiet        bool
}

func newProduce(a *app) *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Send each line of stdin or of files as a record",
		Long: "produce sends each line as one record; the payload is the line without its newline, byte for byte. It ends when every\n" +
			"record is acknowledged, and fails when one is not. Broken connections and restarts of the broker are ridden out, up\n" +
			"to 2 minutes per record, without loss and without doubles.",
		Example: "  slipring produce orders < lines.txt\n" +
			"  tail -f app.log | slipring produce logs --acks leader\n" +
			"  find . -name '*.go' | slipring produce source --files-from - --file-key\n" +
			"  printf 'k1:v1\\nk2:v2\\n' | slipring produce kv --key-separator : -H source=shell",
		Args:              atLeastTopic,
		ValidArgsFunction: a.completeTopic,
	}
	fl := c.Flags()
	fl.StringVarP(&f.keySeparator, "key-separator", "K", "", "key and payload of a line are separated by the first of these; a line without has no key; \\t, \\n, \\0, \\xHH are read as in -o of consume")
	fl.StringVar(&f.key, "key", "", "key of every record")
	fl.BoolVar(&f.fileKey, "file-key", false, "the key of each record is the name of the file it comes from")
	fl.StringVar(&f.filesFrom, "files-from", "", "read names of input files, one a line, from this `FILE`; - is stdin")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "header `K=V` of every record; may be repeated")
	fl.StringVar(&f.acks, "acks", "", "none, leader or durable; default the strongest that the topic offers")
	fl.StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	fl.IntVar(&f.partition, "partition", -1, "send to this partition; default by hash of the key")
	fl.Var(spanFlag(&f.linger, 5*time.Millisecond), "linger", "how long records gather into a batch")
	fl.StringVar(&f.batchBytes, "batch-bytes", "256KiB", "size of a batch before compression, at most 1MiB")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no rate lines on stderr")
	c.RegisterFlagCompletionFunc("acks", cobra.FixedCompletions([]string{"none", "leader", "durable"}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = command(func(ctx context.Context, args []string) error {
		o, r, err := f.options()
		if err != nil {
			return err
		}
		inputs, err := a.inputs(args[1:], &f)
		if err != nil {
			return err
		}
		return a.with(ctx, func(cl *client.Client) error {
			return a.produce(ctx, cl, args[0], o, r, &f, inputs)
		})
	})
	return c
}

// options turns flags into a producer's options and the record that all records begin as.
func (f *produceFlags) options() (o client.ProducerOptions, r client.Record, err error) {
	if o.Acks, err = client.ParseAcks(f.acks); err != nil {
		return o, r, usagef("--%v", err)
	}
	if f.separator, err = unescape("--key-separator", f.keySeparator); err != nil {
		return o, r, err
	}
	codec, ok := client.ParseCodec(f.compression)
	if !ok {
		return o, r, usagef("--compression %q: want none, gzip, snappy, lz4 or zstd", f.compression)
	}
	size, err := parseSize(f.batchBytes)
	if err != nil {
		return o, r, err
	}
	o.Compression, o.Linger, o.BatchBytes = codec, f.linger, int(min(size, 1<<20))
	if f.partition >= 0 {
		r.Partition = uint32(f.partition)
		o.Partitioner = client.Explicit()
	}
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return o, r, usagef("-H %q: want K=V", h)
		}
		r.Headers = append(r.Headers, client.Header{Key: k, Value: []byte(v)})
	}
	if f.key != "" {
		r.Key = []byte(f.key)
	}
	if n := count(f.key != "", f.fileKey, f.keySeparator != ""); n > 1 {
		return o, r, usagef("--key, --file-key and --key-separator exclude each other")
	}
	return o, r, nil
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// inputs gives the names to read, "-" for stdin.
func (a *app) inputs(files []string, f *produceFlags) ([]string, error) {
	if f.filesFrom == "" {
		if len(files) == 0 {
			files = []string{"-"}
		}
		if f.fileKey && files[0] == "-" {
			return nil, usagef("--file-key needs files, not stdin")
		}
		return files, nil
	}
	list, close, err := a.open(f.filesFrom)
	if err != nil {
		return nil, err
	}
	defer close()
	lines := newLineReader(list, 64<<10)
	for {
		line, err := lines.next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("--files-from %s: %w", f.filesFrom, err)
		}
		if len(line) > 0 {
			files = append(files, string(line))
		}
	}
}

func (a *app) open(name string) (io.Reader, func(), error) {
	if name == "-" {
		return a.stdin, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// closeWithin is how long an interrupted produce waits for what is under way.
const closeWithin = 5 * time.Second

func (a *app) produce(ctx context.Context, cl *client.Client, topic string, o client.ProducerOptions, r client.Record, f *produceFlags, inputs []string) error {
	m := newMeter(a.stderr, f.quiet, inputs)
	feeding, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &delivery{meter: m, stop: stop}
	o.OnBatch = d.note
	p, err := cl.Producer(ctx, topic, o)
	if err != nil {
		return err
	}
	m.start()
	feedErr := a.feed(feeding, p, r, f, inputs, m)

	closing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeWithin, cancel) })() // the signal may come while Close waits
	closeErr := p.Close(closing)
	m.stop(d.err() != nil || ctx.Err() != nil || feedErr != nil || closeErr != nil)
	switch {
	case d.err() != nil:
		return fmt.Errorf("%d records were not acknowledged: %w", d.lost(), d.err())
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted; all %s records read so far are acknowledged", showCount(m.done()))
	case feedErr != nil:
		return feedErr
	}
	return closeErr
}

// feed reads all inputs into the producer.
func (a *app) feed(ctx context.Context, p *client.Producer, r client.Record, f *produceFlags, inputs []string, m *meter) error {
	separator := f.separator
	for _, name := range inputs {
		in, close, err := a.open(name)
		if err != nil {
			return err
		}
		if f.fileKey {
			r.Key = []byte(name)
		}
		lines := newLineReader(&contextReader{ctx: ctx, r: in}, p.MaxRecordBytes())
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			if err == nil {
				r.Value = line
				if len(separator) > 0 {
					r.Key, r.Value = splitKey(line, separator)
				}
				err = p.Produce(ctx, &r, nil)
			}
			if err != nil {
				close()
				return fmt.Errorf("%s: %w", inputName(name), err)
			}
			m.read(len(line) + 1)
		}
		close()
	}
	return nil
}

func splitKey(line, separator []byte) (key, value []byte) {
	before, after, found := bytes.Cut(line, separator)
	if !found {
		return nil, line
	}
	return before, after
}

func inputName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// contextReader stops reading when ctx is done. A read that waits for a terminal or a pipe is left behind: its goroutine
// ends with the process.
type contextReader struct {
	ctx context.Context
	r   io.Reader
	own []byte // the read that may be left behind fills this
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	if f, ok := c.r.(*os.File); !ok || !waits(f) {
		return c.r.Read(p)
	}
	if c.own == nil {
		c.own = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	own, done := c.own[:min(len(p), len(c.own))], make(chan result, 1)
	go func() {
		n, err := c.r.Read(own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		copy(p, own[:r.n])
		return r.n, r.err
	case <-c.ctx.Done():
		return 0, context.Cause(c.ctx)
	}
}

// waits says whether reading may wait for somebody to write.
func waits(f *os.File) bool {
	info, err := f.Stat()
	return err != nil || !info.Mode().IsRegular()
}

// totalBytes is the size of the inputs, 0 when not all are plain files.
func totalBytes(inputs []string) (total int64) {
	for _, name := range inputs {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

// delivery counts what was acknowledged. note is called from several goroutines.
type delivery struct {
	meter *meter
	stop  context.CancelCauseFunc // called by the first failure: reading on would only lose more

	mu     sync.Mutex
	first  error
	missed uint64
}

func (d *delivery) note(b client.BatchResult) {
	if b.Err == nil {
		d.meter.acked(b.Records, b.Bytes)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missed += uint64(b.Records)
	if d.first == nil {
		d.first = b.Err
		d.stop(b.Err)
	}
}

func (d *delivery) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first
}

func (d *delivery) lost() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missed
}
