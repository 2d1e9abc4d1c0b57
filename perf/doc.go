// Package perf puts load on a broker and measures it: publish/subscribe bandwidth, durable latency, streaming and replay.
//
// Latency is taken from the moment at which a record was due. At a fixed offered rate (Config.Rate) a stall of the broker
// shows in every record that was due during it; without a rate the next record waits for the last, and stalls hide. Reports
// carry the host they were made on, because figures without one mean nothing.
//
// Thread: each run starts its own goroutines and ends them before it returns.
// Never here: what the broker does; perf is a client like any other.
package perf
