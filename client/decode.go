package client

import (
	"errors"
	"fmt"

	"github.com/slipringmq/slipring/frame"
	"github.com/slipringmq/slipring/frame/batch"
)

// opener turns the bytes of batches into records. Nothing in a batch is believed before it is checked.
type opener struct {
	topic *topic
	limit int // of a decompressed body, bytes
	zstd  zstdReader
}

// open takes the first batch off p and gives its records with offsets in [from, below), the offset behind the batch and the
// bytes behind it. inside says that from may lie within the batch, which then comes whole.
//
// Errors: the batch is cut short, damaged, of another partition, of offsets below from, or inflates beyond the limit; next
// is then from.
func (o *opener) open(partition uint32, from, below uint64, inside bool, p []byte) (records []Record, next uint64, rest []byte, err error) {
	h, body, rest, err := batch.Next(p)
	switch {
	case err != nil:
		return nil, from, nil, err
	case h.LastOffset() < from, !inside && h.BaseOffset < from:
		return nil, from, nil, fmt.Errorf("the broker sent offsets %d to %d once more", h.BaseOffset, h.LastOffset())
	case h.PartitionTag != batch.PartitionTag(o.topic.directory, o.topic.id, partition):
		return nil, from, nil, errors.New("it belongs to another partition")
	}
	if err := batch.CheckBody(&h, body); err != nil {
		return nil, from, nil, err
	}
	if body, err = decompress(h.Codec(), body, o.limit, &o.zstd); err != nil {
		return nil, from, nil, err
	}
	if records, err = decodeRecords(&h, body, partition, from, below); err != nil {
		return nil, from, nil, err
	}
	return records, h.NextOffset(), rest, nil
}

// corrupt is what the caller sees of a batch that cannot be opened.
func corrupt(offset uint64, err error) *frame.Error {
	return &frame.Error{Code: frame.ErrCorrupt, First: offset, Last: offset, Text: fmt.Sprintf("batch at offset %d: %v", offset, err)}
}

// decodeRecords gives the records of a decompressed body with offsets in [from, below). They alias body.
//
// Errors: those of batch.Reader; nothing is returned then. Cost: one allocation for the batch, one more per record that has
// headers.
func decodeRecords(h *batch.Header, body []byte, partition uint32, from, below uint64) ([]Record, error) {
	// The count is the broker's word; what the body can hold at most is a fact.
	records := make([]Record, 0, min(int(h.Count), len(body)/batch.RecordMinBytes))
	var r batch.Reader
	r.Reset(h, body)
	for {
		rec, ok := r.Next()
		if !ok {
			break
		}
		offset := h.BaseOffset + uint64(rec.OffsetDelta)
		if offset < from || offset >= below {
			continue
		}
		records = append(records, Record{
			Key: rec.Key, Value: rec.Value, Headers: decodeHeaders(rec.Headers), UnixMillis: h.BaseTime + rec.TimeDelta,
			Partition: partition, Offset: offset, AppendMillis: h.AppendTime,
		})
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return records, nil
}

func decodeHeaders(it batch.Headers) []Header {
	if it.Len() == 0 {
		return nil
	}
	headers := make([]Header, 0, it.Len())
	for {
		key, value, ok := it.Next()
		if !ok {
			return headers
		}
		headers = append(headers, Header{Key: string(key), Value: value})
	}
}
