package frame

import "github.com/slipringmq/slipring/frame/batch"

func (m *ProducerIDReply) Append(dst []byte) []byte {
	return le.AppendUint16(le.AppendUint64(dst, m.ProducerID), m.Epoch)
}

func (m *ProducerIDReply) Decode(p []byte) error {
	r := reader{p: p}
	m.ProducerID = r.u64()
	m.Epoch = r.u16()
	return r.done()
}

func (m *Produce) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, m.Topic)
	dst = le.AppendUint32(dst, m.Partition)
	dst = append(dst, byte(m.Acks), 0, 0, 0)
	return append(dst, m.Batch...)
}

// Decode reads the payload of the first part, which must hold the whole batch header; Batch aliases it and is shorter than
// the batch when further parts follow.
func (m *Produce) Decode(p []byte) error {
	if len(p) < ProduceFixedBytes+batch.HeaderBytes {
		return BadShort
	}
	m.Topic = le.Uint32(p)
	m.Partition = le.Uint32(p[4:])
	m.Acks = Acks(p[8])
	m.Batch = p[ProduceFixedBytes:]
	if !m.Acks.Defined() {
		return BadValue
	}
	if p[9]|p[10]|p[11] != 0 {
		return BadReserved
	}
	return nil
}

func (m *ProduceReply) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, m.Topic)
	dst = le.AppendUint32(dst, m.Partition)
	dst = le.AppendUint64(dst, m.BaseOffset)
	dst = le.AppendUint64(dst, uint64(m.AppendTime))
	return le.AppendUint64(dst, m.LogStart)
}

func (m *ProduceReply) Decode(p []byte) error {
	if err := exactly(p, ProduceReplyBytes); err != nil {
		return err
	}
	m.Topic = le.Uint32(p)
	m.Partition = le.Uint32(p[4:])
	m.BaseOffset = le.Uint64(p[8:])
	m.AppendTime = int64(le.Uint64(p[16:]))
	m.LogStart = le.Uint64(p[24:])
	return nil
}

func (m *Publish) Append(dst []byte) []byte {
	key := m.Key[:min(len(m.Key), 1<<16-1)] // longer ones exceed MaxPublishPayload and are refused
	if !m.HasKey {
		key = nil
	}
	dst = le.AppendUint32(dst, m.Topic)
	dst = le.AppendUint32(dst, m.Partition)
	dst = append(dst, byte(m.Acks))
	dst = appendBool(dst, m.HasKey)
	dst = le.AppendUint16(dst, uint16(len(key)))
	dst = append(dst, key...)
	return append(dst, m.Value...)
}

// Decode leaves Key and Value as views of p; Key is nil without HasKey. With BadPublish the fixed fields are filled in, so
// that a refusal can keep silent where no reply is wanted.
func (m *Publish) Decode(p []byte) error {
	if len(p) < PublishFixedBytes {
		return BadShort
	}
	m.Topic = le.Uint32(p)
	m.Partition = le.Uint32(p[4:])
	m.Acks = Acks(p[8])
	m.HasKey = p[9] == 1
	m.Key = nil
	keyEnd := PublishFixedBytes + int(le.Uint16(p[10:]))
	switch {
	case !m.Acks.Defined():
		return BadValue
	case p[9] > 1:
		return BadBool
	case len(p) > MaxPublishPayload:
		return BadPublish
	case keyEnd > len(p):
		return BadShort
	case m.HasKey:
		m.Key = p[PublishFixedBytes:keyEnd:keyEnd]
	case keyEnd != PublishFixedBytes:
		return BadValue
	}
	m.Value = p[keyEnd:]
	return nil
}

// exactly checks the length of a payload without variable fields.
func exactly(p []byte, n int) error {
	switch {
	case len(p) < n:
		return BadShort
	case len(p) > n:
		return BadTrailing
	}
	return nil
}
