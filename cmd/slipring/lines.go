package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader cuts an input into lines. A line is what lies before a newline, byte for byte, and what lies behind the last
// one if it is not empty.
type lineReader struct {
	r    *bufio.Reader
	max  int // bytes of a line; a longer one is an error
	long []byte
	n    int // lines given

	advice string // what to do about a line that is too long
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), max: max, advice: "raise the topic's --max-record or split the line"}
}

// next gives a line, valid until the following call, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	line := part
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], part...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long) > l.max+1 {
				return nil, l.tooLong()
			}
			part, err = l.r.ReadSlice('\n')
			l.long = append(l.long, part...)
		}
		line = l.long
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, newline)
	if len(line) > l.max {
		return nil, l.tooLong()
	}
	l.n++
	return line, nil
}

var newline = []byte{'\n'}

func (l *lineReader) tooLong() error {
	return fmt.Errorf("line %d is longer than %d bytes; %s", l.n+1, l.max, l.advice)
}
