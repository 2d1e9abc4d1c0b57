package frame

import "testing"

// The hot messages cost no allocation in either direction once their slices have grown.
func TestHotMessagesDoNotAllocate(t *testing.T) {
	batch := readHex(t, "batch/testdata/batch_full.hex")
	var dst []byte
	hot := func(name string, m message) {
		p := m.Append(nil)
		if n := testing.AllocsPerRun(100, func() {
			if m.Decode(p) != nil {
				t.Fatal(name)
			}
		}); n != 0 {
			t.Errorf("%s: Decode makes %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { dst = m.Append(dst[:0]) }); n != 0 {
			t.Errorf("%s: Append makes %v allocations", name, n)
		}
		p = p[:len(p)/8]
		if n := testing.AllocsPerRun(100, func() {
			if m.Decode(p) == nil {
				t.Fatal(name)
			}
		}); n != 0 {
			t.Errorf("%s: a refusal makes %v allocations", name, n)
		}
	}
	hot("PRODUCE", &Produce{Topic: 1, Batch: batch})
	hot("PRODUCE reply", &ProduceReply{Topic: 1})
	hot("PUBLISH", &Publish{Topic: 1, HasKey: true, Key: []byte("k"), Value: []byte("v")})
	hot("FETCH", &Fetch{Partitions: make([]FetchPartition, 100)})
	hot("FETCH reply", &FetchChunk{Data: batch})
	hot("DELIVER", &Deliver{Data: []byte("some bytes")})
	hot("CREDIT", &Credit{Records: 1, Bytes: 1})
	hot("CANCEL", &Cancel{RequestID: 1})

	frame := AppendHeader(nil, CmdPublish, 0, 1, 0)
	if n := testing.AllocsPerRun(100, func() {
		dst = AppendHeader(dst[:0], CmdPublish, 0, 1, 100)
		if _, err := ParseHeader(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseHeader(frame[:4]); err == nil {
			t.Fatal("short header accepted")
		}
	}); n != 0 {
		t.Errorf("header: %v allocations", n)
	}
}
