package disk

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

// goldenBytes reads a file of hex digits with comments behind #.
func goldenBytes(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	p, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

var (
	goldenDirectory = [16]byte{0: 1, 15: 16}

	goldenEntry = entryHeader{
		Key: Key{Topic: 0x01020304, Partition: 0x05060708}, Index: 0x1112131415161718, Epoch: 0x2122232425262728,
		Kind: KindShard + 3, Payload: []byte("payload"),
	}
	goldenBlock = blockHeader{
		Start: 3, Generation: 17, Group: 0x0102030405060708,
		marks: marks{Flushed: 0x0102030405060707, Placed: 0x0102030405060706, Dead: 16, State: 99, Made: 8},
		Chain: 0xa1a2a3a4, Number: 5, Index: 1, Blocks: 2, First: 9, Flags: blockFlagMeta,
	}
	goldenChunk  = chunkHeader{First: 0, Chain: 0xb1b2b3b4, Number: 7, Start: 3, Flushed: 0x0102030405060707, Dead: 16, Base: true}
	goldenRecord = stateRecord{
		Kind: recordSnapshot, Cause: CauseSegment, Key: Key{Topic: 0x01020304, Partition: 0x05060708},
		Index: 0x11, Placed: 0x10, Group: 0x0102030405060707, Epoch: 3, From: 1000, To: 1010,
		Log: []byte("log"), Machine: []byte("machine"),
	}
)

func encodeEntry(e *entryHeader) []byte {
	p := make([]byte, entryHeaderBytes, entryHeaderBytes+len(e.Payload))
	putEntryHeader(p, e.Key, e.Kind, e.Index, e.Epoch, [3][]byte{e.Payload})
	return append(p, e.Payload...)
}

func encodeRecord(r *stateRecord) []byte {
	p := make([]byte, recordHeaderBytes)
	putRecordHeader(p, r, len(r.Log), len(r.Machine))
	return append(append(p, r.Log...), r.Machine...)
}

// encodeBlock is a block whose body begins with the golden entry after nine bytes of an earlier one.
func encodeBlock() ([]byte, blockHeader) {
	h, p := goldenBlock, make([]byte, blockBytes)
	n := copy(p[blockHeaderBytes:], "123456789")
	n += copy(p[blockHeaderBytes+n:], encodeEntry(&goldenEntry))
	h.Used = uint16(n)
	h.seal(p, journalSeed(goldenDirectory, 2))
	return p, h
}

func encodeChunk() ([]byte, chunkHeader) {
	c, r := goldenChunk, encodeRecord(&goldenRecord)
	p := make([]byte, chunkHeaderBytes, blockBytes)
	p = append(p, r...)
	c.Length = uint32(len(r))
	c.seal(p, journalSeed(goldenDirectory, 2))
	return p, c
}

func TestGoldenEntry(t *testing.T) {
	golden := goldenBytes(t, "entry_v1.hex")
	if got := encodeEntry(&goldenEntry); !bytes.Equal(got, golden) {
		t.Errorf("encoded\n%x, want\n%x", got, golden)
	}
	e, rest, err := parseEntry(golden)
	if err != nil || len(rest) != 0 || e.Key != goldenEntry.Key || e.Index != goldenEntry.Index || e.Epoch != goldenEntry.Epoch ||
		e.Kind != goldenEntry.Kind || !bytes.Equal(e.Payload, goldenEntry.Payload) {
		t.Errorf("decoded %+v, %d bytes left, %v", e, len(rest), err)
	}
}

func TestGoldenBlock(t *testing.T) {
	golden := append(goldenBytes(t, "block_v1.hex"), make([]byte, blockBytes)...)[:blockBytes]
	got, want := encodeBlock()
	if !bytes.Equal(got, golden) {
		t.Errorf("encoded\n%x, want\n%x", got[:200], golden[:200])
	}
	h, ok := parseBlock(golden, journalSeed(goldenDirectory, 2))
	if !ok || h != want {
		t.Errorf("decoded %+v, %v, want %+v", h, ok, want)
	}
	if _, ok := parseBlock(golden, journalSeed(goldenDirectory, 3)); ok {
		t.Error("another shard's block is taken for ours")
	}
}

func TestGoldenChunkAndRecord(t *testing.T) {
	golden := goldenBytes(t, "chunk_v1.hex")
	got, want := encodeChunk()
	if !bytes.Equal(got, golden) {
		t.Errorf("encoded\n%x, want\n%x", got, golden)
	}
	c, payload, ok := parseChunk(golden, journalSeed(goldenDirectory, 2))
	if !ok || c != want {
		t.Fatalf("decoded %+v, %v, want %+v", c, ok, want)
	}
	if r := goldenBytes(t, "record_v1.hex"); !bytes.Equal(payload, r) {
		t.Errorf("payload\n%x, want\n%x", payload, r)
	}
	r, rest, err := parseRecord(payload)
	if err != nil || len(rest) != 0 || !bytes.Equal(encodeRecord(&r), payload) || r.Key != goldenRecord.Key || r.To != goldenRecord.To {
		t.Errorf("decoded %+v, %v", r, err)
	}
}

// No byte of a block, entry or chunk may change without the decoder noticing.
func TestDecodersNoticeEveryByte(t *testing.T) {
	seed := journalSeed(goldenDirectory, 2)
	block, _ := encodeBlock()
	chunk, _ := encodeChunk()
	entry := encodeEntry(&goldenEntry)
	for _, c := range []struct {
		what  string
		good  []byte
		parse func(p []byte) bool
	}{
		{"block", block, func(p []byte) bool { _, ok := parseBlock(p, seed); return ok }},
		{"chunk", chunk, func(p []byte) bool { _, _, ok := parseChunk(p, seed); return ok }},
		{"entry", entry, func(p []byte) bool { _, _, err := parseEntry(p); return err == nil }},
	} {
		if !c.parse(c.good) {
			t.Fatalf("%s: the good one is refused", c.what)
		}
		for i := range c.good {
			for _, mask := range []byte{^byte(1), ^byte(0x80), 1} {
				bad := bytes.Clone(c.good)
				bad[i] ^= mask
				if c.parse(bad) {
					t.Errorf("%s: byte %d changed by %#x is not noticed", c.what, i, mask)
				}
			}
		}
	}
}

func FuzzBlock(f *testing.F) {
	good, _ := encodeBlock()
	f.Add(good, false)
	f.Add(good[:80], true)
	f.Fuzz(func(t *testing.T, p []byte, seal bool) {
		seed := journalSeed(goldenDirectory, 2)
		b := append(bytes.Clone(p), make([]byte, blockBytes)...)[:blockBytes]
		if seal { // what a broken writer of ours could have sealed
			b[blockVersionAt] = blockVersion
			le.PutUint32(b, crcOf(seed, b[4:]))
		}
		h, ok := parseBlock(b, seed)
		if !ok {
			return
		}
		n := 0
		s := entryStream{
			emit: func(e entryHeader, _ uint64) {
				if n += entryHeaderBytes + len(e.Payload); n > blockBodyBytes {
					t.Fatal("more bytes of entries than the block has")
				}
			},
			bad: func(uint64) {},
		}
		s.feed(&h, b[blockHeaderBytes:], h.Generation)
		again := bytes.Clone(b)
		h.seal(again, seed)
		if !bytes.Equal(again, b) {
			t.Fatal("sealed again it has other bytes")
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add(encodeEntry(&goldenEntry), false)
	f.Add(encodeEntry(&goldenEntry)[:entryHeaderBytes], true)
	f.Fuzz(func(t *testing.T, p []byte, seal bool) {
		if seal && len(p) >= entryHeaderBytes {
			p = bytes.Clone(p)
			le.PutUint32(p[entryLengthAt:], uint32(len(p)-entryHeaderBytes))
			p[entryVersionAt] = entryVersion
			le.PutUint32(p, crcOf(0, p[4:]))
		}
		e, rest, err := parseEntry(p)
		if err != nil {
			return
		}
		if again := encodeEntry(&e); !bytes.Equal(again, p[:len(p)-len(rest)]) {
			t.Fatal("encoded again it has other bytes")
		}
	})
}

func FuzzChunk(f *testing.F) {
	good, _ := encodeChunk()
	f.Add(good, false)
	f.Add(good[:chunkHeaderBytes], true)
	f.Fuzz(func(t *testing.T, p []byte, seal bool) {
		seed := journalSeed(goldenDirectory, 2)
		if seal && len(p) >= chunkHeaderBytes && len(p) <= writeBytes {
			p = bytes.Clone(p)
			p[chunkVersionAt] = chunkVersion
			le.PutUint32(p[chunkLengthAt:], uint32(len(p)-chunkHeaderBytes))
			le.PutUint32(p, crcOf(seed, p[4:]))
		}
		c, payload, ok := parseChunk(p, seed)
		if !ok {
			return
		}
		again := bytes.Clone(p[:chunkHeaderBytes+len(payload)])
		c.seal(again, seed)
		if !bytes.Equal(again, p[:len(again)]) {
			t.Fatal("sealed again it has other bytes")
		}
		for len(payload) > 0 {
			r, rest, err := parseRecord(payload)
			if err != nil {
				return
			}
			if !bytes.Equal(encodeRecord(&r), payload[:len(payload)-len(rest)]) {
				t.Fatal("record encoded again has other bytes")
			}
			payload = rest
		}
	})
}

func crcOf(seed uint32, p []byte) uint32 { return crc32.Update(seed, castagnoli, p) }
