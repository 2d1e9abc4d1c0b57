package shard

import "github.com/slipringmq/slipring/frame"

// message is what frame encodes; only replies off the hot path go through the interface.
type message interface{ Append([]byte) []byte }

// reply sends m, in parts when it is long.
func (s *Shard) reply(k *conn, cmd frame.Command, req uint64, m message) {
	out := m.Append(frame.AppendHeader(s.scratch.out[:0], cmd, frame.FlagReply, req, 0))
	s.scratch.out = out[:0]
	payload := out[frame.HeaderBytes:]
	if len(payload) > frame.MaxPayload {
		out = frame.AppendParts(nil, cmd, frame.FlagReply, req, payload)
	} else {
		frame.AppendHeader(out[:0], cmd, frame.FlagReply, req, len(payload))
	}
	s.send(k, out)
}

// replyEmpty sends a reply without fields.
func (s *Shard) replyEmpty(k *conn, cmd frame.Command, req uint64) {
	out := frame.AppendHeader(s.scratch.out[:0], cmd, frame.FlagReply, req, 0)
	s.scratch.out = out[:0]
	s.send(k, out)
}

func (s *Shard) send(k *conn, p []byte) {
	s.stats.BytesOut += uint64(len(p))
	s.net.Send(k.id, p)
}

// fail answers req with an error after which nothing was done.
func (s *Shard) fail(k *conn, req uint64, code frame.ErrorCode, text string) {
	s.failWith(k, req, &frame.Error{Code: code, Text: text})
}

// failWith answers with e, completed by what the code usually means.
func (s *Shard) failWith(k *conn, req uint64, e *frame.Error) {
	e.Retriable = e.Code.Retriable()
	if e.Code == frame.ErrBusy && e.DelayMillis == 0 {
		e.DelayMillis = s.limits.RetryMillis
	}
	s.stats.Errors++
	out := frame.AppendHeader(s.scratch.out[:0], frame.CmdError, frame.FlagReply, req, 0)
	out = e.Append(out)
	frame.AppendHeader(out[:0], frame.CmdError, frame.FlagReply, req, len(out)-frame.HeaderBytes)
	s.scratch.out = out[:0]
	s.send(k, out)
}

// refusal is a reason to answer with an error; nil is none. All are prebuilt, so a refusal costs no allocation.
type refusal struct {
	code frame.ErrorCode
	text string
}

// noName is why a name leads to no topic.
func noName(name string) *refusal {
	if err := frame.ValidName(name); err != nil {
		return &refusal{frame.CodeOf(err), err.Error()}
	}
	return refuseNoName
}

func (s *Shard) refuse(k *conn, req uint64, r *refusal) { s.fail(k, req, r.code, r.text) }

var (
	refuseStopping   = &refusal{frame.ErrStopping, "the broker is stopping"}
	refuseNoTopic    = &refusal{frame.ErrUnknownTopic, "no topic has this id; ask METADATA"}
	refuseNoName     = &refusal{frame.ErrUnknownTopic, "no topic has this name"}
	refusePartition  = &refusal{frame.ErrUnknownPartition, "the topic has no such partition"}
	refuseFailed     = &refusal{frame.ErrFenced, "the journal failed; nothing is stored any more, restart the broker"}
	refuseMetaLost   = &refusal{frame.ErrFenced, "metadata is fenced by damage, see the broker's log; nothing is stored until the data directory is restored"}
	refuseFenced     = &refusal{frame.ErrFenced, "the partition stopped after a storage failure; it can be read"}
	refuseBusy       = &refusal{frame.ErrBusy, "staged bytes or the journal are at their bound"}
	refuseStalled    = &refusal{frame.ErrBusy, "the disk is stalled"}
	refuseWindow     = &refusal{frame.ErrBusy, "the connection's produce window is used up"}
	refuseMemory     = &refusal{frame.ErrBusy, "no memory for the body"}
	refuseFrame      = &refusal{frame.ErrBusy, "no memory for the frame"}
	refuseTooLarge   = &refusal{frame.ErrTooLarge, "the batch is larger than the topic allows"}
	refuseBodyBytes  = &refusal{frame.ErrCorrupt, "the batch is not as long as its header says"}
	refuseDurable    = &refusal{frame.ErrDurability, "the topic has no durable acknowledgement"}
	refuseUploads    = &refusal{frame.ErrLimit, "too many PRODUCE requests with parts still to come"}
	refuseExpiry     = &refusal{frame.ErrInvalidSetting, "this version does not apply an expiry; write 0"}
	refuseNotStored  = &refusal{frame.ErrInvalidSetting, "topics with storage none keep no records; subscribe instead"}
	refuseWaits      = &refusal{frame.ErrLimit, "too many waiting requests on this connection"}
	refuseInternal   = &refusal{frame.ErrInternal, "an entry was refused by the store"}
	refuseNotPlanned = &refusal{frame.ErrInvalidSetting, "storage memory is not in this version"}
)
