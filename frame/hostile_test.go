package frame

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/slipringmq/slipring/frame/batch"
)

// hostile is what a length or count may be set to by somebody who means harm.
var hostile = []uint32{0, 1, 2, MaxNameBytes - 1, MaxNameBytes, MaxNameBytes + 1, MaxErrorText, MaxErrorText + 1,
	MaxMetadataTopics, MaxMetadataTopics + 1, MaxFetchPartitions, MaxFetchPartitions + 1,
	1<<16 - 1, 1 << 16, MaxPayload - 1, MaxPayload, MaxPayload + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1}

// Truncated or longer payloads are refused, or, where a message takes the rest of the payload, read as exactly what they
// are.
func TestDecodeRefusesTruncatedAndTrailing(t *testing.T) {
	for _, g := range goldens(t) {
		_, p := oneFrame(t, readHex(t, "testdata/"+g.file+".hex"))
		for n := range len(p) + 2 {
			q := append(bytes.Clone(p[:min(n, len(p))]), make([]byte, max(0, n-len(p)))...)
			err := decodeExactly(t, g, q)
			if n != len(p) && err == nil && !takesRest(g.msg) {
				t.Errorf("%s: %d of %d bytes are accepted", g.file, n, len(p))
			}
			if n == len(p) && err != nil {
				t.Errorf("%s: %v", g.file, err)
			}
		}
	}
}

// Whatever a 2 or 4 byte field is set to, at any place, decoding ends without a panic and without memory out of proportion to
// the bytes that are there.
func TestDecodeSurvivesHostileLengths(t *testing.T) {
	for _, g := range goldens(t) {
		_, p := oneFrame(t, readHex(t, "testdata/"+g.file+".hex"))
		for _, v := range hostile {
			for at := range len(p) {
				q := bytes.Clone(p)
				if at+4 <= len(q) {
					le.PutUint32(q[at:], v)
					checkDecode(t, g, q)
				}
				if at+2 <= len(q) && v < 1<<16 {
					q = bytes.Clone(p)
					le.PutUint16(q[at:], uint16(v))
					checkDecode(t, g, q)
				}
			}
		}
	}
}

func TestDecodeSurvivesEveryByteValue(t *testing.T) {
	for _, g := range goldens(t) {
		_, p := oneFrame(t, readHex(t, "testdata/"+g.file+".hex"))
		for at := range p {
			was := p[at]
			for v := range 256 {
				p[at] = byte(v)
				decodeExactly(t, g, p)
			}
			p[at] = was
		}
	}
}

// Every list at its bound is read, one above it is refused before anything is allocated.
func TestDecodeHoldsListBounds(t *testing.T) {
	list := func(before []byte, n, elementBytes int) []byte {
		return append(le.AppendUint32(before, uint32(n)), make([]byte, n*elementBytes)...)
	}
	for _, c := range []struct {
		name string
		msg  message
		max  int
		p    func(n int) []byte
	}{
		{"METADATA", &Metadata{}, MaxMetadataTopics, func(n int) []byte { return list(nil, n, 2) }},
		{"endpoints", &MetadataReply{}, MaxEndpoints, func(n int) []byte { return append(list(nil, n, endpointMinBytes), 0, 0, 0, 0) }},
		{"METADATA reply", &MetadataReply{}, MaxMetadataTopics, func(n int) []byte { return list(le.AppendUint32(nil, 0), n, topicMetadataMinBytes) }},
		{"LIST TOPICS reply", &ListTopicsReply{}, MaxListTopics, func(n int) []byte { return list([]byte{0}, n, topicSummaryMinBytes) }},
		{"DESCRIBE TOPIC reply", &DescribeTopicReply{}, MaxTopicPartitions, func(n int) []byte { return list(make([]byte, 2+4+4), n, partitionInfoBytes) }},
		{"FETCH", &Fetch{}, MaxFetchPartitions, func(n int) []byte { return list(make([]byte, 12), n, FetchPartitionBytes) }},
		{"LIST OFFSETS", &ListOffsets{}, MaxOffsetQueries, func(n int) []byte { return list(nil, n, offsetQueryBytes) }},
		{"LIST OFFSETS reply", &ListOffsetsReply{}, MaxOffsetQueries, func(n int) []byte { return list(nil, n, offsetAnswerBytes) }},
	} {
		for _, n := range []int{0, 1, c.max - 1, c.max} {
			if _, ok := c.msg.(*Fetch); ok && n == 0 {
				continue
			}
			if err := fresh(c.msg).Decode(c.p(n)); err != nil {
				t.Errorf("%s of %d: %v", c.name, n, err)
			}
		}
		if err := fresh(c.msg).Decode(c.p(c.max + 1)); err != BadCount {
			t.Errorf("%s of %d: %v", c.name, c.max+1, err)
		}
	}
}

