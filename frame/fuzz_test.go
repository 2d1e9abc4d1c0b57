package frame

import (
	"bytes"
	"testing"
)

// One target a message: Decode never panics, and what it accepts Append writes again as the same bytes.

func FuzzHello(f *testing.F)            { fuzzMessage(f, &Hello{}, "hello_request") }
func FuzzHelloReply(f *testing.F)       { fuzzMessage(f, &HelloReply{}, "hello_reply") }
func FuzzAuth(f *testing.F)             { fuzzMessage(f, &Auth{}, "auth_request") }
func FuzzAuthReply(f *testing.F)        { fuzzMessage(f, &AuthReply{}, "auth_reply") }
func FuzzEmpty(f *testing.F)            { fuzzMessage(f, &Empty{}, "ping_request") }
func FuzzMetadata(f *testing.F)         { fuzzMessage(f, &Metadata{}, "metadata_request") }
func FuzzMetadataReply(f *testing.F)    { fuzzMessage(f, &MetadataReply{}, "metadata_reply") }
func FuzzCreateTopic(f *testing.F)      { fuzzMessage(f, &CreateTopic{}, "create_topic_request") }
func FuzzCreateTopicReply(f *testing.F) { fuzzMessage(f, &CreateTopicReply{}, "create_topic_reply") }
func FuzzDeleteTopic(f *testing.F)      { fuzzMessage(f, &DeleteTopic{}, "delete_topic_request") }
func FuzzAlterTopic(f *testing.F)       { fuzzMessage(f, &AlterTopic{}, "alter_topic_request") }
func FuzzListTopics(f *testing.F)       { fuzzMessage(f, &ListTopics{}, "list_topics_request") }
func FuzzListTopicsReply(f *testing.F)  { fuzzMessage(f, &ListTopicsReply{}, "list_topics_reply") }
func FuzzDescribeTopic(f *testing.F)    { fuzzMessage(f, &DescribeTopic{}, "describe_topic_request") }
func FuzzDescribeTopicReply(f *testing.F) {
	fuzzMessage(f, &DescribeTopicReply{}, "describe_topic_reply")
}
func FuzzProducerIDReply(f *testing.F)  { fuzzMessage(f, &ProducerIDReply{}, "producer_id_reply") }
func FuzzProduce(f *testing.F)          { fuzzMessage(f, &Produce{}, "produce_request") }
func FuzzProduceReply(f *testing.F)     { fuzzMessage(f, &ProduceReply{}, "produce_reply") }
func FuzzPublish(f *testing.F)          { fuzzMessage(f, &Publish{}, "publish_request") }
func FuzzFetch(f *testing.F)            { fuzzMessage(f, &Fetch{}, "fetch_request") }
func FuzzListOffsets(f *testing.F)      { fuzzMessage(f, &ListOffsets{}, "list_offsets_request") }
func FuzzListOffsetsReply(f *testing.F) { fuzzMessage(f, &ListOffsetsReply{}, "list_offsets_reply") }
func FuzzSubscribe(f *testing.F)        { fuzzMessage(f, &Subscribe{}, "subscribe_request") }
func FuzzUnsubscribe(f *testing.F)      { fuzzMessage(f, &Unsubscribe{}, "unsubscribe_request") }
func FuzzDeliver(f *testing.F)          { fuzzMessage(f, &Deliver{}, "deliver") }
func FuzzCredit(f *testing.F)           { fuzzMessage(f, &Credit{}, "credit") }
func FuzzCancel(f *testing.F)           { fuzzMessage(f, &Cancel{}, "cancel") }
func FuzzError(f *testing.F)            { fuzzMessage(f, &Error{}, "error") }

// FuzzNextChunk: the payload of a part of a FETCH reply.
func FuzzNextChunk(f *testing.F) {
	_, first, rest := nextFrame(f, readHex(f, "testdata/fetch_reply.hex"))
	_, second := oneFrame(f, rest)
	f.Add(first)
	f.Add(second)
	f.Fuzz(func(t *testing.T, p []byte) {
		var again []byte
		for rest := p; len(rest) > 0; {
			c, next, err := NextChunk(rest)
			if err != nil {
				return
			}
			again, rest = c.Append(again), next
		}
		if !bytes.Equal(again, p) {
			t.Fatalf("%x is written again as %x", p, again)
		}
	})
}

// FuzzHeader: a frame header.
func FuzzHeader(f *testing.F) {
	f.Add(AppendHeader(nil, CmdPing, 0, 1, 0))
	f.Add(AppendHeader(nil, CmdFetch, FlagMore|FlagReply, 1<<63, MaxPayload))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := ParseHeader(p)
		if err != nil {
			return
		}
		if n := h.PayloadBytes(); n < 0 || n > MaxPayload {
			t.Fatalf("payload of %d bytes", n)
		}
		if got := AppendHeader(nil, h.Command, h.Flags, h.RequestID, h.PayloadBytes()); !bytes.Equal(got, p[:HeaderBytes]) {
			t.Fatalf("%x is written again as %x", p[:HeaderBytes], got)
		}
	})
}

// FuzzName: a name that is accepted is nothing but tokens and dots.
func FuzzName(f *testing.F) {
	for _, s := range []string{"orders.eu", "a..b", "_inbox.7", "a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ValidName(s) != nil {
			return
		}
		for _, token := range bytes.Split([]byte(s), []byte(".")) {
			if len(token) == 0 || len(bytes.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")) != 0 {
				t.Fatalf("%q is accepted", s)
			}
		}
	})
}

func fuzzMessage(f *testing.F, m message, seed string) {
	_, p := oneFrame(f, readHex(f, "testdata/"+seed+".hex"))
	f.Add(p)
	f.Add(p[:len(p)/2])
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > MaxPayload {
			return
		}
		_ = decodeExactly(t, golden{file: seed, msg: m}, p)
	})
}
