package disk

import "fmt"

// Key names one partition in this data directory. Topic ids are never reused, so a key means the same records for ever.
type Key struct{ Topic, Partition uint32 }

// Meta is the partition without records that holds topics, tombstones and producer id blocks. It is recovered first.
var Meta = Key{}

// String is the form used in errors and reports, topic/partition.
func (k Key) String() string { return fmt.Sprintf("%d/%d", k.Topic, k.Partition) }

// less orders keys, Meta first: the order of recovery, checkpoints and reports.
func (k Key) less(o Key) bool {
	if k.Topic != o.Topic {
		return k.Topic < o.Topic
	}
	return k.Partition < o.Partition
}

// compare is less for the slices package.
func (k Key) compare(o Key) int {
	switch {
	case k == o:
		return 0
	case k.less(o):
		return -1
	}
	return 1
}
