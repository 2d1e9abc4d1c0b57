package frame

// Error implements error: the text, or the code's own where there is none.
func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	return e.Code.String()
}

// Is lets errors.Is compare by code: errors.Is(err, &Error{Code: ErrBusy}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

func (e *Error) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, uint16(e.Code))
	dst = append(dst, byte(e.Outcome))
	dst = appendBool(dst, e.Retriable)
	dst = le.AppendUint32(dst, e.DelayMillis)
	dst = le.AppendUint64(dst, e.First)
	dst = le.AppendUint64(dst, e.Last)
	return appendText(dst, e.Text, MaxErrorText)
}

// Decode takes codes that version 1 does not define: a later broker may answer with one, and Retriable and Outcome say
// what to do all the same.
func (e *Error) Decode(p []byte) error {
	r := reader{p: p}
	e.Code = r.errorCode()
	e.Outcome = Outcome(r.enum(uint8(OutcomeUnknown)))
	e.Retriable = r.boolean()
	e.DelayMillis = r.u32()
	e.First = r.u64()
	e.Last = r.u64()
	e.Text = r.text(MaxErrorText)
	if e.Code == ErrNone {
		r.fail(BadValue)
	}
	return r.done()
}

func (o Outcome) String() string {
	if o == NotDone {
		return "not done"
	}
	return "outcome unknown"
}