// A METADATA reply may not point outside its own table.
func TestDecodeRefusesForeignEndpoint(t *testing.T) {
	m := MetadataReply{Endpoints: []Endpoint{{"h", 1, 0}}, Topics: []TopicMetadata{{Name: "a", Partitions: []uint16{0, 1}}}}
	if err := new(MetadataReply).Decode(m.Append(nil)); err != BadValue {
		t.Errorf("partition at endpoint 1 of 1: %v", err)
	}
}

// What is refused for a reason of its own, with the code that the peer is told.
func TestDecodeRefusals(t *testing.T) {
	long := string(bytes.Repeat([]byte("a"), MaxNameBytes+1))
	fixed := func(p []byte, at int, v byte) []byte { p[at] = v; return p }
	produce := (&Produce{Batch: make([]byte, batch.HeaderBytes)}).Append(nil)
	publish := (&Publish{Value: []byte("v")}).Append(nil)
	chunk := (&FetchChunk{}).Append(nil)
	for _, c := range []struct {
		name string
		msg  message
		p    []byte
		want *DecodeError
	}{
		{"HELLO with versions 2 to 1", &Hello{}, (&Hello{MinVersion: 2, MaxVersion: 1}).Append(nil), BadValue},
		{"HELLO with a control character", &Hello{}, append(make([]byte, 10), 1, 0, '\n', 0, 0), BadText},
		{"HELLO with invalid UTF-8", &Hello{}, append(make([]byte, 10), 1, 0, 0xff, 0, 0), BadText},
		{"AUTH with a long mechanism", &Auth{}, append([]byte{MaxMechanismBytes + 1, 0}, make([]byte, 40)...), BadText},
		{"long name", &CreateTopic{}, (&CreateTopic{Name: long}).Append(nil), BadNameLength},
		{"unknown setting", &AlterTopic{}, (&AlterTopic{Name: "a", Settings: Settings{Mask: SetAll + 1}}).Append(nil), BadSetting},
		{"LIST TOPICS above its bound", &ListTopics{}, (&ListTopics{Limit: MaxListTopics + 1}).Append(nil), BadCount},
		{"PRODUCE without a whole batch header", &Produce{}, produce[:len(produce)-1], BadShort},
		{"PRODUCE with acks 3", &Produce{}, fixed(bytes.Clone(produce), 8, 3), BadValue},
		{"PRODUCE with reserved byte", &Produce{}, fixed(bytes.Clone(produce), 11, 1), BadReserved},
		{"PUBLISH with acks 3", &Publish{}, fixed(bytes.Clone(publish), 8, 3), BadValue},
		{"PUBLISH with HasKey 2", &Publish{}, fixed(bytes.Clone(publish), 9, 2), BadBool},
		{"PUBLISH with a key but not HasKey", &Publish{}, fixed(bytes.Clone(publish), 10, 1), BadValue},
		{"PUBLISH with a key beyond its end", &Publish{}, fixed(fixed(bytes.Clone(publish), 9, 1), 10, 2), BadShort},
		{"PUBLISH of 64 KiB and a byte", &Publish{}, append(publish, make([]byte, MaxPublishPayload)...), BadPublish},
		{"chunk with reserved byte", &FetchChunk{}, fixed(bytes.Clone(chunk), 10, 1), BadReserved},
		{"LIST OFFSETS of kind 3", &ListOffsets{}, (&ListOffsets{Partitions: []OffsetQuery{{Kind: 3}}}).Append(nil), BadValue},
		{"SUBSCRIBE with negative credit", &Subscribe{}, (&Subscribe{Records: -1}).Append(nil), BadValue},
		{"SUBSCRIBE with negative bytes", &Subscribe{}, (&Subscribe{Bytes: math.MinInt64}).Append(nil), BadValue},
		{"SUBSCRIBE to all from an offset", &Subscribe{}, (&Subscribe{Start: SubscribeOffset, Partition: AllPartitions}).Append(nil), BadPartition},
		{"FETCH of nothing", &Fetch{}, (&Fetch{MaxWaitMillis: 1}).Append(nil), BadValue},
		{"LIST OFFSETS of the start with a time", &ListOffsets{}, fixed((&ListOffsets{Partitions: []OffsetQuery{{}}}).Append(nil), 4+9, 1), BadValue},
		{"LIST OFFSETS of the end with a time", &ListOffsets{}, fixed((&ListOffsets{Partitions: []OffsetQuery{{Kind: OffsetEnd}}}).Append(nil), 4+16, 0x80), BadValue},
		{"SUBSCRIBE from the tail with an offset", &Subscribe{}, fixed((&Subscribe{}).Append(nil), 2+4+1, 1), BadValue},
		{"SUBSCRIBE from the start with an offset", &Subscribe{}, fixed((&Subscribe{Start: SubscribeLog}).Append(nil), 2+4+1, 1), BadValue},
		{"SUBSCRIBE from start 3", &Subscribe{}, (&Subscribe{Start: 3}).Append(nil), BadValue},
		{"CREDIT taken away", &Credit{}, (&Credit{Records: -1}).Append(nil), BadValue},
		{"CREDIT of bytes taken away", &Credit{}, (&Credit{Bytes: -1}).Append(nil), BadValue},
		{"ERROR without a code", &Error{}, (&Error{}).Append(nil), BadValue},
		{"ERROR with outcome 2", &Error{}, (&Error{Code: ErrBusy, Outcome: 2}).Append(nil), BadValue},
		{"PING with a payload", &Empty{}, []byte{0}, BadTrailing},
	} {
		err := c.msg.Decode(c.p)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if CodeOf(err) != c.want.Code {
			t.Errorf("%s: code %d, want %d", c.name, CodeOf(err), c.want.Code)
		}
	}
}

