package client

import (
	"context"
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// Publish appends one small record without headers, key and value together below 64 KiB, in one request of its own. It is
// for a record now and then: nothing is batched, nothing recognises a second copy, so a connection that is lost, or a ctx
// that ends, before the answer is an error with ErrOutcomeUnknown and not a retry. The partition is Record.Partition. See Producer for everything else.
func (c *Client) Publish(ctx context.Context, name string, r *Record, a Acks) (Result, error) {
	op := "publish " + name
	if err := validName(op, name); err != nil {
		return Result{}, err
	}
	if n := frame.PublishFixedBytes + len(r.Key) + len(r.Value); n > frame.MaxPublishPayload || len(r.Headers) > 0 {
		return Result{}, &Error{Op: op, Code: frame.ErrTooLarge, Text: fmt.Sprintf(
			"record of %d bytes with %d headers; PUBLISH takes %d bytes and none, use a producer", n, len(r.Headers), frame.MaxPublishPayload)}
	}
	t, err := c.topic(ctx, name)
	if err != nil {
		return Result{}, err
	}
	if int(r.Partition) >= len(t.owners) {
		return Result{}, &Error{Op: op, Code: frame.ErrUnknownPartition, Text: fmt.Sprintf("partition %d; the topic has %d, from 0", r.Partition, len(t.owners))}
	}
	acks, err := a.resolve(t)
	if err != nil {
		return Result{}, err
	}
	reply, err := c.publish(ctx, t, r, acks)
	if isCode(err, frame.ErrUnknownTopic) { // the id was of an earlier topic of this name: nothing is stored
		if t, err = c.refresh(ctx, name); err == nil {
			reply, err = c.publish(ctx, t, r, acks)
		}
	}
	if err != nil {
		return Result{}, withOp(op, err)
	}
	return Result{Partition: r.Partition, Offset: reply.BaseOffset, AppendMillis: reply.AppendTime}, nil
}

func (c *Client) publish(ctx context.Context, t *topic, r *Record, acks frame.Acks) (frame.ProduceReply, error) {
	request := &frame.Publish{Topic: t.id, Partition: r.Partition, Acks: acks, HasKey: r.Key != nil, Key: r.Key, Value: r.Value}
	var reply frame.ProduceReply
	cn, err := c.connTo(ctx, t.owners[min(int(r.Partition), len(t.owners)-1)])
	if err != nil {
		return reply, err
	}
	if acks == frame.AcksNone {
		cn.send(frame.CmdPublish, cn.unansweredID(), request)
		return reply, nil
	}
	err = c.ask(ctx, cn, frame.CmdPublish, request, &reply)
	if _, answered := answer(err); err != nil && !answered {
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return reply, err
}
