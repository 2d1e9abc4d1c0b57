package batch

import (
	"math"
	"testing"
)

// One flipped bit anywhere in a header is noticed.
func TestHeaderRefusesEveryFlippedBit(t *testing.T) {
	p := readHex(t, "batch_stamped")
	for i := range HeaderBytes * 8 {
		p[i/8] ^= 1 << (i % 8)
		if _, err := ParseHeader(p); err != ErrHeaderCRC {
			t.Errorf("bit %d of byte %d flipped: %v", i%8, i/8, err)
		}
		p[i/8] ^= 1 << (i % 8)
	}
	if _, err := ParseHeader(p); err != nil {
		t.Error(err)
	}
}

func TestHeaderRefusesShort(t *testing.T) {
	p := readHex(t, "batch_one")
	for n := range HeaderBytes {
		if _, err := ParseHeader(p[:n]); err != ErrShort {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for n := HeaderBytes; n < len(p); n++ {
		if _, _, _, err := Next(p[:n]); err != ErrShort {
			t.Fatalf("%d bytes of a batch: %v", n, err)
		}
	}
}

// With a right CRC the fields themselves are judged.
func TestHeaderRefusesBadFields(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Header)
		want error
	}{
		{"as it is", func(h *Header) {}, nil},
		{"version 0", func(h *Header) { h.Version = 0 }, ErrVersion},
		{"version 2", func(h *Header) { h.Version = 2 }, ErrVersion},
		{"codec 4", func(h *Header) { h.Attributes = 4 }, nil},
		{"codec 5", func(h *Header) { h.Attributes = 5 }, ErrAttributes},
		{"attribute bit 3", func(h *Header) { h.Attributes = 8 }, ErrAttributes},
		{"attribute bit 7", func(h *Header) { h.Attributes = 0x80 }, ErrAttributes},
		{"no records", func(h *Header) { h.Count = 0 }, ErrCount},
		{"more records than offsets", func(h *Header) { h.LastOffsetDelta = h.Count - 2 }, ErrCount},
		{"gaps", func(h *Header) { h.LastOffsetDelta = math.MaxInt32 }, nil},
		{"span of 2^31", func(h *Header) { h.LastOffsetDelta = 1 << 31 }, ErrCount},
		{"span of 2^32-1", func(h *Header) { h.LastOffsetDelta = math.MaxUint32 }, ErrCount},
		{"body too short for its count", func(h *Header) { h.BodyBytes = h.Count*RecordMinBytes - 1 }, ErrCount},
		{"body just long enough", func(h *Header) { h.BodyBytes = h.Count * RecordMinBytes }, nil},
		{"count beyond any body", func(h *Header) { h.Count, h.LastOffsetDelta = math.MaxInt32, math.MaxInt32 }, ErrCount},
		{"count that a compressed body may have", func(h *Header) { h.Count, h.LastOffsetDelta, h.Attributes = 1<<31-1, 1<<31-1, 4 }, nil},
		{"greatest offset", func(h *Header) { h.BaseOffset = math.MaxInt64 - uint64(h.LastOffsetDelta) }, nil},
		{"offset past 2^63", func(h *Header) { h.BaseOffset = math.MaxInt64 - uint64(h.LastOffsetDelta) + 1 }, ErrCount},
		{"offset that wraps", func(h *Header) { h.BaseOffset = math.MaxUint64 }, ErrCount},
	} {
		h, err := ParseHeader(readHex(t, "batch_full"))
		if err != nil {
			t.Fatal(err)
		}
		c.set(&h)
		if _, err := ParseHeader(h.Append(nil)); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for i := ReservedAt; i < HeaderBytes; i++ {
		p := readHex(t, "batch_full")
		p[i] = 1
		Stamp(p, 0, 0, 0, 0) // a right CRC
		if _, err := ParseHeader(p); err != ErrReserved {
			t.Errorf("reserved byte %d set: %v", i, err)
		}
	}
}

// What a producer may not say although the header is sound.
func TestHeaderCheckProduced(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Header)
		want error
	}{
		{"as it is", func(h *Header) {}, nil},
		{"gap", func(h *Header) { h.LastOffsetDelta++ }, ErrCount},
		{"sequence without producer", func(h *Header) { h.ProducerID, h.ProducerEpoch = NoProducer, 0 }, ErrProducer},
		{"epoch without producer", func(h *Header) { h.ProducerID, h.BaseSequence = NoProducer, 0 }, ErrProducer},
		{"no producer", func(h *Header) { h.ProducerID, h.BaseSequence, h.ProducerEpoch = NoProducer, 0, 0 }, nil},
		{"max before base time", func(h *Header) { h.MaxTime = h.BaseTime - 1 }, ErrTime},
		{"negative expiry", func(h *Header) { h.Expiry = -1 }, ErrTime},
		{"no expiry", func(h *Header) { h.Expiry = NoExpiry }, nil},
	} {
		h, _ := ParseHeader(readHex(t, "batch_full"))
		c.set(&h)
		if err := h.CheckProduced(); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Another directory, topic or partition shows as another tag.
func TestPartitionTagTellsPlacesApart(t *testing.T) {
	seen := map[uint32]string{}
	add := func(tag uint32, what string) {
		if other, ok := seen[tag]; ok {
			t.Errorf("%s has the tag of %s", what, other)
		}
		seen[tag] = what
	}
	add(PartitionTag(goldenDir, 7, 2), "7/2")
	add(PartitionTag(goldenDir, 2, 7), "2/7")
	add(PartitionTag(goldenDir, 7, 3), "7/3")
	add(PartitionTag([16]byte{1}, 7, 2), "7/2 of another directory")
}

func TestCodecNames(t *testing.T) {
	for c := CodecNone; c <= CodecMax; c++ {
		if got, ok := ParseCodec(c.String()); !ok || got != c {
			t.Errorf("codec %d is named %q, which reads as %d", c, c, got)
		}
	}
	if _, ok := ParseCodec("brotli"); ok || Codec(5).String() != "undefined" {
		t.Error("an unknown codec has a name")
	}
}
