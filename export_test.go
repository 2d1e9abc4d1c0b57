package slipring

import "github.com/slipringmq/slipring/shard"

// Tune lets tests change a shard's limits, deadlines first of all.
func (c *Config) Tune(f func(*shard.Limits)) {
	l := shard.DefaultLimits()
	f(&l)
	c.limits = &l
}
