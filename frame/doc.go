// Package frame turns the bytes of a connection into commands and back.
//
// A frame is a 16-byte header (Header) and a payload of at most MaxPayload bytes. Each command has one request and one
// reply type with Append and Decode; decoded byte slices alias the input and are valid as long as it is, strings are copies.
// docs/PROTOCOL.md is the same in prose with the golden bytes of testdata.
//
// Thread: pure functions over the caller's bytes. Hot types (Produce, Publish, Fetch, Deliver, Credit and their replies)
// allocate nothing once their slices have grown.
// Never here: I/O, a clock, state of a connection.
package frame
