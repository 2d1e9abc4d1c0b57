//go:build invariants

package block

// Invariants says that this build checks owners and overwrites what was given back.
const Invariants = true

// poisonByte is no valid start of anything and easy to recognise in a dump.
const poisonByte = 0xDB

// Poison overwrites bytes that their owner gave back.
func Poison(p []byte) {
	for i := range p {
		p[i] = poisonByte
	}
}
