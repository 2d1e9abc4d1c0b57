package frame

// SetAll is the mask of every setting of version 1.
const SetAll = SetSegmentBytes<<1 - 1

// Bounds of the settings; Validate holds them.
const (
	MinIntervalMillis = 1
	MaxIntervalMillis = 3_600_000
	MinRecordBytes    = 1 << 10 // least value of MaxRecordBytes
	MaxRecordLimit    = 1 << 30 // greatest value of MaxRecordBytes; a broker may refuse less, by its memory
	MinSegmentBytes   = 64 << 10
	MaxSegmentBytes   = 2 << 30
	NoLimit           = -1 // of the retentions
)

var (
	BadStorage    = &DecodeError{ErrInvalidSetting, "settings: storage must be log, memory or none"}
	BadDurability = &DecodeError{ErrInvalidSetting, "settings: durability must be sync, interval or none"}
	BadInterval   = &DecodeError{ErrInvalidSetting, "settings: interval must be 1 ms to 1 h"}
	BadRetention  = &DecodeError{ErrInvalidSetting, "settings: a retention must be -1 (no limit) or at least 1"}
	BadMaxRecord  = &DecodeError{ErrInvalidSetting, "settings: max record must be 1 KiB to 1 GiB"}
	BadSegment    = &DecodeError{ErrInvalidSetting, "settings: segment must be 64 KiB to 2 GiB"}
)

// DefaultSettings are what a topic gets where its creator names nothing: all fields present.
func DefaultSettings() Settings {
	return Settings{
		Mask:             SetAll,
		Storage:          StorageLog,
		Durability:       DurabilitySync,
		IntervalMillis:   1000,
		RetentionMillis:  NoLimit,
		RetentionBytes:   NoLimit,
		RetentionRecords: NoLimit,
		MaxRecordBytes:   16 << 20,
		SegmentBytes:     256 << 20,
	}
}

// Has says whether the field of a SetXxx bit is present.
func (s *Settings) Has(bit uint32) bool { return s.Mask&bit != 0 }

// Validate checks the fields that are present against their bounds.
func (s *Settings) Validate() error {
	retention := func(v int64) bool { return v == NoLimit || v >= 1 }
	switch {
	case s.Mask&^SetAll != 0:
		return BadSetting
	case s.Has(SetStorage) && s.Storage > StorageNone:
		return BadStorage
	case s.Has(SetDurability) && s.Durability > DurabilityNone:
		return BadDurability
	case s.Has(SetIntervalMillis) && (s.IntervalMillis < MinIntervalMillis || s.IntervalMillis > MaxIntervalMillis):
		return BadInterval
	case s.Has(SetRetentionMillis) && !retention(s.RetentionMillis),
		s.Has(SetRetentionBytes) && !retention(s.RetentionBytes),
		s.Has(SetRetentionRecords) && !retention(s.RetentionRecords):
		return BadRetention
	case s.Has(SetMaxRecordBytes) && (s.MaxRecordBytes < MinRecordBytes || s.MaxRecordBytes > MaxRecordLimit):
		return BadMaxRecord
	case s.Has(SetSegmentBytes) && (s.SegmentBytes < MinSegmentBytes || s.SegmentBytes > MaxSegmentBytes):
		return BadSegment
	}
	return nil
}

// Merge returns s with the fields that are present in over replaced by over's.
func (s Settings) Merge(over Settings) Settings {
	mergeField(&s, &over, SetStorage, &s.Storage, over.Storage)
	mergeField(&s, &over, SetDurability, &s.Durability, over.Durability)
	mergeField(&s, &over, SetIntervalMillis, &s.IntervalMillis, over.IntervalMillis)
	mergeField(&s, &over, SetRetentionMillis, &s.RetentionMillis, over.RetentionMillis)
	mergeField(&s, &over, SetRetentionBytes, &s.RetentionBytes, over.RetentionBytes)
	mergeField(&s, &over, SetRetentionRecords, &s.RetentionRecords, over.RetentionRecords)
	mergeField(&s, &over, SetRetentionAcked, &s.RetentionAcked, over.RetentionAcked)
	mergeField(&s, &over, SetMaxRecordBytes, &s.MaxRecordBytes, over.MaxRecordBytes)
	mergeField(&s, &over, SetSegmentBytes, &s.SegmentBytes, over.SegmentBytes)
	return s
}

func mergeField[T any](s, over *Settings, bit uint32, field *T, v T) {
	if over.Has(bit) {
		s.Mask |= bit
		*field = v
	}
}

// Append writes the mask and the fields that are present. Also the form in which metadata entries keep settings.
func (s *Settings) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, s.Mask)
	if s.Has(SetStorage) {
		dst = append(dst, byte(s.Storage))
	}
	if s.Has(SetDurability) {
		dst = append(dst, byte(s.Durability))
	}
	if s.Has(SetIntervalMillis) {
		dst = le.AppendUint32(dst, s.IntervalMillis)
	}
	if s.Has(SetRetentionMillis) {
		dst = le.AppendUint64(dst, uint64(s.RetentionMillis))
	}
	if s.Has(SetRetentionBytes) {
		dst = le.AppendUint64(dst, uint64(s.RetentionBytes))
	}
	if s.Has(SetRetentionRecords) {
		dst = le.AppendUint64(dst, uint64(s.RetentionRecords))
	}
	if s.Has(SetRetentionAcked) {
		dst = appendBool(dst, s.RetentionAcked)
	}
	if s.Has(SetMaxRecordBytes) {
		dst = le.AppendUint32(dst, s.MaxRecordBytes)
	}
	if s.Has(SetSegmentBytes) {
		dst = le.AppendUint32(dst, s.SegmentBytes)
	}
	return dst
}

// Decode reads what Append wrote and nothing after it. Values out of bounds are Validate's business.
func (s *Settings) Decode(p []byte) error {
	r := reader{p: p}
	s.read(&r)
	return r.done()
}

func (s *Settings) read(r *reader) {
	*s = Settings{Mask: r.u32()}
	if s.Mask&^SetAll != 0 {
		r.fail(BadSetting)
		return
	}
	if s.Has(SetStorage) {
		s.Storage = Storage(r.u8())
	}
	if s.Has(SetDurability) {
		s.Durability = Durability(r.u8())
	}
	if s.Has(SetIntervalMillis) {
		s.IntervalMillis = r.u32()
	}
	if s.Has(SetRetentionMillis) {
		s.RetentionMillis = r.i64()
	}
	if s.Has(SetRetentionBytes) {
		s.RetentionBytes = r.i64()
	}
	if s.Has(SetRetentionRecords) {
		s.RetentionRecords = r.i64()
	}
	if s.Has(SetRetentionAcked) {
		s.RetentionAcked = r.boolean()
	}
	if s.Has(SetMaxRecordBytes) {
		s.MaxRecordBytes = r.u32()
	}
	if s.Has(SetSegmentBytes) {
		s.SegmentBytes = r.u32()
	}
}
