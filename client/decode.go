package client

import (
	"github.com/slipringmq/slipring/frame/batch"
)

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
