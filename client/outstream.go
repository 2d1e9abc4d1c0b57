package client

import (
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/slipringmq/slipring/frame"
)

// Bodies up to this size are copied behind their header: cheaper than one more element of a gathered write.
const copiedBodyMax = 8 << 10

// What one write takes at most. A write of so much that ends is a sign of life, so it must be little enough for a slow line;
// smaller ones are none, since the kernel takes them for a broker that has stopped reading long ago.
const writeBytes = 256 << 10

// outstream queues frames of a connection. Its writer goroutine sends them; a caller that can afford to wait for the socket
// sends at once when nobody else is sending, and saves the hand-over, which costs more than the write. Small payloads are
// copied, bodies of batches are written from where they lie. What bounds the queue is what bounds the requests: in-flight limits and the produce window.
type outstream struct {
	mu     sync.Mutex
	small  []byte    // encoded frames, and headers of the bodies
	bodies []outBody // in order of at
	closed bool
	wake   chan struct{}

	taken atomic.Int64 // writes of writeBytes that the socket took

	writing     sync.Mutex // held by who sends; guards what follows
	spareSmall  []byte     // swapped with the queue's
	spareBodies []outBody
	gather      net.Buffers // of the write to come
	gathered    int         // bytes in gather
	rest        net.Buffers // what WriteTo has not written yet of gather
}

type outBody struct {
	at      int // goes out after small[:at]
	bytes   []byte
	ref     *buffer     // released once written, may be nil
	written func(error) // called once with nil when written or the reason why it never will be; may be nil
}

func newOutstream() *outstream { return &outstream{wake: make(chan struct{}, 1)} }

// add queues one frame with payload head and body. It reports false, and has kept nothing, after close. Call kick or sendNow
// after the last one.
func (o *outstream) add(cmd frame.Command, flags uint16, id uint64, head, body []byte, ref *buffer, written func(error)) bool {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return false
	}
	o.small = frame.AppendHeader(o.small, cmd, flags, id, len(head)+len(body))
	o.small = append(o.small, head...)
	if len(body) <= copiedBodyMax && written == nil {
		o.small = append(o.small, body...)
	} else {
		if ref != nil {
			ref.retain()
		}
		o.bodies = append(o.bodies, outBody{len(o.small), body, ref, written})
	}
	o.mu.Unlock()
	return true
}

// kick leaves the sending to the writer goroutine.
func (o *outstream) kick() { signal(o.wake) }

// sendNow sends what is queued, unless somebody is sending already.
func (o *outstream) sendNow(w io.Writer) error {
	if !o.writing.TryLock() {
		o.kick() // the one who sends may have looked at the queue for the last time
		return nil
	}
	defer o.writing.Unlock()
	return o.flushLocked(w)
}

// flush sends what is queued.
func (o *outstream) flush(w io.Writer) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	return o.flushLocked(w)
}

func (o *outstream) flushLocked(w io.Writer) error {
	for {
		o.mu.Lock()
		small, bodies := o.small, o.bodies
		o.small, o.bodies = o.spareSmall[:0], o.spareBodies[:0]
		o.mu.Unlock()
		o.spareSmall, o.spareBodies = small, bodies
		if len(small) == 0 {
			return nil
		}
		err := o.write(w, small, bodies)
		finish(bodies, err)
		if err != nil {
			return err
		}
	}
}

func (o *outstream) write(w io.Writer, small []byte, bodies []outBody) error {
	o.gather, o.gathered = o.gather[:0], 0
	from := 0
	for i := range bodies {
		b := &bodies[i]
		if err := o.put(w, small[from:b.at]); err != nil {
			return err
		}
		if err := o.put(w, b.bytes); err != nil {
			return err
		}
		from = b.at
	}
	if err := o.put(w, small[from:]); err != nil {
		return err
	}
	return o.push(w)
}

// put adds p to the write to come, and writes whenever that is full.
func (o *outstream) put(w io.Writer, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writeBytes-o.gathered)
		o.gather = append(o.gather, p[:n])
		o.gathered += n
		p = p[n:]
		if o.gathered == writeBytes {
			if err := o.push(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// push writes what put has gathered: one system call where w is a socket.
func (o *outstream) push(w io.Writer) (err error) {
	switch len(o.gather) {
	case 0:
		return nil
	case 1:
		_, err = w.Write(o.gather[0])
	default:
		o.rest = o.gather
		_, err = o.rest.WriteTo(w)
	}
	if err == nil && o.gathered == writeBytes {
		o.taken.Add(1)
	}
	clear(o.gather)
	o.gather, o.gathered = o.gather[:0], 0
	return err
}

// close refuses further frames and lets go of the queued ones. Frames that are being sent are let go by who sends them.
func (o *outstream) close(why error) {
	o.mu.Lock()
	o.closed = true
	bodies := o.bodies
	o.bodies = nil
	o.mu.Unlock()
	finish(bodies, why)
}

func finish(bodies []outBody, err error) {
	for i := range bodies {
		if bodies[i].written != nil {
			bodies[i].written(err)
		}
		if bodies[i].ref != nil {
			bodies[i].ref.release()
		}
		bodies[i] = outBody{}
	}
}
