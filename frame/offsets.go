package frame

const (
	offsetQueryBytes  = 4 + 4 + 1 + 8
	offsetAnswerBytes = 4 + 4 + 2 + 8 + 8
)

// Append writes a Time with OffsetByTime only, 0 with the other kinds.
func (m *ListOffsets) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(m.Partitions)))
	for i := range m.Partitions {
		q := &m.Partitions[i]
		dst = le.AppendUint32(dst, q.Topic)
		dst = le.AppendUint32(dst, q.Partition)
		time := q.Time
		if q.Kind != OffsetByTime {
			time = 0
		}
		dst = append(dst, byte(q.Kind))
		dst = le.AppendUint64(dst, uint64(time))
	}
	return dst
}

// Decode reuses Partitions. It refuses a Time where the kind has none: the sender meant something else.
func (m *ListOffsets) Decode(p []byte) error {
	r := reader{p: p}
	m.Partitions = resize(m.Partitions, r.count(MaxOffsetQueries, offsetQueryBytes))
	for i := range m.Partitions {
		q := &m.Partitions[i]
		q.Topic = r.u32()
		q.Partition = r.u32()
		q.Kind = OffsetKind(r.enum(uint8(OffsetByTime)))
		q.Time = r.i64()
		if q.Kind != OffsetByTime && q.Time != 0 {
			r.fail(BadValue)
		}
	}
	return r.done()
}

func (m *ListOffsetsReply) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(m.Partitions)))
	for i := range m.Partitions {
		a := &m.Partitions[i]
		dst = le.AppendUint32(dst, a.Topic)
		dst = le.AppendUint32(dst, a.Partition)
		dst = le.AppendUint16(dst, uint16(a.Error))
		dst = le.AppendUint64(dst, a.Offset)
		dst = le.AppendUint64(dst, uint64(a.Time))
	}
	return dst
}

// Decode reuses Partitions.
func (m *ListOffsetsReply) Decode(p []byte) error {
	r := reader{p: p}
	m.Partitions = resize(m.Partitions, r.count(MaxOffsetQueries, offsetAnswerBytes))
	for i := range m.Partitions {
		a := &m.Partitions[i]
		a.Topic = r.u32()
		a.Partition = r.u32()
		a.Error = r.errorCode()
		a.Offset = r.u64()
		a.Time = r.i64()
	}
	return r.done()
}
