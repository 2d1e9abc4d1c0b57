package shard

import (
	"math"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// upload is a PRODUCE that does not lie whole in the received bytes: it is long, cut by the end of a read, or travels in
// parts with other frames between them. Bytes of this turn are looked at where the loop received them: most uploads are
// complete within the turn, and then nothing is copied. At the end of a turn what is not complete moves to a chain of
// blocks of at most 64 KiB. A refused one keeps nothing; its bytes are dropped as they come (RULES 11).
type upload struct {
	id      uint64
	head    [produceHead]byte // the fixed fields and the batch header
	headed  int
	request request
	total   int // bytes of the batch, by its header
	got     int
	refused *refusal
	blocks  []*block.Block
	body    [][]byte // the filled pieces of blocks, then lent pieces of this turn's received bytes
	lent    int
}

// uploadFor returns the upload that the frame h belongs to; nil when the connection is ending.
func (s *Shard) uploadFor(k *conn, h frame.Header) *upload {
	for _, u := range k.uploads {
		if u.id == h.RequestID {
			return u
		}
	}
	if len(k.uploads) >= uploadsMost {
		s.goAway(k, h.RequestID, frame.ErrOutOfOrder, "parts of too many PRODUCE requests are mixed up")
		return nil
	}
	u := s.newUpload()
	u.id = h.RequestID
	if len(k.uploads) >= s.limits.Uploads {
		u.refused = refuseUploads
	}
	k.uploads = append(k.uploads, u)
	return u
}

// uploadsMost is how many uploads are told apart, those included that are refused and hold nothing.
const uploadsMost = 64

func (s *Shard) newUpload() *upload {
	if n := len(s.uploads); n > 0 {
		u := s.uploads[n-1]
		s.uploads = s.uploads[:n-1]
		return u
	}
	return new(upload)
}

// uploadBytesOf takes the next payload bytes of u; false when the connection is ending.
func (s *Shard) uploadBytesOf(k *conn, u *upload, piece []byte) bool {
	if u.headed < produceHead {
		n := copy(u.head[u.headed:], piece)
		u.headed += n
		piece = piece[n:]
		if u.headed < produceHead {
			return true
		}
		if !s.admitUpload(k, u) {
			return false
		}
	}
	if len(piece) > u.total-u.got && u.refused == nil {
		u.refused = refuseBodyBytes
		s.freeUpload(u)
	}
	u.got += len(piece)
	if len(piece) > 0 && u.refused == nil {
		if u.lent == 0 {
			s.borrowers = append(s.borrowers, u)
		}
		u.body, u.lent = append(u.body, piece), u.lent+1
	}
	return true
}

// keepLent moves what unfinished uploads have in the loop's buffers to blocks: the buffers go back after the turn.
func (s *Shard) keepLent() {
	for i, u := range s.borrowers {
		s.borrowers[i] = nil
		own := len(u.body) - u.lent
		s.scratch.chunks = append(s.scratch.chunks[:0], u.body[own:]...)
		clear(u.body[own:])
		u.body, u.lent = u.body[:own], 0
		left := 0
		for _, piece := range s.scratch.chunks {
			left += len(piece)
		}
		for _, piece := range s.scratch.chunks {
			for len(piece) > 0 && u.refused == nil {
				n := len(piece)
				piece = s.keepPiece(u, piece, u.total-u.got+left)
				left -= n - len(piece)
			}
		}
		clear(s.scratch.chunks)
	}
	s.borrowers = s.borrowers[:0]
}

// admitUpload decides about a batch whose header has arrived.
func (s *Shard) admitUpload(k *conn, u *upload) bool {
	var m frame.Produce
	if err := decodeProduce(&m, u.head[:]); err != nil {
		s.goAway(k, u.id, frame.CodeOf(err), err.Error())
		return false
	}
	u.request = request{conn: k, id: u.id, command: frame.CmdProduce, topic: m.Topic, partition: m.Partition, acks: m.Acks}
	u.got, u.total = batch.HeaderBytes, math.MaxInt
	if u.refused != nil {
		return true
	}
	h, err := batch.ParseHeader(m.Batch)
	if err != nil {
		u.refused = refuseBatch(err)
		return true
	}
	u.total = int(h.TotalBytes())
	_, u.refused = s.admit(&u.request, u.total)
	if u.refused == nil {
		u.refused = s.charge(&u.request, u.total)
	}
	return true
}

// keepPiece copies what fits into the last block and returns the rest; toCome bytes of u are not in blocks yet.
func (s *Shard) keepPiece(u *upload, piece []byte, toCome int) []byte {
	last := len(u.blocks) - 1
	if last < 0 || len(u.body[last]) == len(u.blocks[last].Data) {
		b := s.takeBlock(min(toCome, block.Size64K))
		if b == nil {
			u.refused = refuseMemory
			s.freeUpload(u)
			return nil
		}
		u.blocks = append(u.blocks, b)
		u.body = append(u.body, b.Data[:0])
		last++
	}
	filled, data := len(u.body[last]), u.blocks[last].Data
	n := copy(data[filled:], piece)
	u.body[last] = data[:filled+n]
	return piece[n:]
}

// uploadPart ends a part of u; without more the request is complete.
func (s *Shard) uploadPart(k *conn, u *upload, more bool) {
	if u.headed < produceHead {
		s.goAway(k, u.id, frame.ErrMalformed, "the first part of PRODUCE does not hold the batch header")
		return
	}
	if more {
		return
	}
	if u.refused == nil && u.got != u.total {
		u.refused = refuseBodyBytes
	}
	if u.refused != nil {
		s.refuseRequest(&u.request, u.refused)
	} else {
		s.produce(&u.request, u.head[frame.ProduceFixedBytes:], u.body)
	}
	if !k.ending {
		s.endUpload(k, u)
	}
}

// endUpload forgets u and gives its memory back.
func (s *Shard) endUpload(k *conn, u *upload) {
	s.freeUpload(u)
	for i := range k.uploads {
		if k.uploads[i] == u {
			k.uploads = append(k.uploads[:i], k.uploads[i+1:]...)
			break
		}
	}
	*u = upload{blocks: u.blocks[:0], body: u.body[:0]}
	s.uploads = append(s.uploads, u)
}

func (s *Shard) freeUpload(u *upload) {
	for _, b := range u.blocks {
		s.releaseBlock(b)
	}
	clear(u.blocks)
	clear(u.body)
	u.blocks, u.body, u.lent = u.blocks[:0], u.body[:0], 0
}
