package slipring

// Version of this build; the Makefile sets it.
var Version = "unknown"
