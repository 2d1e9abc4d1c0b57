package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// meter shows how fast it goes, on stderr: a line each second and one at the end, or a progress bar on a terminal when the
// total is known.
type meter struct {
	w       io.Writer
	quiet   bool
	bar     *progressbar.ProgressBar
	began   time.Time
	records atomic.Uint64 // acknowledged
	sent    atomic.Uint64 // bytes acknowledged, as sent
	input   atomic.Uint64 // bytes read
	ended   chan struct{}
	ticking sync.WaitGroup
}

func newMeter(w io.Writer, quiet bool, inputs []string) *meter {
	m := &meter{w: w, quiet: quiet, ended: make(chan struct{})}
	width, ok := terminal(w)
	if !ok || quiet {
		return m
	}
	if total := totalBytes(inputs); total > 0 {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(max(10, width/3)), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return m
}

func (m *meter) start() {
	m.began = time.Now()
	if m.quiet {
		return
	}
	m.ticking.Go(func() {
		period := time.Second
		if m.bar != nil {
			period = 100 * time.Millisecond
		}
		t := time.NewTicker(period)
		defer t.Stop()
		for {
			select {
			case <-m.ended:
				return
			case <-t.C:
				m.show()
			}
		}
	})
}

func (m *meter) show() {
	if m.bar != nil {
		m.bar.Set64(int64(m.input.Load()))
		return
	}
	m.line("")
}

func (m *meter) line(end string) {
	took := max(time.Since(m.began), time.Millisecond)
	records, input := m.records.Load(), m.input.Load()
	fmt.Fprintf(m.w, "%s%s records acknowledged, %s read, %s sent, %.1f s, %s records/s, %s/s\n", end, showCount(records), showBytes(input),
		showBytes(m.sent.Load()), took.Seconds(), showCount(uint64(float64(records)/took.Seconds())), showBytes(uint64(float64(input)/took.Seconds())))
}

// stop shows the last line, which says whether everything arrived.
func (m *meter) stop(failed bool) {
	close(m.ended)
	m.ticking.Wait()
	if m.quiet {
		return
	}
	if m.bar != nil {
		m.bar.Finish()
	}
	if failed {
		m.line("stopped: ")
		return
	}
	m.line("done: ")
}

func (m *meter) read(bytes int) { m.input.Add(uint64(bytes)) }

func (m *meter) acked(records, bytes int) {
	m.records.Add(uint64(records))
	m.sent.Add(uint64(bytes))
}

func (m *meter) done() uint64 { return m.records.Load() }
