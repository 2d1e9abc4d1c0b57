package client

import (
	"io"
	"net"
	"sync"

	"github.com/slipringmq/slipring/frame"
)

// Bodies up to this size are copied behind their header: cheaper than one more element of a gathered write.
const copiedBodyMax = 8 << 10

// outstream queues frames of a connection. Its writer goroutine sends them; a caller that can afford to wait for the socket
// sends at once when nobody else is sending, and saves the hand-over, which costs more than the write. Small payloads are copied, bodies of batches are
// written from where they lie. What bounds the queue is what bounds the requests: in-flight limits and the produce window.
type outstream struct {
	mu     sync.Mutex
	small  []byte    // encoded frames, and headers of the bodies
	bodies []outBody // in order of at
	closed bool
	wake   chan struct{}

	writing     sync.Mutex // held by who sends; guards what follows
	spareSmall  []byte     // swapped with the queue's
	spareBodies []outBody
	gather      net.Buffers
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
	if len(bodies) == 0 {
		_, err := w.Write(small)
		return err
	}
	gather, from := o.gather[:0], 0
	for i := range bodies {
		b := &bodies[i]
		if b.at > from {
			gather = append(gather, small[from:b.at])
			from = b.at
		}
		if len(b.bytes) > 0 {
			gather = append(gather, b.bytes)
		}
	}
	if from < len(small) {
		gather = append(gather, small[from:])
	}
	o.gather = gather
	_, err := gather.WriteTo(w) // one gathered system call where w is a socket
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
