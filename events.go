package slipring

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
)

// events carries a shard's reports to the log on a goroutine of its own, so that a slow log writer never holds a shard.
// When it falls behind by eventsMax, further events are dropped and counted.
type events struct {
	log     *slog.Logger
	queue   chan event
	dropped atomic.Uint64
	done    sync.WaitGroup
}

const eventsMax = 1024

type event struct {
	level slog.Level
	name  string
	args  []any
}

func newEvents(log *slog.Logger) *events {
	e := &events{log: log, queue: make(chan event, eventsMax)}
	e.done.Go(e.write)
	return e
}

// report is shard.Config.Report. It never waits.
func (e *events) report(level, name string, args ...any) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelError
	}
	select {
	case e.queue <- event{l, name, args}:
	default:
		e.dropped.Add(1)
	}
}

func (e *events) write() {
	for ev := range e.queue {
		if n := e.dropped.Swap(0); n > 0 {
			e.log.Warn("events were dropped, the log is slower than they come", "event", "log.dropped", "count", n)
		}
		e.log.Log(context.Background(), ev.level, ev.name, named(ev)...)
	}
}

// named gives the attributes of an event, with event= first: a shard's reports are their own names, "partition fenced" is
// event=partition.fenced.
func named(ev event) []any {
	for i := 0; i < len(ev.args); i += 2 {
		if ev.args[i] == "event" {
			return ev.args
		}
	}
	return append([]any{"event", strings.ReplaceAll(strings.NewReplacer(":", "", ",", "").Replace(ev.name), " ", ".")}, ev.args...)
}

// close writes what is queued; nothing may be reported after it.
func (e *events) close() {
	close(e.queue)
	e.done.Wait()
}
