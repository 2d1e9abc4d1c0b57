package frame

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name string
		want *DecodeError
	}{
		{"orders", nil},
		{"orders.eu.created", nil},
		{"A-Z_09.x", nil},
		{"_inbox.7", nil},
		{strings.Repeat("a", MaxNameBytes), nil},
		{strings.Repeat("a", MaxNameBytes+1), BadNameLength},
		{"", BadNameLength},
		{".", BadNameToken},
		{"..", BadNameToken},
		{".a", BadNameToken},
		{"a.", BadNameToken},
		{"a..b", BadNameToken},
		{"a b", BadNameByte},
		{"a/b", BadNameByte},
		{"../a", BadNameToken},
		{"a.*", BadNameByte},
		{"a.>", BadNameByte},
		{"a\x00", BadNameByte},
		{"a\n", BadNameByte},
		{"ä", BadNameByte},
	} {
		if err := ValidName(c.name); (c.want == nil) != (err == nil) || c.want != nil && err != c.want {
			t.Errorf("%q: %v, want %v", c.name, err, c.want)
		}
	}
	for name, reserved := range map[string]bool{"_inbox.7": true, "_": true, "a._b": false, "a_": false, "": false} {
		if ReservedName(name) != reserved {
			t.Errorf("%q reserved: %v", name, !reserved)
		}
	}
	if ValidUserName("_inbox.7") != BadNameReserved || ValidUserName("a..b") != BadNameToken || ValidUserName("a._b") != nil {
		t.Error("ValidUserName")
	}
}

// Names of the enumerations are read as they are written.
func TestEnumNames(t *testing.T) {
	for v := range uint8(3) {
		if got, err := ParseAcks(Acks(v).String()); err != nil || got != Acks(v) {
			t.Errorf("acks %d: %v, %v", v, got, err)
		}
		if got, err := ParseStorage(Storage(v).String()); err != nil || got != Storage(v) {
			t.Errorf("storage %d: %v, %v", v, got, err)
		}
		if got, err := ParseDurability(Durability(v).String()); err != nil || got != Durability(v) {
			t.Errorf("durability %d: %v, %v", v, got, err)
		}
	}
	if _, err := ParseAcks("all"); err == nil || !strings.Contains(err.Error(), "durable") {
		t.Errorf("acks %q: %v does not say what is allowed", "all", err)
	}
	if Acks(3).String() != "undefined" || Command(0).String() != "UNKNOWN" || CmdListOffsets.String() != "LIST OFFSETS" {
		t.Error("names of undefined values")
	}
}
