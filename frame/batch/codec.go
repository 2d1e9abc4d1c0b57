package batch

// Codec says how the body is compressed, all records together. The numbers are Kafka's. Only clients compress.
type Codec uint8

const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLZ4    Codec = 3
	CodecZstd   Codec = 4

	CodecMax = CodecZstd

	codecMask = 7 // of Header.Attributes
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Codec of the body.
func (h *Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return "undefined"
}

// ParseCodec reads a codec's name; false for any other string.
func ParseCodec(s string) (Codec, bool) {
	for i, n := range codecNames {
		if n == s {
			return Codec(i), true
		}
	}
	return CodecNone, false
}
