package frame

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Every code has a name of its own, a text and an advice, and unknown ones say their number.
func TestErrorTable(t *testing.T) {
	names := map[string]bool{}
	for c := range ErrorCode(len(errorTable)) {
		if c.Name() == "" || c.String() == "" || c.Advice() == "" || names[c.Name()] {
			t.Errorf("code %d: %q, %q, %q", c, c.Name(), c.String(), c.Advice())
		}
		names[c.Name()] = true
	}
	if len(errorTable) != int(ErrInternal)+1 {
		t.Errorf("%d rows", len(errorTable))
	}
	for _, c := range []ErrorCode{ErrBusy, ErrStorageFull, ErrStopping, ErrTimeout, ErrWrongShard} {
		if !c.Retriable() {
			t.Errorf("%s is not retriable", c.Name())
		}
	}
	for _, c := range []ErrorCode{ErrNone, ErrMalformed, ErrCorrupt, ErrFenced, ErrSequence, 999} {
		if c.Retriable() {
			t.Errorf("%s is retriable", c.Name())
		}
	}
	if ErrorCode(999).Name() != "Error999" || ErrorCode(999).String() != "error 999" || ErrorCode(999).Advice() == "" {
		t.Error("an unknown code does not say its number")
	}
}

func TestErrorIsComparedByCode(t *testing.T) {
	err := fmt.Errorf("produce: %w", &Error{Code: ErrBusy, DelayMillis: 5})
	if !errors.Is(err, &Error{Code: ErrBusy}) || errors.Is(err, &Error{Code: ErrFenced}) {
		t.Error("errors.Is")
	}
	if (&Error{Code: ErrBusy}).Error() != ErrBusy.String() || (&Error{Code: ErrBusy, Text: "x"}).Error() != "x" {
		t.Error("text")
	}
	if CodeOf(nil) != ErrNone || CodeOf(&Error{Code: ErrBusy}) != ErrBusy || CodeOf(BadShort) != ErrMalformed || CodeOf(errors.New("x")) != ErrInternal {
		t.Error("CodeOf")
	}
	if NotDone.String() == OutcomeUnknown.String() {
		t.Error("outcomes have one name")
	}
}

// Any text of ours arrives: cut at a rune, without what could play tricks on a terminal.
func TestErrorTextAlwaysArrives(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                             "plain",
		"two\nlines\x1b[31m":                "two lines [31m",
		"bad \xff byte":                     "bad \uFFFD byte",
		"c1 \u009b":                         "c1  ",
		strings.Repeat("ä", MaxErrorText/2): strings.Repeat("ä", MaxErrorText/2),
		"x" + strings.Repeat("ä", MaxErrorText/2): "x" + strings.Repeat("ä", MaxErrorText/2-1),
		strings.Repeat("\xff", MaxErrorText):      strings.Repeat("\uFFFD", MaxErrorText/3),
	} {
		var e Error
		if err := e.Decode((&Error{Code: ErrInternal, Text: text}).Append(nil)); err != nil || e.Text != want {
			t.Errorf("%.20q arrives as %.20q, %v", text, e.Text, err)
		}
	}
}
