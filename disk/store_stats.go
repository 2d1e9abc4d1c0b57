package disk

// Stats are counters of one store since its start, and gauges; nanoseconds and bytes. To be read on the store's thread.
type Stats struct {
	Groups, GroupBytes    uint64 // commit groups submitted, and the blocks they took
	FlushLast, FlushMax   int64  // of a group, from submission to the turn that saw it done
	Staged                int    // bytes that wait for a group
	JournalUsed, Journal  int64  // bytes of live generations, and of the ring
	JournalFiles          int    // made
	Checkpoints, Rewrites uint64 // generations given back; state logs written anew
	StateBytes            int64
	Stalled               bool
	Failed                error // the journal's, final
	CheckpointErr         error // of the last attempt, nil when it went well
	FileErr               error // of the last attempt to make a journal file
	Logs                  LogStats
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	j := s.journal
	st := Stats{
		Groups: j.groups, GroupBytes: uint64(j.written),
		FlushLast: s.flushNanos.last, FlushMax: s.flushNanos.max,
		Staged:      s.staged(),
		JournalUsed: int64(j.used()) * blockBytes, Journal: int64(j.ringBlocks()) * blockBytes,
		Checkpoints: s.checkpoint.finished, Rewrites: s.state.rewrites, StateBytes: s.state.end,
		Stalled: s.stalled, Failed: j.failed, CheckpointErr: s.checkpoint.err, FileErr: j.maker.err,
		Logs: s.logs.stats,
	}
	for _, f := range j.files {
		if f.made {
			st.JournalFiles++
		}
	}
	return st
}
