package batch

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Our records are what a Kafka client reads.
func TestKafkaReadsOurRecords(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range 100 {
		var want []rec
		for i := range 1 + rnd.IntN(100) {
			want = append(want, randomRecord(rnd, uint32(i)))
		}
		_, body, _, err := Next(build(want, Options{}))
		if err != nil {
			t.Fatal(err)
		}
		var got []rec
		for len(body) > 0 {
			size, i := varint32(body, 0)
			var k kmsg.Record
			if err := k.ReadFrom(body[:i+int(size)]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			body = body[i+int(size):]
			got = append(got, fromKafka(&k))
		}
		if !equalRecords(got, want) {
			t.Fatalf("seed %d: Kafka's reader sees other records", seed)
		}
	}
}

// A Kafka client's records are what we read, null values included.
func TestWeReadKafkaRecords(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 100 {
		var body []byte
		var want []rec
		n := 1 + rnd.IntN(100)
		for i := range n {
			k := toKafka(randomRecord(rnd, uint32(i)))
			if rnd.IntN(10) == 0 {
				k.Value = nil
			}
			k.Length = int32(len(k.AppendTo(nil)) - 1) // the length itself is still 0, one byte
			body = k.AppendTo(body)
			want = append(want, fromKafka(&k))
		}
		h := Header{Count: uint32(n), LastOffsetDelta: uint32(n - 1), BodyBytes: uint32(len(body))}
		cut := rnd.IntN(len(body))
		if err := CheckRecords(&h, [][]byte{body[:cut], body[cut:]}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := readAll(&h, body)
		if err != nil || !equalRecords(got, want) {
			t.Fatalf("seed %d: we see other records than Kafka's writer wrote: %v", seed, err)
		}
		for i := range got {
			if (got[i].Value == nil) != (want[i].Value == nil) {
				t.Fatalf("seed %d: null and empty value are mixed up", seed)
			}
		}
	}
}

// Both write the very same bytes, and the body of ours is the body of a whole Kafka batch.
func TestKafkaWritesTheSameBytes(t *testing.T) {
	_, body, _, _ := Next(readHex(t, "batch_full"))
	var theirs []byte
	for _, r := range fullRecords {
		k := toKafka(r)
		k.Length = int32(len(k.AppendTo(nil)) - 1)
		theirs = k.AppendTo(theirs)
	}
	if !bytes.Equal(theirs, body) {
		t.Fatalf("Kafka's writer: %x\nours: %x", theirs, body)
	}
	in := kmsg.RecordBatch{Magic: 2, Length: int32(49 + len(body)), NumRecords: 4, Records: body}
	var out kmsg.RecordBatch
	if err := out.ReadFrom(in.AppendTo(nil)); err != nil || !bytes.Equal(out.Records, body) {
		t.Fatalf("as a Kafka batch: %v", err)
	}
}

func toKafka(r rec) kmsg.Record {
	k := kmsg.Record{TimestampDelta64: r.TimeDelta, OffsetDelta: int32(r.OffsetDelta), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	return k
}

func fromKafka(k *kmsg.Record) rec {
	r := rec{OffsetDelta: uint32(k.OffsetDelta), TimeDelta: k.TimestampDelta64, Key: k.Key, Value: k.Value}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, hdr{h.Key, h.Value})
	}
	return r
}
