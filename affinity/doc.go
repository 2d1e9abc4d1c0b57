// Package affinity knows the CPUs: which there are, which this process may use, which of them shards should have, and
// how a thread gets onto one.
//
// Thread: planning is pure; Pin is about the calling OS thread, Confine about all threads of the process.
// Assumes: Linux; sysfs may be missing or partial (containers), then every CPU counts as a core of its own.
// Never here: what runs on the CPUs.
package affinity
