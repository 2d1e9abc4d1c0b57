package shard

import "github.com/slipringmq/slipring/disk"

// Stats are plain counters of a shard since its start, to be read on its thread.
type Stats struct {
	Connections, Topics, Partitions int
	Subscriptions                   int

	Opened, Closed      uint64
	Frames              uint64 // complete ones, from clients
	BytesIn, BytesOut   uint64
	Batches, Records    uint64 // appended or handed out
	Acks, Errors        uint64 // answers to PRODUCE and PUBLISH; ERROR frames
	Refused, Repeats    uint64 // PRODUCE and PUBLISH refused; batches that were there already
	Fetches, Deliveries uint64
	Lost                uint64 // records dropped for want of credit, storage none
	Trims               uint64 // steps of retention
	Deadlines, Pauses   uint64
	Stalls              uint64
}

// Stats tells where the counters stand.
func (s *Shard) Stats() Stats {
	st := s.stats
	st.Connections, st.Topics, st.Partitions = len(s.conns), len(s.topics.byID), s.topics.partitions
	return st
}

// Store is the disk's side of the shard, for its counters; nil before Open.
func (s *Shard) Store() *disk.Store { return s.store }
