package frame

import "testing"

// BenchmarkDecodePublish: header and payload of one PUBLISH of 64 bytes, hot in cache, one core. No socket, no disk: it
// bounds the codec and says nothing of the end-to-end rate.
func BenchmarkDecodePublish(b *testing.B) {
	p := AppendFrame(nil, CmdPublish, 0, 1, &Publish{Topic: 1, HasKey: true, Key: []byte("key"), Value: make([]byte, 64)})
	benchmarkDecode(b, p, &Publish{})
}

// BenchmarkDecodeProduce: the same for one PRODUCE with a batch of 16 KiB; the batch itself is not looked into.
func BenchmarkDecodeProduce(b *testing.B) {
	p := AppendFrame(nil, CmdProduce, 0, 1, &Produce{Topic: 1, Acks: AcksDurable, Batch: make([]byte, 16<<10)})
	benchmarkDecode(b, p, &Produce{})
}

// BenchmarkDecodeFetch: one FETCH of 100 partitions.
func BenchmarkDecodeFetch(b *testing.B) {
	p := AppendFrame(nil, CmdFetch, 0, 1, &Fetch{Partitions: make([]FetchPartition, 100)})
	benchmarkDecode(b, p, &Fetch{})
}

// BenchmarkEncodeProduceReply: header and payload of one reply.
func BenchmarkEncodeProduceReply(b *testing.B) {
	var dst []byte
	m := ProduceReply{Topic: 1, Partition: 2, BaseOffset: 3}
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendHeader(dst[:0], CmdProduce, FlagReply, 1, ProduceReplyBytes)
		dst = m.Append(dst)
	}
}

func benchmarkDecode(b *testing.B, p []byte, m message) {
	b.ReportAllocs()
	for b.Loop() {
		h, err := ParseHeader(p)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Decode(p[HeaderBytes : HeaderBytes+h.PayloadBytes()]); err != nil {
			b.Fatal(err)
		}
	}
}
