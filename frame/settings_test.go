package frame

import (
	"math"
	"testing"
)

func TestSettingsDefaultsAreValid(t *testing.T) {
	s := DefaultSettings()
	if err := s.Validate(); err != nil || s.Mask != SetAll || SetAll != 0x1ff {
		t.Errorf("%v, mask %x", err, s.Mask)
	}
}

// Every bound, from both sides; and a field that is not present is not judged.
func TestSettingsBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Settings)
		want *DecodeError
	}{
		{"unknown bit", func(s *Settings) { s.Mask |= SetAll + 1 }, BadSetting},
		{"storage 2", func(s *Settings) { s.Storage = 2 }, nil},
		{"storage 3", func(s *Settings) { s.Storage = 3 }, BadStorage},
		{"durability 3", func(s *Settings) { s.Durability = 3 }, BadDurability},
		{"interval 0", func(s *Settings) { s.IntervalMillis = 0 }, BadInterval},
		{"interval 1", func(s *Settings) { s.IntervalMillis = 1 }, nil},
		{"interval 1 h", func(s *Settings) { s.IntervalMillis = 3_600_000 }, nil},
		{"interval above 1 h", func(s *Settings) { s.IntervalMillis = 3_600_001 }, BadInterval},
		{"retention 0", func(s *Settings) { s.RetentionMillis = 0 }, BadRetention},
		{"retention 1", func(s *Settings) { s.RetentionMillis = 1 }, nil},
		{"retention -2", func(s *Settings) { s.RetentionMillis = -2 }, BadRetention},
		{"retention bytes 0", func(s *Settings) { s.RetentionBytes = 0 }, BadRetention},
		{"retention bytes min", func(s *Settings) { s.RetentionBytes = math.MinInt64 }, BadRetention},
		{"retention bytes max", func(s *Settings) { s.RetentionBytes = math.MaxInt64 }, nil},
		{"retention records 0", func(s *Settings) { s.RetentionRecords = 0 }, BadRetention},
		{"max record 1 KiB", func(s *Settings) { s.MaxRecordBytes = 1 << 10 }, nil},
		{"max record below", func(s *Settings) { s.MaxRecordBytes = 1<<10 - 1 }, BadMaxRecord},
		{"max record 1 GiB", func(s *Settings) { s.MaxRecordBytes = 1 << 30 }, nil},
		{"max record above", func(s *Settings) { s.MaxRecordBytes = 1<<30 + 1 }, BadMaxRecord},
		{"segment 64 KiB", func(s *Settings) { s.SegmentBytes = 64 << 10 }, nil},
		{"segment below", func(s *Settings) { s.SegmentBytes = 64<<10 - 1 }, BadSegment},
		{"segment 2 GiB", func(s *Settings) { s.SegmentBytes = 2 << 30 }, nil},
		{"segment above", func(s *Settings) { s.SegmentBytes = 2<<30 + 1 }, BadSegment},
	} {
		s := DefaultSettings()
		c.set(&s)
		if err := s.Validate(); (c.want == nil) != (err == nil) || c.want != nil && err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if s.Mask = 0; s.Validate() != nil {
			t.Errorf("%s: judged although not present", c.name)
		}
	}
}

// Merge takes exactly the fields that are present, one by one and all together.
func TestSettingsMerge(t *testing.T) {
	over := Settings{Mask: SetAll, Storage: StorageMemory, Durability: DurabilityNone, IntervalMillis: 7, RetentionMillis: 8,
		RetentionBytes: 9, RetentionRecords: 10, RetentionAcked: true, MaxRecordBytes: 2048, SegmentBytes: 1 << 20}
	if got := DefaultSettings().Merge(over); got != over {
		t.Errorf("all: %+v", got)
	}
	if got := (Settings{}).Merge(over); got != over {
		t.Errorf("onto nothing: %+v", got)
	}
	merged := DefaultSettings()
	for bit := uint32(1); bit <= SetSegmentBytes; bit <<= 1 {
		before := merged
		one := over
		one.Mask = bit
		if merged = merged.Merge(one); merged == before {
			t.Errorf("bit %x changes nothing", bit)
		}
		var alone Settings
		if err := alone.Decode(one.Append(nil)); err != nil || (Settings{}).Merge(one) != alone {
			t.Errorf("bit %x travels as %+v, %v", bit, alone, err)
		}
	}
	if merged != over {
		t.Errorf("one by one: %+v", merged)
	}
	none := over
	none.Mask = 0
	if got := DefaultSettings().Merge(none); got != DefaultSettings() {
		t.Errorf("nothing present: %+v", got)
	}
}
