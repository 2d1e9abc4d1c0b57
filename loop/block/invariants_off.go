//go:build !invariants

package block

// Invariants says that this build checks owners and overwrites what was given back.
const Invariants = false

// Poison does nothing in this build.
func Poison([]byte) {}
