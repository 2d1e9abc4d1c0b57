package shard_test

import (
	"strings"
	"testing"

	"github.com/slipringmq/slipring/disk"
	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// A broker whose metadata is damaged stores nothing, and says that it is the metadata and not the journal.
func TestDamagedMetadataIsNamed(t *testing.T) {
	w := start(t)
	c := w.Connect()
	id := create(t, c, "t", 1, frame.Settings{})
	w.Shard.Damaged(w.Shard.Store().Log(disk.Meta), disk.Damage{Key: disk.Meta, Cause: disk.CauseState, Err: disk.ErrDamaged})
	for _, request := range []uint64{
		c.Send(frame.CmdCreateTopic, &frame.CreateTopic{Name: "u", Partitions: 1}),
		c.Send(frame.CmdProducerID, &frame.Empty{}),
		c.Produce(id, 0, frame.AcksDurable, batchOf(batch.Options{}, "x"), frame.MaxPayload),
	} {
		if e := wantError(t, c.Await(request), frame.ErrFenced); !strings.Contains(e.Text, "metadata") || e.Outcome != frame.NotDone {
			t.Errorf("%+v", e)
		}
	}
}
