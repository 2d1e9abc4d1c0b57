package shard

import (
	"math"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
	"github.com/slipringmq/slipring/loop/block"
)

// upload is a PRODUCE that does not lie whole in the received bytes: it is long, cut by the end of a read, or travels in
// parts with other frames between them. Its batch is kept as a chain of blocks of at most 64 KiB, each taken when the
// bytes for it arrive. A refused one keeps nothing; its bytes are dropped as they come (RULES 11).
type upload struct {
	id      uint64
	head    [produceHead]byte // the fixed fields and the batch header
	headed  int
	request request
	total   int // bytes of the batch, by its header
	got     int
	refused *refusal
	blocks  []*block.Block
	body    [][]byte // the filled pieces of blocks
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
	for len(piece) > 0 && u.refused == nil {
		piece = s.uploadPiece(u, piece)
	}
	return true
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

// uploadPiece copies what fits into the last block and returns the rest.
func (s *Shard) uploadPiece(u *upload, piece []byte) []byte {
	last := len(u.blocks) - 1
	if last < 0 || len(u.body[last]) == len(u.blocks[last].Data) {
		b := s.takeBlock(min(u.total-u.got+len(piece), block.Size64K))
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
	for i, b := range u.blocks {
		s.releaseBlock(b)
		u.blocks[i], u.body[i] = nil, nil
	}
	u.blocks, u.body = u.blocks[:0], u.body[:0]
}
