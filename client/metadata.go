package client

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// topic is what METADATA said about one topic. It is never changed, only replaced.
type topic struct {
	directory [16]byte // of the broker that said it
	name      string
	id        uint32
	settings  frame.Settings
	owners    []string // address of partition i's owner, "" when the broker named none
	asked     time.Time
}

// same says whether both are one and the same topic, not only topics of one name.
func (t *topic) same(o *topic) bool { return t.id == o.id && t.directory == o.directory }

// topic gives the metadata of a topic, from memory where it is known.
func (c *Client) topic(ctx context.Context, name string) (*topic, error) {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return c.refresh(ctx, name)
}

// refresh asks the broker for a topic's metadata.
func (c *Client) refresh(ctx context.Context, name string) (*topic, error) {
	var m frame.MetadataReply
	cn, err := c.doFrom(ctx, "metadata "+name, true, frame.CmdMetadata, &frame.Metadata{Topics: []string{name}}, &m)
	if err != nil {
		return nil, err
	}
	if len(m.Topics) != 1 || m.Topics[0].Name != name {
		return nil, withOp("metadata "+name, ErrProtocol)
	}
	tm := &m.Topics[0]
	if tm.Error != 0 {
		c.mu.Lock()
		delete(c.topics, name)
		c.mu.Unlock()
		return nil, &Error{Op: "topic " + name, Code: tm.Error, Retriable: tm.Error.Retriable(), Text: tm.Error.String() + "; " + tm.Error.Advice()}
	}
	if len(tm.Partitions) == 0 {
		return nil, withOp("metadata "+name, ErrProtocol)
	}
	t := &topic{directory: cn.hello.DirectoryID, name: name, id: tm.ID, settings: tm.Settings, asked: time.Now(), owners: make([]string, len(tm.Partitions))}
	addrs := make([]string, len(m.Endpoints))
	for i, e := range m.Endpoints {
		addrs[i] = endpointAddr(e, cn.addr)
	}
	for i, e := range tm.Partitions {
		t.owners[i] = addrs[e]
	}
	c.mu.Lock()
	if t.directory == c.directory { // else a later connection has met another one
		c.topics[name] = t
	}
	c.mu.Unlock()
	return t, nil
}

// refreshSoon is refresh, unless somebody has just done it.
func (c *Client) refreshSoon(ctx context.Context, name string) (*topic, error) {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil && time.Since(t.asked) < 50*time.Millisecond {
		return t, nil
	}
	return c.refresh(ctx, name)
}

// endpointAddr is where to dial an endpoint. A broker that listens on every address names no host that a client could
// use; it is then the host that the client has reached already.
func endpointAddr(e frame.Endpoint, reached string) string {
	if e.Port == 0 {
		return ""
	}
	host := e.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		h, _, err := net.SplitHostPort(reached)
		if err != nil {
			return ""
		}
		host = h
	}
	return net.JoinHostPort(host, strconv.Itoa(int(e.Port)))
}
