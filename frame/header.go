package frame

const (
	lengthAt, versionAt, commandAt, flagsAt, requestIDAt = 0, 4, 5, 6, 8

	lengthBytes = 4                         // the length does not count itself
	lengthMin   = HeaderBytes - lengthBytes // a frame without payload
	lengthMax   = lengthMin + MaxPayload

	knownFlags = FlagMore | FlagReply
)

// AppendHeader appends the 16 bytes of a frame header to dst. The payload of payloadLen bytes, at most MaxPayload, is the
// caller's to append.
func AppendHeader(dst []byte, cmd Command, flags uint16, id uint64, payloadLen int) []byte {
	dst = le.AppendUint32(dst, uint32(lengthMin+payloadLen))
	dst = append(dst, Version, byte(cmd), byte(flags), byte(flags>>8))
	return le.AppendUint64(dst, id)
}

// ParseHeader decodes and checks the first 16 bytes of p. The fields are filled in with an error too, so that a refusal
// can name the request.
//
// Errors: BadHeader, more bytes are needed; BadLength and BadSize, the stream cannot be followed any further; BadVersion,
// BadCommand and BadFlags, the frame can be skipped by its length.
func ParseHeader(p []byte) (Header, error) {
	if len(p) < HeaderBytes {
		return Header{}, BadHeader
	}
	h := Header{
		Length:    le.Uint32(p[lengthAt:]),
		Version:   p[versionAt],
		Command:   Command(p[commandAt]),
		Flags:     le.Uint16(p[flagsAt:]),
		RequestID: le.Uint64(p[requestIDAt:]),
	}
	switch {
	case h.Length < lengthMin:
		return h, BadLength
	case h.Length > lengthMax:
		return h, BadSize
	case h.Version != Version:
		return h, BadVersion
	case !h.Command.Known():
		return h, BadCommand
	case h.Flags&^knownFlags != 0:
		return h, BadFlags
	}
	return h, nil
}

// PayloadBytes is the size of what follows the header. Only for headers that ParseHeader did not refuse for their length.
func (h Header) PayloadBytes() int { return int(h.Length) - lengthMin }

// More says that another part of the same message follows.
func (h Header) More() bool { return h.Flags&FlagMore != 0 }

// Reply says that the frame goes from broker to client.
func (h Header) Reply() bool { return h.Flags&FlagReply != 0 }

// AppendFrame appends one frame with m as its payload. The payload must fit MaxPayload: for replies that may not, see
// AppendParts. The call of m is indirect: hot messages use AppendHeader and their own Append.
func AppendFrame(dst []byte, cmd Command, flags uint16, id uint64, m interface{ Append([]byte) []byte }) []byte {
	start := len(dst)
	dst = AppendHeader(dst, cmd, flags, id, 0)
	dst = m.Append(dst)
	le.PutUint32(dst[start:], uint32(len(dst)-start-lengthBytes))
	return dst
}

// AppendParts appends payload as one frame, or as several with FlagMore on all but the last.
func AppendParts(dst []byte, cmd Command, flags uint16, id uint64, payload []byte) []byte {
	for len(payload) > MaxPayload {
		dst = AppendHeader(dst, cmd, flags|FlagMore, id, MaxPayload)
		dst = append(dst, payload[:MaxPayload]...)
		payload = payload[MaxPayload:]
	}
	dst = AppendHeader(dst, cmd, flags, id, len(payload))
	return append(dst, payload...)
}
