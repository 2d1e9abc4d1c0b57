package main

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/slipringmq/slipring/client"
)

// printJSON appends one object and a newline. Bytes that are not UTF-8 go under a name with _base64, so that nothing is lost
// on the way through a text format; an absent key is null.
func printJSON(dst []byte, topic string, r *client.Record) []byte {
	dst = append(dst, `{"topic":`...)
	dst = appendJSON(dst, topic)
	dst = strconv.AppendUint(append(dst, `,"partition":`...), uint64(r.Partition), 10)
	dst = strconv.AppendUint(append(dst, `,"offset":`...), r.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"time_ms":`...), r.UnixMillis, 10)
	dst = strconv.AppendInt(append(dst, `,"append_time_ms":`...), r.AppendMillis, 10)
	if r.Key == nil {
		dst = append(dst, `,"key":null`...)
	} else {
		dst = appendBytes(append(dst, ','), "key", r.Key)
	}
	if len(r.Headers) > 0 {
		dst = append(dst, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendBytes(append(dst, '{'), "key", []byte(h.Key))
			dst = appendBytes(append(dst, ','), "value", h.Value)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	dst = appendBytes(append(dst, ','), "payload", r.Value)
	return append(dst, '}', '\n')
}

func appendBytes(dst []byte, name string, b []byte) []byte {
	if utf8.Valid(b) {
		dst = append(append(append(dst, '"'), name...), `":`...)
		return appendJSON(dst, string(b))
	}
	dst = append(append(append(dst, '"'), name...), `_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

func appendJSON(dst []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return append(append(append(dst, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(dst, quoted...)
}
