package frame

// DecodeError is why bytes are not a frame or a message, with the code for the peer. All are prebuilt, so a refusal costs
// no allocation; compare with errors.Is or ==.
type DecodeError struct {
	Code ErrorCode
	Text string
}

func (e *DecodeError) Error() string { return e.Text }

var (
	BadHeader    = &DecodeError{ErrMalformed, "frame: fewer than 16 bytes of header"}
	BadLength    = &DecodeError{ErrMalformed, "frame: length below 12"}
	BadSize      = &DecodeError{ErrMalformed, "frame: length above 1 MiB of payload"}
	BadVersion   = &DecodeError{ErrVersion, "frame: unknown protocol version"}
	BadCommand   = &DecodeError{ErrUnknownCommand, "frame: unknown command"}
	BadFlags     = &DecodeError{ErrUnknownCommand, "frame: unknown flag"}
	BadShort     = &DecodeError{ErrMalformed, "frame: payload ends inside a field"}
	BadTrailing  = &DecodeError{ErrMalformed, "frame: bytes after the last field"}
	BadBool      = &DecodeError{ErrMalformed, "frame: a boolean is neither 0 nor 1"}
	BadReserved  = &DecodeError{ErrMalformed, "frame: reserved bytes are not zero"}
	BadValue     = &DecodeError{ErrMalformed, "frame: a field has an undefined value"}
	BadText      = &DecodeError{ErrMalformed, "frame: a text is too long, not UTF-8 or has control characters"}
	BadCount     = &DecodeError{ErrLimit, "frame: more list elements than allowed"}
	BadSetting   = &DecodeError{ErrInvalidSetting, "frame: unknown bit in a settings mask"}
	BadPublish   = &DecodeError{ErrTooLarge, "publish: payload above 64 KiB; use PRODUCE"}
	BadPartition = &DecodeError{ErrUnknownPartition, "frame: a start offset needs one named partition"}

	BadNameLength   = &DecodeError{ErrInvalidName, "name: must have 1 to 255 bytes"}
	BadNameToken    = &DecodeError{ErrInvalidName, "name: empty token; dots join tokens and neither lead, trail nor repeat"}
	BadNameByte     = &DecodeError{ErrInvalidName, "name: only A-Z a-z 0-9 _ - and dots are allowed"}
	BadNameReserved = &DecodeError{ErrInvalidName, "name: a first token that begins with _ is the broker's own"}
)

// CodeOf is the code to answer err with: a DecodeError's or Error's own, 0 for nil, ErrInternal for anything else.
func CodeOf(err error) ErrorCode {
	switch e := err.(type) {
	case nil:
		return ErrNone
	case *DecodeError:
		return e.Code
	case *Error:
		return e.Code
	}
	return ErrInternal
}
