package frame

const topicSummaryMinBytes = 2 + 4 + 4 + 1 + 1 + 8 + 8

func (m *CreateTopic) Append(dst []byte) []byte {
	dst = appendString(dst, m.Name)
	dst = le.AppendUint32(dst, m.Partitions)
	return m.Settings.Append(dst)
}

// Decode takes any partition count; 1 to MaxTopicPartitions is for the broker to hold, with ErrLimit or ErrInvalidSetting.
func (m *CreateTopic) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	m.Partitions = r.u32()
	m.Settings.read(&r)
	return r.done()
}

func (m *CreateTopicReply) Append(dst []byte) []byte { return le.AppendUint32(dst, m.ID) }

func (m *CreateTopicReply) Decode(p []byte) error {
	r := reader{p: p}
	m.ID = r.u32()
	return r.done()
}

func (m *DeleteTopic) Append(dst []byte) []byte { return appendString(dst, m.Name) }

func (m *DeleteTopic) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	return r.done()
}

func (m *AlterTopic) Append(dst []byte) []byte {
	return m.Settings.Append(appendString(dst, m.Name))
}

func (m *AlterTopic) Decode(p []byte) error {
	r := reader{p: p}
	m.Name = r.name()
	m.Settings.read(&r)
	return r.done()
}

func (m *ListTopics) Append(dst []byte) []byte {
	dst = appendString(dst, m.Prefix)
	dst = appendString(dst, m.After)
	return le.AppendUint32(dst, m.Limit)
}

func (m *ListTopics) Decode(p []byte) error {
	r := reader{p: p}
	m.Prefix = r.name()
	m.After = r.name()
	m.Limit = r.u32()
	if m.Limit > MaxListTopics {
		r.fail(BadCount)
	}
	return r.done()
}

func (m *ListTopicsReply) Append(dst []byte) []byte {
	dst = appendBool(dst, m.More)
	dst = le.AppendUint32(dst, uint32(len(m.Topics)))
	for i := range m.Topics {
		t := &m.Topics[i]
		dst = appendString(dst, t.Name)
		dst = le.AppendUint32(dst, t.ID)
		dst = le.AppendUint32(dst, t.Partitions)
		dst = append(dst, byte(t.Storage), byte(t.Durability))
		dst = le.AppendUint64(dst, t.Records)
		dst = le.AppendUint64(dst, t.Bytes)
	}
	return dst
}

// Decode wants the joined payload of all parts.
func (m *ListTopicsReply) Decode(p []byte) error {
	r := reader{p: p}
	m.More = r.boolean()
	m.Topics = resize(m.Topics, r.count(MaxListTopics, topicSummaryMinBytes))
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Name = r.name()
		t.ID = r.u32()
		t.Partitions = r.u32()
		t.Storage = Storage(r.enum(uint8(StorageNone)))
		t.Durability = Durability(r.enum(uint8(DurabilityNone)))
		t.Records = r.u64()
		t.Bytes = r.u64()
	}
	return r.done()
}
