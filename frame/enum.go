package frame

import "fmt"

// Names of the enumerations, the same in flags, configuration, listings and documents.
var (
	acksNames       = []string{"none", "leader", "durable"}
	storageNames    = []string{"log", "memory", "none"}
	durabilityNames = []string{"sync", "interval", "none"}
)

// Defined says whether version 1 knows the value.
func (a Acks) Defined() bool { return a <= AcksDurable }

func (a Acks) String() string { return enumName(acksNames, uint8(a)) }

// ParseAcks reads "none", "leader" or "durable".
func ParseAcks(s string) (Acks, error) {
	v, err := enumValue("acks", acksNames, s)
	return Acks(v), err
}

func (s Storage) String() string { return enumName(storageNames, uint8(s)) }

// ParseStorage reads "log", "memory" or "none".
func ParseStorage(s string) (Storage, error) {
	v, err := enumValue("storage", storageNames, s)
	return Storage(v), err
}

func (d Durability) String() string { return enumName(durabilityNames, uint8(d)) }

// ParseDurability reads "sync", "interval" or "none". The interval itself is Settings.IntervalMillis.
func ParseDurability(s string) (Durability, error) {
	v, err := enumValue("durability", durabilityNames, s)
	return Durability(v), err
}

func enumName(names []string, v uint8) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "undefined"
}

func enumValue(what string, names []string, s string) (uint8, error) {
	for i, n := range names {
		if n == s {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q: want one of %v", what, s, names)
}
