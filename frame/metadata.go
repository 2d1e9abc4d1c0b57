package frame

// Least bytes of one element on the wire, for reader.count.
const (
	nameMinBytes          = 2
	endpointMinBytes      = 2 + 2 + 4
	topicMetadataMinBytes = 2 + 2 + 4 + 4 + 4
)

func (m *Metadata) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(m.Topics)))
	for _, t := range m.Topics {
		dst = appendString(dst, t)
	}
	return dst
}

func (m *Metadata) Decode(p []byte) error {
	r := reader{p: p}
	m.Topics = resize(m.Topics, r.count(MaxMetadataTopics, nameMinBytes))
	for i := range m.Topics {
		m.Topics[i] = r.name()
	}
	return r.done()
}

func (m *MetadataReply) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(m.Endpoints)))
	for i := range m.Endpoints {
		e := &m.Endpoints[i]
		dst = appendText(dst, e.Host, MaxHostBytes)
		dst = le.AppendUint16(dst, e.Port)
		dst = le.AppendUint32(dst, e.Shard)
	}
	dst = le.AppendUint32(dst, uint32(len(m.Topics)))
	for i := range m.Topics {
		dst = m.Topics[i].append(dst)
	}
	return dst
}

// Decode refuses a partition that points outside Endpoints. p is the joined payload of all parts.
func (m *MetadataReply) Decode(p []byte) error {
	r := reader{p: p}
	m.Endpoints = resize(m.Endpoints, r.count(MaxEndpoints, endpointMinBytes))
	for i := range m.Endpoints {
		e := &m.Endpoints[i]
		e.Host = r.text(MaxHostBytes)
		e.Port = r.u16()
		e.Shard = r.u32()
	}
	m.Topics = resize(m.Topics, r.count(MaxMetadataTopics, topicMetadataMinBytes))
	for i := range m.Topics {
		m.Topics[i].read(&r, len(m.Endpoints))
	}
	return r.done()
}

func (t *TopicMetadata) append(dst []byte) []byte {
	dst = le.AppendUint16(dst, uint16(t.Error))
	dst = appendString(dst, t.Name)
	dst = le.AppendUint32(dst, t.ID)
	dst = t.Settings.Append(dst)
	dst = le.AppendUint32(dst, uint32(len(t.Partitions)))
	for _, endpoint := range t.Partitions {
		dst = le.AppendUint16(dst, endpoint)
	}
	return dst
}

func (t *TopicMetadata) read(r *reader, endpoints int) {
	t.Error = r.errorCode()
	t.Name = r.name()
	t.ID = r.u32()
	t.Settings.read(r)
	t.Partitions = resize(t.Partitions, r.count(MaxTopicPartitions, 2))
	for i := range t.Partitions {
		t.Partitions[i] = r.u16()
		if int(t.Partitions[i]) >= endpoints {
			r.fail(BadValue)
			return
		}
	}
}
