package disk

import "github.com/slipringmq/slipring/frame/batch"

// StartFor is the log start that leaves as few whole segments as hold at least bytes: where retention by bytes may trim
// to. Cost: one step a segment.
func (l *Log) StartFor(bytes int64) batch.Offset {
	start, held := l.logStart, l.Bytes()
	for i := 0; i < len(l.segments)-1; i++ {
		g := l.segments[i]
		if held -= int64(g.length - g.start); held < bytes {
			break
		}
		start = max(start, g.end)
	}
	return start
}
