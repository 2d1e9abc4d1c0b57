package frame

// Append writes an Offset with SubscribeOffset only, 0 with the other starts.
func (m *Subscribe) Append(dst []byte) []byte {
	offset := m.Offset
	if m.Start != SubscribeOffset {
		offset = 0
	}
	dst = appendString(dst, m.Name)
	dst = le.AppendUint32(dst, m.Partition)
	dst = append(dst, byte(m.Start))
	dst = le.AppendUint64(dst, offset)
	dst = le.AppendUint64(dst, uint64(m.Records))
	return le.AppendUint64(dst, uint64(m.Bytes))
}

// Decode refuses negative credit, an offset that the start does not use, and a start offset for all partitions.
func (m *Subscribe) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	m.Partition = r.u32()
	m.Start = SubscribeStart(r.enum(uint8(SubscribeOffset)))
	m.Offset = r.u64()
	m.Records = r.i64()
	m.Bytes = r.i64()
	if m.Records < 0 || m.Bytes < 0 || m.Start != SubscribeOffset && m.Offset != 0 {
		r.fail(BadValue)
	}
	if err := r.done(); err != nil {
		return err
	}
	if m.Start == SubscribeOffset && m.Partition == AllPartitions {
		return BadPartition
	}
	return nil
}

func (m *Unsubscribe) Append(dst []byte) []byte { return dst }

func (m *Unsubscribe) Decode(p []byte) error { return (*Empty)(m).Decode(p) }

// Append writes the fixed fields and Data.
func (m *Deliver) Append(dst []byte) []byte {
	return append(m.AppendHead(dst), m.Data...)
}

// AppendHead writes the fixed fields only, for data that is sent from where it lies.
func (m *Deliver) AppendHead(dst []byte) []byte {
	dst = le.AppendUint32(dst, m.Topic)
	dst = le.AppendUint32(dst, m.Partition)
	return le.AppendUint32(dst, m.Lost)
}

// Decode leaves Data as a view of p.
func (m *Deliver) Decode(p []byte) error {
	if len(p) < DeliverFixedBytes {
		return BadShort
	}
	m.Topic = le.Uint32(p)
	m.Partition = le.Uint32(p[4:])
	m.Lost = le.Uint32(p[8:])
	m.Data = p[DeliverFixedBytes:]
	return nil
}

func (m *Credit) Append(dst []byte) []byte {
	return le.AppendUint64(le.AppendUint64(dst, uint64(m.Records)), uint64(m.Bytes))
}

// Decode refuses negative amounts: credit is only ever added by the client.
func (m *Credit) Decode(p []byte) error {
	if err := exactly(p, CreditBytes); err != nil {
		return err
	}
	m.Records = int64(le.Uint64(p))
	m.Bytes = int64(le.Uint64(p[8:]))
	if m.Records < 0 || m.Bytes < 0 {
		return BadValue
	}
	return nil
}

func (m *Cancel) Append(dst []byte) []byte { return le.AppendUint64(dst, m.RequestID) }

func (m *Cancel) Decode(p []byte) error {
	if err := exactly(p, 8); err != nil {
		return err
	}
	m.RequestID = le.Uint64(p)
	return nil
}
