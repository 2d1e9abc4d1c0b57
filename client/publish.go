package client

import (
	"context"
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// PublishMax is the most that Publish takes, bytes of key and value together.
const PublishMax = frame.MaxPublishPayload - frame.PublishFixedBytes

// Publish appends one small record without headers, key and value together up to PublishMax, in one request of its own. It is
// for a record now and then: nothing is batched, nothing recognises a second copy, so a connection that is lost, or a ctx
// that ends, before the answer is an error with ErrOutcomeUnknown and not a retry. The partition is Record.Partition. See
// Producer for everything else.
func (c *Client) Publish(ctx context.Context, name string, r *Record, a Acks) (Result, error) {
	return c.PublishBy(ctx, name, r, Explicit(), a)
}

// PublishBy is Publish to the partition that choose names, the KeyHash of a producer for instance.
func (c *Client) PublishBy(ctx context.Context, name string, r *Record, choose Partitioner, a Acks) (Result, error) {
	op := "publish " + name
	if err := validName(op, name); err != nil {
		return Result{}, err
	}
	if len(r.Headers) > 0 {
		return Result{}, &Error{Op: op, Code: frame.ErrTooLarge, Text: "PUBLISH takes no headers; use a producer"}
	}
	if n := len(r.Key) + len(r.Value); n > PublishMax {
		return Result{}, &Error{Op: op, Code: frame.ErrTooLarge, Text: fmt.Sprintf(
			"key and value have %d bytes, PUBLISH takes at most %d; use a producer", n, PublishMax)}
	}
	t, err := c.topic(ctx, name)
	if err != nil {
		return Result{}, err
	}
	chosen := choose(r, len(t.owners))
	if chosen < 0 || chosen >= len(t.owners) {
		return Result{}, &Error{Op: op, Code: frame.ErrUnknownPartition, Text: fmt.Sprintf("partition %d; the topic has %d, from 0", chosen, len(t.owners))}
	}
	partition := uint32(chosen)
	acks, err := a.resolve(t)
	if err != nil {
		return Result{}, err
	}
	reply, err := c.publish(ctx, t, partition, r, acks)
	if isCode(err, frame.ErrUnknownTopic) { // the id was of an earlier topic of this name: nothing is stored
		if t, err = c.refresh(ctx, name); err == nil {
			reply, err = c.publish(ctx, t, partition, r, acks)
		}
	}
	if err != nil {
		return Result{}, withOp(op, err)
	}
	return Result{Partition: partition, Offset: reply.BaseOffset, AppendMillis: reply.AppendTime}, nil
}

func (c *Client) publish(ctx context.Context, t *topic, partition uint32, r *Record, acks frame.Acks) (frame.ProduceReply, error) {
	request := &frame.Publish{Topic: t.id, Partition: partition, Acks: acks, HasKey: r.Key != nil, Key: r.Key, Value: r.Value}
	var reply frame.ProduceReply
	cn, err := c.connTo(ctx, t.owners[min(int(partition), len(t.owners)-1)])
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
