package shard

import (
	"fmt"

	"github.com/slipringmq/slipring/fault"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// Decoding is pure: a panic in it is a bug of ours that touched no state, so it costs the peer its connection and nobody
// else anything. These are the only places that recover.

// caught turns a panic of a decoder into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = &frame.DecodeError{Code: frame.ErrInternal, Text: fmt.Sprintf("decoding failed: %v", r)}
	}
}

type decoder interface{ Decode([]byte) error }

func decode(m decoder, payload []byte) (err error) {
	defer caught(&err)
	return m.Decode(payload)
}

func decodeProduce(m *frame.Produce, payload []byte) (err error) {
	defer caught(&err)
	return m.Decode(payload)
}

func decodePublish(m *frame.Publish, payload []byte) (err error) {
	defer caught(&err)
	return m.Decode(payload)
}

// parseBatch decodes the header into h and checks header and body as a producer sent them.
func parseBatch(h *batch.Header, header []byte, body [][]byte, maxRecordBytes uint32) (err error) {
	defer caught(&err)
	if *h, err = batch.ParseHeader(header); err != nil {
		return err
	}
	if err = h.CheckProduced(); err != nil {
		return err
	}
	if err = batch.CheckBody(h, body...); err != nil {
		return err
	}
	if fault.On(fault.Rule17TrustRecords) {
		return nil
	}
	return batch.CheckRecordsWithin(h, body, maxRecordBytes)
}
