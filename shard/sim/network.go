package sim

import "hash/crc32"

// Network is a loop without sockets: output waits in memory until its client takes it.
type Network struct {
	links map[uint64]*link
	order []*link // open ones, in the order of their accept
	last  uint64
	hash  uint64 // of everything sent
}

// link is one connection, seen from the loop.
type link struct {
	id      uint64
	out     []byte // sent by the shard, not taken by the client
	at      int    // bytes of out that were taken
	high    bool   // output reached highWater
	drained bool   // and fell below lowWater: the shard is to be told
	paused  bool
	closing bool
	aborted bool
}

// The water marks of loop, on a smaller scale, so that they are met.
const (
	highWater = 64 << 10
	lowWater  = 16 << 10
)

func newNetwork() *Network { return &Network{links: make(map[uint64]*link)} }

func (n *Network) open() *link {
	n.last++
	l := &link{id: n.last<<32 | n.last}
	n.links[l.id] = l
	n.order = append(n.order, l)
	return l
}

func (n *Network) drop(l *link) {
	delete(n.links, l.id)
	for i, o := range n.order {
		if o == l {
			n.order = append(n.order[:i], n.order[i+1:]...)
			return
		}
	}
}

func (n *Network) Send(c uint64, p []byte) {
	l := n.links[c]
	if l == nil || l.closing {
		return
	}
	n.hash = n.hash*0x9e3779b97f4a7c15 + uint64(crc32.ChecksumIEEE(p)) + c
	l.out = append(l.out, p...)
	if l.queued() >= highWater {
		l.high = true
	}
}

func (l *link) queued() int { return len(l.out) - l.at }

func (n *Network) Queued(c uint64) int {
	if l := n.links[c]; l != nil {
		return l.queued()
	}
	return 0
}

func (n *Network) Pause(c uint64)  { n.set(c, func(l *link) { l.paused = true }) }
func (n *Network) Resume(c uint64) { n.set(c, func(l *link) { l.paused = false }) }
func (n *Network) Close(c uint64)  { n.set(c, func(l *link) { l.closing = true }) }
func (n *Network) Abort(c uint64)  { n.set(c, func(l *link) { l.closing, l.aborted = true, true }) }

func (n *Network) set(c uint64, f func(*link)) {
	if l := n.links[c]; l != nil {
		f(l)
	}
}

// take marks n bytes of output as taken by the client.
func (l *link) take(n int) {
	l.at += n
	if l.at == len(l.out) {
		l.out, l.at = l.out[:0], 0
	}
	if l.high && l.queued() < lowWater {
		l.high, l.drained = false, true
	}
}

// Paused says whether the shard has stopped reading from c.
func (n *Network) Paused(c uint64) bool {
	l := n.links[c]
	return l != nil && l.paused
}
