package shard

import (
	"math"
	"slices"
	"strings"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// topic is one topic in applied state. Its name was checked at the edge and is never part of a path: files are named by
// the id.
type topic struct {
	id         uint32
	name       string
	settings   frame.Settings
	partitions []partition // never moved: the store and waiters point into it
}

// givesDurable says whether the topic can acknowledge from stable media.
func (t *topic) givesDurable() bool {
	return t.settings.Storage == frame.StorageLog && t.settings.Durability != frame.DurabilityNone
}

// topicTable is what meta says: topics, and the tombstones of deleted ones.
type topicTable struct {
	byID       map[uint32]*topic
	byName     map[string]*topic
	sorted     []*topic // by name
	tombs      []tombstone
	nextID     uint32 // greater than any id ever given
	partitions int    // of all topics
	retaining  int    // topics whose records may go
}

// tombstone of a deleted topic stays until no journal and no snapshot names its partitions (RULES 12d).
type tombstone struct {
	id    uint32
	count uint32 // partitions that the topic had
	left  uint32 // of them, those that disk has not called gone in this life
}

func (t *topicTable) init() {
	t.byID, t.byName = make(map[uint32]*topic), make(map[string]*topic)
	t.nextID = 1
}

func (t *topicTable) search(name string) (int, bool) {
	return slices.BinarySearchFunc(t.sorted, name, func(x *topic, name string) int { return strings.Compare(x.name, name) })
}

func (t *topicTable) add(x *topic) {
	t.byID[x.id], t.byName[x.name] = x, x
	i, _ := t.search(x.name)
	t.sorted = slices.Insert(t.sorted, i, x)
	t.partitions += len(x.partitions)
	t.retain(&x.settings, 1)
	t.nextID = max(t.nextID, x.id+1)
}

func (t *topicTable) remove(x *topic) {
	delete(t.byID, x.id)
	delete(t.byName, x.name)
	if i, ok := t.search(x.name); ok {
		t.sorted = slices.Delete(t.sorted, i, i+1)
	}
	t.partitions -= len(x.partitions)
	t.retain(&x.settings, -1)
}

// retain counts a topic with these settings in or out.
func (t *topicTable) retain(set *frame.Settings, by int) {
	if retains(set) {
		t.retaining += by
	}
}

func (t *topicTable) tomb(id uint32) *tombstone {
	i, ok := slices.BinarySearchFunc(t.tombs, id, func(x tombstone, id uint32) int { return int(int64(x.id) - int64(id)) })
	if !ok {
		return nil
	}
	return &t.tombs[i]
}

func (t *topicTable) bury(id, partitions uint32) {
	i, ok := slices.BinarySearchFunc(t.tombs, id, func(x tombstone, id uint32) int { return int(int64(x.id) - int64(id)) })
	if !ok {
		t.tombs = slices.Insert(t.tombs, i, tombstone{id: id, count: partitions, left: partitions})
	}
	t.nextID = max(t.nextID, id+1)
}

func (t *topicTable) unbury(id uint32) {
	t.tombs = slices.DeleteFunc(t.tombs, func(x tombstone) bool { return x.id == id })
}

// newTopic builds a topic and gives its partitions their places.
func (s *Shard) newTopic(id uint32, name string, partitions uint32, settings frame.Settings) *topic {
	t := &topic{id: id, name: name, settings: settings, partitions: make([]partition, partitions)}
	for i := range t.partitions {
		p := &t.partitions[i]
		p.topic, p.number = t, uint32(i)
		p.tag = batch.PartitionTag(s.cfg.DirectoryID, id, p.number)
		p.place = s.takePlace(p)
		if settings.Storage == frame.StorageNone {
			p.ceiling = math.MaxUint64 // nothing is kept, so no offset can come back
		}
	}
	return t
}

func (s *Shard) takePlace(p *partition) int32 {
	if n := len(s.vacant); n > 0 {
		place := s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		s.partitions[place] = p
		return place
	}
	s.partitions = append(s.partitions, p)
	return int32(len(s.partitions) - 1)
}

// partitionOf finds the partition of a log, nil when the shard knows none.
func (s *Shard) partitionOf(l *disk.Log) *partition {
	if owner := l.Owner(); owner >= 0 && int(owner) < len(s.partitions) {
		if p := s.partitions[owner]; p != nil && p.log == l {
			return p
		}
	}
	return s.partitionByKey(l.Key())
}

func (s *Shard) partitionByKey(k disk.Key) *partition {
	t := s.topics.byID[k.Topic]
	if t == nil || k.Partition >= uint32(len(t.partitions)) {
		return nil
	}
	return &t.partitions[k.Partition]
}

// logOptions is what the store asks about each log it opens.
func (s *Shard) logOptions(k disk.Key) disk.LogOptions {
	if p := s.partitionByKey(k); p != nil {
		return p.options()
	}
	return disk.LogOptions{
		SegmentBytes: int64(s.cfg.Defaults.SegmentBytes),
		Journaled:    true,
		Tag:          batch.PartitionTag(s.cfg.DirectoryID, k.Topic, k.Partition),
		Owner:        noPlace,
	}
}

func (p *partition) options() disk.LogOptions {
	set := &p.topic.settings
	o := disk.LogOptions{SegmentBytes: int64(set.SegmentBytes), Journaled: p.journaled(), Tag: p.tag, Owner: p.place}
	if set.Durability == frame.DurabilityInterval {
		o.SyncEvery = int64(set.IntervalMillis) * 1e6
	}
	return o
}
