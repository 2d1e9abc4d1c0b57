package frame

const partitionInfoBytes = 4 + 4 + 2 + 6*8 + 4

func (m *DescribeTopic) Append(dst []byte) []byte { return appendString(dst, m.Name) }

func (m *DescribeTopic) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	return r.done()
}

func (m *DescribeTopicReply) Append(dst []byte) []byte {
	dst = appendString(dst, m.Name)
	dst = le.AppendUint32(dst, m.ID)
	dst = m.Settings.Append(dst)
	dst = le.AppendUint32(dst, uint32(len(m.Partitions)))
	for i := range m.Partitions {
		dst = m.Partitions[i].append(dst)
	}
	return dst
}

// Decode wants the joined payload of all parts.
func (m *DescribeTopicReply) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	m.ID = r.u32()
	m.Settings.read(&r)
	m.Partitions = resize(m.Partitions, r.count(MaxTopicPartitions, partitionInfoBytes))
	for i := range m.Partitions {
		m.Partitions[i].read(&r)
	}
	return r.done()
}

func (i *PartitionInfo) append(dst []byte) []byte {
	dst = le.AppendUint32(dst, i.Partition)
	dst = le.AppendUint32(dst, i.Shard)
	dst = le.AppendUint16(dst, uint16(i.Error))
	dst = le.AppendUint64(dst, i.Epoch)
	dst = le.AppendUint64(dst, i.LogStart)
	dst = le.AppendUint64(dst, i.LogEnd)
	dst = le.AppendUint64(dst, i.DurableEnd)
	dst = le.AppendUint64(dst, i.HighWatermark)
	dst = le.AppendUint64(dst, i.Bytes)
	return le.AppendUint32(dst, i.Segments)
}

func (i *PartitionInfo) read(r *reader) {
	i.Partition = r.u32()
	i.Shard = r.u32()
	i.Error = r.errorCode()
	i.Epoch = r.u64()
	i.LogStart = r.u64()
	i.LogEnd = r.u64()
	i.DurableEnd = r.u64()
	i.HighWatermark = r.u64()
	i.Bytes = r.u64()
	i.Segments = r.u32()
}
