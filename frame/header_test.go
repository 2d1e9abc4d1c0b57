package frame

import (
	"bytes"
	"testing"
)

// A length is judged before anything else, and what is left of the header is there for the answer.
func TestHeaderRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(p []byte)
		want *DecodeError
	}{
		{"as it is", func(p []byte) {}, nil},
		{"length 0", func(p []byte) { le.PutUint32(p, 0) }, BadLength},
		{"length 1", func(p []byte) { le.PutUint32(p, 1) }, BadLength},
		{"length 11", func(p []byte) { le.PutUint32(p, 11) }, BadLength},
		{"length 12", func(p []byte) { le.PutUint32(p, 12) }, nil},
		{"greatest length less one", func(p []byte) { le.PutUint32(p, 12+MaxPayload-1) }, nil},
		{"greatest length", func(p []byte) { le.PutUint32(p, 12+MaxPayload) }, nil},
		{"greatest length and one", func(p []byte) { le.PutUint32(p, 12+MaxPayload+1) }, BadSize},
		{"length 2^31-1", func(p []byte) { le.PutUint32(p, 1<<31-1) }, BadSize},
		{"length 2^31", func(p []byte) { le.PutUint32(p, 1<<31) }, BadSize},
		{"length 2^32-1", func(p []byte) { le.PutUint32(p, 1<<32-1) }, BadSize},
		{"version 0", func(p []byte) { p[4] = 0 }, BadVersion},
		{"version 2", func(p []byte) { p[4] = 2 }, BadVersion},
		{"command 0", func(p []byte) { p[5] = 0 }, BadCommand},
		{"command 20", func(p []byte) { p[5] = 20 }, nil},
		{"command 21", func(p []byte) { p[5] = 21 }, BadCommand},
		{"command 255", func(p []byte) { p[5] = 255 }, BadCommand},
		{"both flags", func(p []byte) { p[6] = 3 }, nil},
		{"flag 2", func(p []byte) { p[6] = 4 }, BadFlags},
		{"flag 15", func(p []byte) { p[7] = 0x80 }, BadFlags},
	} {
		p := AppendHeader(nil, CmdPublish, 0, 0x1122334455667788, 100)
		c.set(p)
		h, err := ParseHeader(p)
		if (c.want == nil && err != nil) || (c.want != nil && err != c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if h.RequestID != 0x1122334455667788 {
			t.Errorf("%s: request id %x is lost", c.name, h.RequestID)
		}
	}
	p := AppendHeader(nil, CmdPing, 0, 1, 0)
	for n := range HeaderBytes {
		if _, err := ParseHeader(p[:n]); err != BadHeader {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A long reply is cut into frames that join to the same bytes, only the last without FlagMore.
func TestAppendParts(t *testing.T) {
	for _, n := range []int{0, 1, MaxPayload - 1, MaxPayload, MaxPayload + 1, 2 * MaxPayload, 2*MaxPayload + 7} {
		payload := bytes.Repeat([]byte{1, 2, 3}, n/3+1)[:n]
		p := AppendParts(nil, CmdMetadata, FlagReply, 5, payload)
		var joined []byte
		for more := true; more; {
			h, part, rest := nextFrame(t, p)
			if h.RequestID != 5 || h.Command != CmdMetadata || !h.Reply() {
				t.Fatalf("%d bytes: part %+v", n, h)
			}
			joined, p, more = append(joined, part...), rest, h.More()
		}
		if len(p) != 0 || !bytes.Equal(joined, payload) {
			t.Errorf("%d bytes come back as %d, %d left over", n, len(joined), len(p))
		}
	}
}
