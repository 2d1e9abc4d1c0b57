package main

import (
	"fmt"
	"strconv"

	"github.com/slipringmq/slipring/client"
)

// printer appends one record in some format.
type printer func(dst []byte, topic string, r *client.Record) []byte

// parseOutput reads -o of consume and subscribe: raw, json, or a format with percent signs as kcat and rpk write them.
func parseOutput(s string) (printer, error) {
	switch s {
	case "raw":
		return printRaw, nil
	case "json":
		return printJSON, nil
	}
	parts, err := parseTemplate(s)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, topic string, r *client.Record) []byte {
		for _, p := range parts {
			dst = p(dst, topic, r)
		}
		return dst
	}, nil
}

func printRaw(dst []byte, _ string, r *client.Record) []byte {
	return append(append(dst, r.Value...), '\n')
}

// verbs are the letters behind a percent sign.
var verbs = map[byte]printer{
	'v': printValue,
	's': printValue,
	'S': printValueBytes,
	'V': printValueBytes,
	'k': func(dst []byte, _ string, r *client.Record) []byte { return append(dst, r.Key...) },
	'K': func(dst []byte, _ string, r *client.Record) []byte {
		if r.Key == nil {
			return append(dst, "-1"...)
		}
		return strconv.AppendInt(dst, int64(len(r.Key)), 10)
	},
	'h': printHeaders,
	't': func(dst []byte, topic string, _ *client.Record) []byte { return append(dst, topic...) },
	'p': func(dst []byte, _ string, r *client.Record) []byte {
		return strconv.AppendUint(dst, uint64(r.Partition), 10)
	},
	'o': func(dst []byte, _ string, r *client.Record) []byte { return strconv.AppendUint(dst, r.Offset, 10) },
	'T': func(dst []byte, _ string, r *client.Record) []byte { return strconv.AppendInt(dst, r.UnixMillis, 10) },
	'%': literal("%"),
}

// escapes are the letters behind a backslash.
var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '0': "\x00", '\\': "\\"}

// unescape reads the escapes of templates, and \xHH, in the value of a flag.
func unescape(flag, s string) (out []byte, err error) {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i++; i == len(s) {
			return nil, usagef("%s %q ends inside an escape", flag, s)
		}
		if s[i] == 'x' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		text, ok := escapes[s[i]]
		if !ok {
			return nil, usagef(`%s %q: unknown \%c; want \n, \t, \r, \0, \\ or \xHH`, flag, s, s[i])
		}
		out = append(out, text...)
	}
	return out, nil
}

const templateHelp = `%v or %s payload, %S its length, %k key, %K its length, %h headers, %t topic, %p partition, %o offset, %T time in ms, %%, \n, \t, \r, \0, \\`

func printValue(dst []byte, _ string, r *client.Record) []byte { return append(dst, r.Value...) }

func printValueBytes(dst []byte, _ string, r *client.Record) []byte {
	return strconv.AppendInt(dst, int64(len(r.Value)), 10)
}

func printHeaders(dst []byte, _ string, r *client.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, h.Key...), '=')
		dst = append(dst, h.Value...)
	}
	return dst
}

func literal(s string) printer {
	return func(dst []byte, _ string, _ *client.Record) []byte { return append(dst, s...) }
}

func parseTemplate(s string) (parts []printer, err error) {
	plain, special := "", false
	flush := func() {
		if plain != "" {
			parts = append(parts, literal(plain))
			plain = ""
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' && s[i] != '\\' {
			plain += s[i : i+1]
			continue
		}
		special = true
		if i+1 == len(s) {
			return nil, usagef("-o %q ends inside an escape; it knows %s", s, templateHelp)
		}
		i++
		if text, ok := escapes[s[i]]; ok && s[i-1] == '\\' {
			plain += text
		} else if verb, ok := verbs[s[i]]; ok && s[i-1] == '%' {
			flush()
			parts = append(parts, verb)
		} else {
			return nil, usagef("-o %q: unknown %s; it knows %s", s, fmt.Sprintf("%c%c", s[i-1], s[i]), templateHelp)
		}
	}
	flush()
	if !special {
		return nil, usagef("-o %q: want raw, json or a format: %s", s, templateHelp)
	}
	return parts, nil
}
