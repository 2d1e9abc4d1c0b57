package shard

import (
	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
)

// frame handles one complete frame; payload is valid during the call.
func (s *Shard) frame(k *conn, h frame.Header, payload []byte) {
	s.stats.Frames++
	if !k.ready {
		if h.Command != frame.CmdHello {
			s.goAway(k, h.RequestID, frame.ErrOutOfOrder, "HELLO comes first")
			return
		}
		s.onHello(k, h.RequestID, payload)
		return
	}
	if h.Command == frame.CmdPublish {
		s.onPublish(k, h.RequestID, payload)
		return
	}
	s.endPublish() // so that what one connection sends to one partition keeps its order
	switch h.Command {
	case frame.CmdProduce:
		s.onProduce(k, h, payload)
	case frame.CmdFetch:
		if s.decoded(k, h, &s.scratch.fetch, payload) {
			s.onFetch(k, h.RequestID, &s.scratch.fetch)
		}
	case frame.CmdCredit:
		if s.decoded(k, h, &s.scratch.credit, payload) {
			s.onCredit(k, h.RequestID, &s.scratch.credit)
		}
	default:
		s.command(k, h, payload)
	}
}

// command handles what comes seldom.
func (s *Shard) command(k *conn, h frame.Header, payload []byte) {
	req := h.RequestID
	switch h.Command {
	case frame.CmdHello:
		s.goAway(k, req, frame.ErrOutOfOrder, "HELLO was sent before")
	case frame.CmdAuth:
		s.onAuth(k, h, payload)
	case frame.CmdPing:
		if s.decoded(k, h, &frame.Empty{}, payload) {
			s.replyEmpty(k, frame.CmdPing, req)
		}
	case frame.CmdMetadata:
		if m := new(frame.Metadata); s.decoded(k, h, m, payload) {
			s.onMetadata(k, req, m)
		}
	case frame.CmdCreateTopic:
		if m := new(frame.CreateTopic); s.decoded(k, h, m, payload) {
			s.onCreateTopic(k, req, m)
		}
	case frame.CmdDeleteTopic:
		if m := new(frame.DeleteTopic); s.decoded(k, h, m, payload) {
			s.onDeleteTopic(k, req, m)
		}
	case frame.CmdAlterTopic:
		if m := new(frame.AlterTopic); s.decoded(k, h, m, payload) {
			s.onAlterTopic(k, req, m)
		}
	case frame.CmdListTopics:
		if m := new(frame.ListTopics); s.decoded(k, h, m, payload) {
			s.onListTopics(k, req, m)
		}
	case frame.CmdDescribeTopic:
		if m := new(frame.DescribeTopic); s.decoded(k, h, m, payload) {
			s.onDescribeTopic(k, req, m)
		}
	case frame.CmdProducerID:
		if s.decoded(k, h, &frame.Empty{}, payload) {
			s.onProducerID(k, req)
		}
	case frame.CmdListOffsets:
		if s.decoded(k, h, &s.scratch.offsets, payload) {
			s.onListOffsets(k, req, &s.scratch.offsets)
		}
	case frame.CmdSubscribe:
		if m := new(frame.Subscribe); s.decoded(k, h, m, payload) {
			s.onSubscribe(k, req, m)
		}
	case frame.CmdUnsubscribe:
		if s.decoded(k, h, &frame.Unsubscribe{}, payload) {
			s.onUnsubscribe(k, req)
		}
	case frame.CmdCancel:
		if m := new(frame.Cancel); s.decoded(k, h, m, payload) {
			s.onCancel(k, m)
		}
	default: // DELIVER and ERROR go the other way
		s.goAway(k, req, frame.ErrMalformed, "this command only goes from broker to client")
	}
}

// decoded decodes payload into m. What does not parse ends the connection; what parses and asks for too much, or for
// something that is not allowed, is an answer.
func (s *Shard) decoded(k *conn, h frame.Header, m decoder, payload []byte) bool {
	err := decode(m, payload)
	if err == nil {
		return true
	}
	s.undecodable(k, h.RequestID, err)
	return false
}

// undecodable answers a payload that could not be decoded. Internal is a panic of ours: the connection it touched closes.
func (s *Shard) undecodable(k *conn, req uint64, err error) {
	if code := frame.CodeOf(err); code.Closes() || code == frame.ErrInternal {
		s.goAway(k, req, code, err.Error())
	} else {
		s.fail(k, req, code, err.Error())
	}
}

// taken closes the connection when req names a FETCH or a subscription that has not ended: two streams under one id could
// not be told apart. Cost: one step for each waiting FETCH.
func (s *Shard) taken(k *conn, req uint64) bool {
	used := k.subs[req] != nil
	for f := k.fetches; f != nil && !used; f = f.nextOf {
		used = f.id == req
	}
	if used {
		s.goAway(k, req, frame.ErrOutOfOrder, "a FETCH or a subscription with this request id has not ended")
	}
	return used
}

func (s *Shard) onHello(k *conn, req uint64, payload []byte) {
	var m frame.Hello
	if err := decode(&m, payload); err != nil {
		s.goAway(k, req, frame.CodeOf(err), err.Error())
		return
	}
	if m.MinVersion > frame.Version || m.MaxVersion < frame.Version {
		s.goAway(k, req, frame.ErrVersion, "this broker speaks version 1")
		return
	}
	k.ready, k.client = true, m.ClientName
	s.timers.clear(&k.deadline)
	id := s.cfg.DirectoryID
	if fault.On(fault.Rule23KeepDirectoryID) {
		id = [16]byte{}
	}
	s.reply(k, frame.CmdHello, req, &frame.HelloReply{
		Version:       frame.Version,
		DirectoryID:   id,
		ProduceWindow: uint32(s.limits.ProduceWindow),
		MaxPayload:    frame.MaxPayload,
		Shard:         uint32(s.cfg.Shard),
		Shards:        uint32(s.cfg.Shards),
	})
}

// onAuth knows the mechanism "none" only: nothing has to be shown to this version.
func (s *Shard) onAuth(k *conn, h frame.Header, payload []byte) {
	var m frame.Auth
	if !s.decoded(k, h, &m, payload) {
		return
	}
	if m.Mechanism != "none" || len(m.Data) != 0 {
		s.goAway(k, h.RequestID, frame.ErrUnauthenticated, "this broker knows the mechanism none only, without data")
		return
	}
	s.reply(k, frame.CmdAuth, h.RequestID, &frame.AuthReply{Done: true})
}
