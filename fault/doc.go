// Package fault holds the switches that plant a bug on purpose, so that a test can show it would find it.
//
// Built without the tag planted, On is the constant false: the compiler drops the planted code, and a released broker
// cannot be switched wrong. Built with it, the environment variable SLIPRING_FAULT names the faults to plant, separated
// by commas:
//
//	SLIPRING_FAULT=ack-before-flush go test -tags planted ./shard/sim
//
// A fault is one constant and one line in the table of names.go. Two kinds exist: a rule of the design switched off
// (its name begins with the rule's number, rule04-lock-in-ring), and a bug that someone might write
// (ack-before-flush). The planted code stands beside the right code, at the place where it would be wrong:
//
//	if !fault.On(fault.Rule04LockInRing) {
//		files = append(files, lock)
//	}
//
// Thread: any; nothing changes after init. Memory: none on the hot path.
// Never here: behaviour. This is a leaf that every room may import and that imports none.
package fault

// EnvName is the environment variable that a planted build reads once, at init.
const EnvName = "SLIPRING_FAULT"
