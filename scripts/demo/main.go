// Command demo plays the broker's main job on real input and checks the outcome line for line.
//
// It starts slipringd on a fresh directory, streams every line of every Go file under GOROOT/src through "slipring
// produce" (keyed by file, durable), kills the broker with SIGKILL half way, starts it again, lets the same producer
// finish, reads everything back with "slipring consume" and compares each file's lines, in order, with the file. It prints
// counts, rates and the recovery time, and OK. It leaves no process, port or file behind.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	topic      = "demo.lines"
	partitions = "8"
)

func main() {
	var (
		bin    = flag.String("bin", "bin", "directory with slipringd and slipring")
		source = flag.String("source", "", "directory whose .go files are streamed, e.g. $(go env GOROOT)/src")
		data   = flag.String("data", ".demo", "directory for the broker's data; made fresh and removed at the end")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *source, *data); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("OK")
}

func run(ctx context.Context, bin, source, data string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills what still runs
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()

	in, err := list(source)
	if err != nil {
		return err
	}
	fmt.Printf("input      %d files, %d records, %.1f MB under %s\n", len(in.files), in.records, float64(in.bytes)/1e6, source)

	b := &broker{bin: bin, data: data, addr: "127.0.0.1:0"}
	defer b.kill()
	if _, err := b.start(ctx); err != nil {
		return err
	}
	if err := b.slipring(ctx, "topic", "create", topic, "--partitions", partitions); err != nil {
		return err
	}
	began := time.Now()
	recovery, err := produce(ctx, b, in)
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("recovery   %.2f s from start to serving after SIGKILL at half\n", recovery.Seconds())
	fmt.Printf("produced   %d records in %.1f s, outage included: %.0f records/s, %.1f MB/s\n", in.records, took.Seconds(), float64(in.records)/took.Seconds(), float64(in.bytes)/1e6/took.Seconds())

	began = time.Now()
	if err := compare(ctx, b, in); err != nil {
		return err
	}
	took = time.Since(began)
	fmt.Printf("consumed   %d records in %.1f s: %.0f records/s, %.1f MB/s; every line equal and in order\n", in.records, took.Seconds(), float64(in.records)/took.Seconds(), float64(in.bytes)/1e6/took.Seconds())
	return b.stop()
}

// input is what will be streamed: paths relative to root, and totals over all lines.
type input struct {
	root    string
	files   []string
	records int
	bytes   int64
}

func list(root string) (*input, error) {
	in := &input{root: root}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		n := countLines(text)
		in.files = append(in.files, rel)
		in.records += n
		in.bytes += int64(len(text))
		return nil
	})
	if err == nil && in.records == 0 {
		err = fmt.Errorf("no .go files under %s", root)
	}
	return in, err
}

func countLines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// produce streams all lines into one "slipring produce" and kills and restarts the broker when half are written.
func produce(ctx context.Context, b *broker, in *input) (recovery time.Duration, err error) {
	cmd := b.command(ctx, "produce", topic, "--key-separator", "\t", "--acks", "durable")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	recovery, err = feed(ctx, stdin, b, in)
	if closeErr := stdin.Close(); err == nil && closeErr != nil && !errors.Is(closeErr, fs.ErrClosed) {
		err = closeErr
	}
	if waitErr := cmd.Wait(); waitErr != nil {
		err = errors.Join(fmt.Errorf("slipring produce: %w", waitErr), err)
	}
	return recovery, err
}

func feed(ctx context.Context, to io.Writer, b *broker, in *input) (recovery time.Duration, err error) {
	w := bufio.NewWriterSize(to, 256<<10)
	written := 0
	for _, name := range in.files {
		text, err := os.ReadFile(filepath.Join(in.root, name))
		if err != nil {
			return 0, err
		}
		for len(text) > 0 {
			line := text
			if end := bytes.IndexByte(text, '\n'); end >= 0 {
				line, text = text[:end], text[end+1:]
			} else {
				text = nil
			}
			w.WriteString(name)
			w.WriteByte('\t')
			w.Write(line)
			if err := w.WriteByte('\n'); err != nil {
				return 0, err
			}
			if written++; written == in.records/2 {
				b.kill()
				if recovery, err = b.start(ctx); err != nil {
					return 0, err
				}
			}
		}
	}
	return recovery, w.Flush()
}

