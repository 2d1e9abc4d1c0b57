package loop

import (
	"bytes"
	"io"
	"testing"
)

// each runs a test for every engine.
func each(t *testing.T, test func(*testing.T, engine)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { test(t, e) })
	}
}

func TestBytesComeBackInOrder(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := serve(t, e, Config{}, options{}, echo)
		c := s.dial()
		want := pattern(5<<20, 1)
		go func() {
			for p := want; len(p) > 0; { // odd pieces: no boundary of ours falls together with one of the kernel's
				n := min(len(p), 1+len(p)%70_001)
				if _, err := c.Write(p[:n]); err != nil {
					return
				}
				p = p[n:]
			}
		}()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatal("echo differs")
		}
	})
}

// pattern is n bytes in which a swap or a loss shows.
func pattern(n int, seed uint32) []byte {
	p := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}
