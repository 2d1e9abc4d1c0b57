package disk

import (
	"strconv"
	"strings"

	"github.com/slipringmq/slipring/frame/batch"
)

// sweep removes what earlier starts left in the log's directory and no entry names: files made ahead of a crash, void
// direct writes, segments whose removal a crash cut short. It runs once a start, when the log makes its first file.
func (l *Log) sweep() {
	if l.swept || l.fenced != nil || l.replaying {
		return
	}
	l.swept = true
	dev, dir := l.share.dev, directory(l.key)
	dev.Submit(&Op{Kind: OpList, Class: ClassCold, Path: dir, Done: func(op *Op) {
		for _, name := range op.Names {
			if base, epoch, ok := parseSegmentName(name); ok && epoch>>epochShift < l.s.cfg.Start && !l.has(base, epoch) {
				dev.Submit(&Op{Kind: OpRemove, Class: ClassCold, Path: dir + "/" + name})
			}
		}
	}})
}

func (l *Log) has(base batch.Offset, epoch uint64) bool {
	for _, g := range l.segments {
		if g.base == base && g.epoch == epoch {
			return true
		}
	}
	return false
}

// parseSegmentName reads <base>-<epoch>.log or .index; false for every other name, which is not ours to touch.
func parseSegmentName(name string) (batch.Offset, uint64, bool) {
	stem, ok := strings.CutSuffix(name, ".log")
	if !ok {
		stem, ok = strings.CutSuffix(name, ".index")
	}
	if !ok || len(stem) != 20+1+16 || stem[20] != '-' {
		return 0, 0, false
	}
	base, err1 := strconv.ParseUint(stem[:20], 10, 64)
	epoch, err2 := strconv.ParseUint(stem[21:], 16, 64)
	return batch.Offset(base), epoch, err1 == nil && err2 == nil
}
