package client

import (
	"context"
	"fmt"

	"github.com/slipringmq/slipring/frame"
)

// CreateTopic makes a topic and returns its id. Settings outside the mask take the broker's defaults.
//
// Errors: ErrTopicExists, ErrInvalidName, ErrInvalidSetting, ErrLimit; ErrOutcomeUnknown when the connection was lost.
func (c *Client) CreateTopic(ctx context.Context, name string, partitions uint32, s frame.Settings) (uint32, error) {
	op := "create topic " + name
	if err := validName(op, name); err != nil {
		return 0, err
	}
	var r frame.CreateTopicReply
	err := c.do(ctx, op, false, frame.CmdCreateTopic, &frame.CreateTopic{Name: name, Partitions: partitions, Settings: s}, &r)
	return r.ID, err
}

// DeleteTopic removes a topic and its records.
//
// Errors: ErrUnknownTopic; ErrOutcomeUnknown when the connection was lost.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	op := "delete topic " + name
	if err := validName(op, name); err != nil {
		return err
	}
	err := c.do(ctx, op, false, frame.CmdDeleteTopic, &frame.DeleteTopic{Name: name}, &frame.Empty{})
	c.dropTopic(name)
	return err
}

// AlterTopic changes the settings in the mask and leaves the others.
//
// Errors: ErrUnknownTopic, ErrInvalidSetting. Retried when the connection is lost: setting a value twice is setting it.
func (c *Client) AlterTopic(ctx context.Context, name string, s frame.Settings) error {
	op := "alter topic " + name
	if err := validName(op, name); err != nil {
		return err
	}
	err := c.do(ctx, op, true, frame.CmdAlterTopic, &frame.AlterTopic{Name: name, Settings: s}, &frame.Empty{})
	c.dropTopic(name)
	return err
}

// ListTopics gives every topic whose name begins with prefix, in name order. Pages are asked for one after the other, so a
// topic that is created meanwhile may be missing.
func (c *Client) ListTopics(ctx context.Context, prefix string) ([]frame.TopicSummary, error) {
	var all []frame.TopicSummary
	request := frame.ListTopics{Prefix: prefix}
	for {
		var page frame.ListTopicsReply
		if err := c.do(ctx, "list topics", true, frame.CmdListTopics, &request, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Topics {
			if t.Name <= request.After { // a page that does not go on would be asked for without end
				return nil, withOp("list topics", fmt.Errorf("%w: names out of order", ErrProtocol))
			}
			request.After = t.Name
		}
		all = append(all, page.Topics...)
		if !page.More {
			return all, nil
		}
		if len(page.Topics) == 0 {
			return nil, withOp("list topics", fmt.Errorf("%w: an empty page with more behind it", ErrProtocol))
		}
	}
}

// DescribeTopic gives settings and the state of each partition as its owner sees it.
func (c *Client) DescribeTopic(ctx context.Context, name string) (*frame.DescribeTopicReply, error) {
	op := "describe topic " + name
	if err := validName(op, name); err != nil {
		return nil, err
	}
	var r frame.DescribeTopicReply
	if err := c.do(ctx, op, true, frame.CmdDescribeTopic, &frame.DescribeTopic{Name: name}, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// Metadata asks for topics by name, at most frame.MaxMetadataTopics, and for the endpoints. A topic that does not exist is
// an answer with its Error set.
func (c *Client) Metadata(ctx context.Context, names ...string) (*frame.MetadataReply, error) {
	var m frame.MetadataReply
	if err := c.do(ctx, "metadata", true, frame.CmdMetadata, &frame.Metadata{Topics: names}, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// ListOffsets resolves one position for each of the partitions of a topic; nil means all. Answers are in the order of
// partitions, and carry an error of their own each.
func (c *Client) ListOffsets(ctx context.Context, name string, partitions []uint32, kind frame.OffsetKind, unixMillis int64) ([]frame.OffsetAnswer, error) {
	op := "list offsets " + name
	if err := validName(op, name); err != nil {
		return nil, err
	}
	t, err := c.refresh(ctx, name)
	if err != nil {
		return nil, err
	}
	if partitions == nil {
		partitions = t.partitions()
	}
	return c.listOffsets(ctx, t, partitions, kind, unixMillis)
}

func (c *Client) listOffsets(ctx context.Context, t *topic, partitions []uint32, kind frame.OffsetKind, unixMillis int64) ([]frame.OffsetAnswer, error) {
	op := "list offsets " + t.name
	request := frame.ListOffsets{Partitions: make([]frame.OffsetQuery, len(partitions))}
	for i, p := range partitions {
		request.Partitions[i] = frame.OffsetQuery{Topic: t.id, Partition: p, Kind: kind, Time: unixMillis}
	}
	var r frame.ListOffsetsReply
	if err := c.do(ctx, op, true, frame.CmdListOffsets, &request, &r); err != nil {
		return nil, err
	}
	if len(r.Partitions) != len(partitions) {
		return nil, withOp(op, ErrProtocol)
	}
	for i := range r.Partitions {
		if r.Partitions[i].Partition != partitions[i] || r.Partitions[i].Topic != t.id {
			return nil, withOp(op, ErrProtocol)
		}
	}
	return r.Partitions, nil
}

func (t *topic) partitions() []uint32 {
	all := make([]uint32, len(t.owners))
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

func (c *Client) dropTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}

// validName refuses a bad name before it costs a round trip.
func validName(op, name string) error {
	if err := frame.ValidName(name); err != nil {
		return &Error{Op: op, Code: frame.ErrInvalidName, Text: err.Error()}
	}
	return nil
}
