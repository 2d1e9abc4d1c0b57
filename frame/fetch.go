package frame

func (m *Fetch) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, m.MaxWaitMillis)
	dst = le.AppendUint32(dst, m.MinBytes)
	dst = le.AppendUint32(dst, m.MaxBytes)
	dst = le.AppendUint32(dst, uint32(len(m.Partitions)))
	for i := range m.Partitions {
		f := &m.Partitions[i]
		dst = le.AppendUint32(dst, f.Topic)
		dst = le.AppendUint32(dst, f.Partition)
		dst = le.AppendUint64(dst, f.Offset)
		dst = le.AppendUint32(dst, f.MaxBytes)
	}
	return dst
}

// Decode reuses Partitions. A request without any is refused: it could only wait for nothing.
func (m *Fetch) Decode(p []byte) error {
	if len(p) < FetchFixedBytes {
		return BadShort
	}
	n := le.Uint32(p[12:])
	switch {
	case n > MaxFetchPartitions:
		return BadCount
	case n == 0:
		return BadValue
	}
	if err := exactly(p, FetchFixedBytes+int(n)*FetchPartitionBytes); err != nil {
		return err
	}
	m.MaxWaitMillis = le.Uint32(p)
	m.MinBytes = le.Uint32(p[4:])
	m.MaxBytes = le.Uint32(p[8:])
	m.Partitions = resize(m.Partitions, int(n))
	p = p[FetchFixedBytes:]
	for i := range m.Partitions {
		q := p[i*FetchPartitionBytes:][:FetchPartitionBytes]
		m.Partitions[i] = FetchPartition{
			Topic:     le.Uint32(q),
			Partition: le.Uint32(q[4:]),
			Offset:    le.Uint64(q[8:]),
			MaxBytes:  le.Uint32(q[16:]),
		}
	}
	return nil
}

// Append writes the chunk with its data.
func (c *FetchChunk) Append(dst []byte) []byte {
	return append(c.AppendHead(dst, len(c.Data)), c.Data...)
}

// AppendHead writes the fixed fields of a chunk whose dataBytes the caller sends from elsewhere, Data is not looked at.
func (c *FetchChunk) AppendHead(dst []byte, dataBytes int) []byte {
	dst = le.AppendUint32(dst, c.Topic)
	dst = le.AppendUint32(dst, c.Partition)
	dst = le.AppendUint32(dst, uint32(c.Error))
	dst = le.AppendUint64(dst, c.HighWatermark)
	dst = le.AppendUint64(dst, c.LogStart)
	return le.AppendUint32(dst, uint32(dataBytes))
}

// Decode reads a payload of exactly one chunk. Data aliases p.
func (c *FetchChunk) Decode(p []byte) error {
	chunk, rest, err := NextChunk(p)
	*c = chunk
	if err == nil && len(rest) != 0 {
		return BadTrailing
	}
	return err
}

// NextChunk takes the first chunk off the payload p of one part and returns what follows it. Data aliases p. A part may
// hold no chunk at all.
func NextChunk(p []byte) (c FetchChunk, rest []byte, err error) {
	if len(p) < FetchChunkFixedBytes {
		return c, nil, BadShort
	}
	if le.Uint16(p[10:]) != 0 {
		return c, nil, BadReserved
	}
	n := le.Uint32(p[28:])
	if uint64(n) > uint64(len(p)-FetchChunkFixedBytes) {
		return c, nil, BadShort
	}
	end := FetchChunkFixedBytes + int(n)
	c = FetchChunk{
		Topic:         le.Uint32(p),
		Partition:     le.Uint32(p[4:]),
		Error:         ErrorCode(le.Uint16(p[8:])),
		HighWatermark: le.Uint64(p[12:]),
		LogStart:      le.Uint64(p[20:]),
		Data:          p[FetchChunkFixedBytes:end:end],
	}
	return c, p[end:], nil
}
