package frame

// Empty is the payload of PING and its reply, of the PRODUCER ID request, and of the replies to DELETE TOPIC, ALTER TOPIC,
// SUBSCRIBE and UNSUBSCRIBE.
type Empty struct{}

func (m *Empty) Append(dst []byte) []byte { return dst }

func (m *Empty) Decode(p []byte) error {
	if len(p) != 0 {
		return BadTrailing
	}
	return nil
}

func (m *Hello) Append(dst []byte) []byte {
	dst = append(dst, m.MinVersion, m.MaxVersion)
	dst = le.AppendUint64(dst, m.Features)
	dst = appendText(dst, m.ClientName, MaxNameBytes)
	return appendText(dst, m.Software, MaxNameBytes)
}

func (m *Hello) Decode(p []byte) error {
	r := reader{p: p}
	m.MinVersion = r.u8()
	m.MaxVersion = r.u8()
	m.Features = r.u64()
	m.ClientName = r.text(MaxNameBytes)
	m.Software = r.text(MaxNameBytes)
	if m.MinVersion > m.MaxVersion {
		r.fail(BadValue)
	}
	return r.done()
}

func (m *HelloReply) Append(dst []byte) []byte {
	dst = append(dst, m.Version)
	dst = le.AppendUint64(dst, m.Features)
	dst = append(dst, m.DirectoryID[:]...)
	dst = le.AppendUint32(dst, m.ProduceWindow)
	dst = le.AppendUint32(dst, m.MaxPayload)
	dst = appendBool(dst, m.AuthRequired)
	dst = le.AppendUint32(dst, m.Shard)
	return le.AppendUint32(dst, m.Shards)
}

func (m *HelloReply) Decode(p []byte) error {
	r := reader{p: p}
	m.Version = r.u8()
	m.Features = r.u64()
	copy(m.DirectoryID[:], r.take(len(m.DirectoryID)))
	m.ProduceWindow = r.u32()
	m.MaxPayload = r.u32()
	m.AuthRequired = r.boolean()
	m.Shard = r.u32()
	m.Shards = r.u32()
	return r.done()
}

func (m *Auth) Append(dst []byte) []byte {
	return appendBytes(appendText(dst, m.Mechanism, MaxMechanismBytes), m.Data)
}

// Decode leaves Data as a view of p.
func (m *Auth) Decode(p []byte) error {
	r := reader{p: p}
	m.Mechanism = r.text(MaxMechanismBytes)
	m.Data = r.bytes()
	return r.done()
}

func (m *AuthReply) Append(dst []byte) []byte {
	return appendBytes(appendBool(dst, m.Done), m.Data)
}

// Decode leaves Data as a view of p.
func (m *AuthReply) Decode(p []byte) error {
	r := reader{p: p}
	m.Done = r.boolean()
	m.Data = r.bytes()
	return r.done()
}
