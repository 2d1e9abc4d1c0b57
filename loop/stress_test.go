package loop

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// Everything at once, from a seed: few buffers, a small ring, connections that are paused, resumed, closed and aborted at
// random while they echo. What a client reads is always a prefix of what it wrote, all of it unless it was cut; every
// connection gets one Opened and one Closed; no block is lost.
func TestRandomLivesKeepTheContract(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		for seed := range uint64(4) {
			randomLives(t, e, seed)
		}
	})
}

type life struct {
	index  int // of the client, from its first byte; -1: not known yet
	paused bool
	cut    bool
}

func randomLives(t *testing.T, e engine, seed uint64) {
	const clients = 80
	rnd := rand.New(rand.NewPCG(seed, 99))
	lives := map[Conn]*life{}
	cut := map[int]bool{}
	opened, closedCount := 0, 0
	c := Config{ReceiveBuffers: 8, ReceiveBytes: 4096}
	s := serve(t, e, c, options{completionQ: 32}, func(l Loop) *handler {
		return &handler{
			opened: func(c Conn, _ int, _ netip.AddrPort) { lives[c] = &life{index: -1}; opened++ },
			received: func(c Conn, p []byte) {
				me := lives[c]
				if me == nil {
					t.Errorf("seed %d: bytes from %#x after Closed or before Opened", seed, c)
					return
				}
				if me.cut {
					t.Errorf("seed %d: bytes from %#x after Close or Abort", seed, c)
				}
				if me.index < 0 {
					me.index = int(p[0])
				}
				l.Send(c, p)
				switch n := rnd.IntN(400); {
				case n < 40:
					l.Pause(c)
					me.paused = true
				case n == 40:
					me.cut, cut[me.index] = true, true
					l.Close(c)
				case n == 41:
					me.cut, cut[me.index] = true, true
					l.Abort(c)
				}
			},
			closed: func(c Conn, err error) {
				if lives[c] == nil {
					t.Errorf("seed %d: Closed twice for %#x", seed, c)
				}
				delete(lives, c)
				closedCount++
			},
			endTurn: func(now, _ int64) int64 {
				again := int64(0)
				for c, me := range lives {
					if me.paused {
						again = now + 100_000
						if rnd.IntN(3) == 0 {
							me.paused = false
							l.Resume(c)
						}
					}
				}
				return again
			},
		}
	})
	type result struct {
		index int
		whole bool
		err   error
	}
	results := make(chan result, clients)
	for i := range clients {
		conn := s.dial()
		want := append([]byte{byte(i)}, pattern(50_000+1000*i, uint32(i))...)
		go func() {
			go conn.Write(want)
			got, err := io.ReadAll(io.LimitReader(conn, int64(len(want))))
			if !bytes.HasPrefix(want, got) {
				results <- result{i, false, fmt.Errorf("client %d: what came back is no prefix", i)}
				return
			}
			conn.Close()
			_ = err // a reset is what Abort promises
			results <- result{i, len(got) == len(want), nil}
		}()
	}
	short := []int{}
	for range clients {
		r := within(t, "a client's end", results)
		if r.err != nil {
			t.Errorf("seed %d: %v", seed, r.err)
		}
		if !r.whole {
			short = append(short, r.index)
		}
	}
	eventually(t, "all closed", func() (ok bool) { s.do(func() { ok = closedCount == clients }); return ok })
	s.do(func() {
		for _, i := range short {
			if !cut[i] {
				t.Errorf("seed %d: client %d got only a part and was not cut", seed, i)
			}
		}
		if opened != clients || len(cut) == 0 || len(short) == 0 {
			t.Errorf("seed %d: %d opened, %d cut, %d short: the test shows nothing", seed, opened, len(cut), len(short))
		}
	})
	s.stop()
}