// decodeExactly decodes p as g's message; what is accepted must be written again as the same bytes.
func decodeExactly(t testing.TB, g golden, p []byte) error {
	t.Helper()
	m := fresh(g.msg)
	if err := m.Decode(p); err != nil {
		if code := CodeOf(err); code == ErrNone || code == ErrInternal {
			t.Fatalf("%s: %v has no code for the peer", g.file, err)
		}
		return err
	}
	if got := m.Append(nil); !bytes.Equal(got, p) {
		t.Fatalf("%s: %x is written again as %x", g.file, p, got)
	}
	return nil
}

// checkDecode is decodeExactly under a bound on memory: a Go struct takes up to 8 times its bytes on the wire. The runtime
// counts for the whole process, so only what three measurements in a row show is believed.
func checkDecode(t testing.TB, g golden, p []byte) {
	t.Helper()
	bound := uint64(8*len(p) + 4096)
	spent := uint64(0)
	for range 3 {
		m := fresh(g.msg)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = m.Decode(p)
		runtime.ReadMemStats(&after)
		if spent = after.TotalAlloc - before.TotalAlloc; spent <= bound {
			decodeExactly(t, g, p)
			return
		}
	}
	t.Fatalf("%s: %d bytes allocated for %d bytes", g.file, spent, len(p))
}

func takesRest(m message) bool {
	switch m.(type) {
	case *Produce, *Publish, *Deliver:
		return true
	}
	return false
}