// compare reads the topic back and holds every record against the next line of the file that its key names.
func compare(ctx context.Context, b *broker, in *input) error {
	cmd := b.command(ctx, "consume", topic, "--from", "start", "-o", `%k\t%v\n`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	checkErr := check(bufio.NewReaderSize(out, 4<<20), in)
	if checkErr != nil {
		_ = cmd.Process.Kill()
	}
	if err := cmd.Wait(); checkErr == nil && err != nil {
		return fmt.Errorf("slipring consume: %w", err)
	}
	return checkErr
}

func check(r *bufio.Reader, in *input) error {
	rest := make(map[string][]byte, len(in.files)) // what of each file has not come yet
	for _, name := range in.files {
		text, err := os.ReadFile(filepath.Join(in.root, name))
		if err != nil {
			return err
		}
		rest[name] = text
	}
	records := 0
	var long []byte
	for {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long = append(long[:0], line...)
			for err == bufio.ErrBufferFull {
				line, err = r.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		if err == io.EOF && len(line) == 0 {
			break
		}
		if err != nil {
			return fmt.Errorf("reading record %d back: %w", records, err)
		}
		key, value, ok := bytes.Cut(line[:len(line)-1], []byte{'\t'})
		if !ok {
			return fmt.Errorf("record %d came back without a key", records)
		}
		text, ok := rest[string(key)]
		if !ok {
			return fmt.Errorf("record %d came back with key %q, which was never sent", records, key)
		}
		want, tail, _ := bytes.Cut(text, []byte{'\n'})
		if len(text) == 0 {
			return fmt.Errorf("%s: came back with more lines than it has; next %.60q", key, value)
		}
		if !bytes.Equal(value, want) {
			return fmt.Errorf("%s: came back with %.60q where %.60q was sent", key, value, want)
		}
		rest[string(key)] = tail
		records++
	}
	for _, name := range in.files {
		if len(rest[name]) > 0 {
			return fmt.Errorf("%s: %d lines did not come back", name, countLines(rest[name]))
		}
	}
	if records != in.records {
		return fmt.Errorf("%d records came back of %d", records, in.records)
	}
	return nil
}

// broker is the slipringd process; after the first start it keeps its address.
type broker struct {
	bin, data, addr string
	cmd             *exec.Cmd
}

// start runs slipringd and returns how long it took until it served.
func (b *broker) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "slipringd"), "--listen", b.addr, "--data", b.data)
	cmd.Stderr = &quietLog{}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	b.cmd = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return 0, fmt.Errorf("slipringd did not start: %s", cmd.Stderr)
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if _, _, splitErr := net.SplitHostPort(addr); !ok || splitErr != nil {
		return 0, fmt.Errorf("slipringd said %q", line)
	}
	b.addr = addr
	return time.Since(began), nil
}

func (b *broker) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

func (b *broker) stop() error {
	cmd := b.cmd
	b.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("slipringd did not stop cleanly: %w: %s", err, cmd.Stderr)
	}
	return nil
}

func (b *broker) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(b.bin, "slipring"), append([]string{"--addr", b.addr}, args...)...)
}

func (b *broker) slipring(ctx context.Context, args ...string) error {
	if out, err := b.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("slipring %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// quietLog keeps the last bytes of the broker's log for an error message.
type quietLog struct{ tail []byte }

func (q *quietLog) Write(p []byte) (int, error) {
	q.tail = append(q.tail, p...)
	q.tail = q.tail[max(0, len(q.tail)-2048):]
	return len(p), nil
}

func (q *quietLog) String() string { return string(q.tail) }
