package frame

// ValidName checks a topic name: 1 to MaxNameBytes bytes, tokens of A-Z a-z 0-9 _ - joined by single dots. It knows
// nothing of reserved names, see ReservedName. Cost: one pass, no allocation.
func ValidName(name string) error {
	if len(name) == 0 || len(name) > MaxNameBytes {
		return BadNameLength
	}
	token := 0 // bytes of the token so far
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.':
			if token == 0 {
				return BadNameToken
			}
			token = 0
		case nameByte(c):
			token++
		default:
			return BadNameByte
		}
	}
	if token == 0 {
		return BadNameToken
	}
	return nil
}

// ReservedName says whether only the broker may create name: its first token begins with an underscore.
func ReservedName(name string) bool { return len(name) > 0 && name[0] == '_' }

// ValidUserName is ValidName and refuses reserved names too.
func ValidUserName(name string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	if ReservedName(name) {
		return BadNameReserved
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
