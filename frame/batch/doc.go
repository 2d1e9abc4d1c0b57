// Package batch is the unit that is produced, stored and delivered: a 96-byte header and a body of records.
//
// The header is ours; the body is the record encoding of Kafka's record batch format v2 (varint deltas, key, value,
// headers; zstd, lz4, snappy or gzip over all records), a public standard. The same bytes travel from the producer's
// socket to the disk and to the consumer's socket: the broker stamps base offset, epoch and append time into the header
// and never touches the body.
//
// Thread: pure functions over the caller's bytes; nothing here keeps them.
// Never here: I/O, a clock, decompression on the broker's side.
package batch
