package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/slipringmq/slipring/frame"
)

// Error is a request that the broker refused, or that failed on the way.
type Error struct {
	Op        string // what was asked, and of what: "produce orders.eu/3"
	Code      frame.ErrorCode
	Unknown   bool          // outcome unknown: the request may have been carried out
	Retriable bool          // the same request may succeed later
	Delay     time.Duration // wait at least so long before a retry
	First     uint64        // of OffsetOutOfRange and Sequence: the valid range
	Last      uint64
	Text      string // the broker's words
}

// Error says what failed, where, and what to do.
func (e *Error) Error() string {
	text := e.Text
	if text == "" {
		text = e.Code.String()
	}
	if e.Code == frame.ErrOffsetOutOfRange {
		text = fmt.Sprintf("%s (valid: %d to %d)", text, e.First, e.Last)
	}
	if e.Unknown {
		text += "; outcome unknown"
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Is compares codes, so that errors.Is(err, ErrBusy) holds whatever the text.
func (e *Error) Is(target error) bool {
	c, ok := target.(*codeError)
	return ok && c.code == e.Code
}

// codeError is an error code as a value to compare with.
type codeError struct{ code frame.ErrorCode }

func (c *codeError) Error() string { return c.code.String() }

// One value per error code of the protocol, for errors.Is.
var (
	ErrMalformed           error = &codeError{frame.ErrMalformed}
	ErrUnknownCommand      error = &codeError{frame.ErrUnknownCommand}
	ErrVersion             error = &codeError{frame.ErrVersion}
	ErrTooLarge            error = &codeError{frame.ErrTooLarge}
	ErrOutOfOrder          error = &codeError{frame.ErrOutOfOrder}
	ErrUnauthenticated     error = &codeError{frame.ErrUnauthenticated}
	ErrInvalidName         error = &codeError{frame.ErrInvalidName}
	ErrUnknownTopic        error = &codeError{frame.ErrUnknownTopic}
	ErrTopicExists         error = &codeError{frame.ErrTopicExists}
	ErrUnknownPartition    error = &codeError{frame.ErrUnknownPartition}
	ErrInvalidSetting      error = &codeError{frame.ErrInvalidSetting}
	ErrCorrupt             error = &codeError{frame.ErrCorrupt}
	ErrOffsetOutOfRange    error = &codeError{frame.ErrOffsetOutOfRange}
	ErrSequence            error = &codeError{frame.ErrSequence}
	ErrProducerFenced      error = &codeError{frame.ErrProducerFenced}
	ErrUnknownProducer     error = &codeError{frame.ErrUnknownProducer}
	ErrDurability          error = &codeError{frame.ErrDurability}
	ErrBusy                error = &codeError{frame.ErrBusy}
	ErrFenced              error = &codeError{frame.ErrFenced}
	ErrDamaged             error = &codeError{frame.ErrDamaged}
	ErrStorageFull         error = &codeError{frame.ErrStorageFull}
	ErrStopping            error = &codeError{frame.ErrStopping}
	ErrCancelled           error = &codeError{frame.ErrCancelled}
	ErrTimeout             error = &codeError{frame.ErrTimeout}
	ErrUnknownSubscription error = &codeError{frame.ErrUnknownSubscription}
	ErrLimit               error = &codeError{frame.ErrLimit}
	ErrWrongShard          error = &codeError{frame.ErrWrongShard}
	ErrInternal            error = &codeError{frame.ErrInternal}
)

// Failures that the broker did not name.
var (
	// ErrClosed: the client, producer, consumer or subscription was closed.
	ErrClosed = errors.New("client: closed")
	// ErrConnection: no broker could be reached, or the connection was lost; what it carried has an unknown outcome.
	ErrConnection = errors.New("client: connection lost")
	// ErrProtocol: the broker sent bytes that are not the protocol; the connection was closed.
	ErrProtocol = errors.New("client: broker broke the protocol")
	// ErrDeliveryTimeout: records were not acknowledged within the delivery timeout.
	ErrDeliveryTimeout = errors.New("client: delivery timeout")
	// ErrTopicRecreated: the topic that this producer or consumer was opened on no longer exists, and another one has its
	// name (deleted and created again, or another data directory). Offsets and sequences of the old one mean nothing
	// there, so nothing is carried over: open a new producer or consumer.
	ErrTopicRecreated = errors.New("client: topic was recreated; open a new producer or consumer")
	// ErrOutcomeUnknown: the records may be stored, or not. A *Error says the same in its field Unknown.
	ErrOutcomeUnknown = errors.New("client: outcome unknown")
)

// fromFrame turns an ERROR reply into ours.
func fromFrame(op string, e *frame.Error) *Error {
	return &Error{
		Op: op, Code: e.Code, Unknown: e.Outcome == frame.OutcomeUnknown, Retriable: e.Retriable,
		Delay: time.Duration(e.DelayMillis) * time.Millisecond, First: e.First, Last: e.Last, Text: e.Text,
	}
}

// withOp names the request in an error. One that only has an answer of the broker in it keeps all that is around it.
func withOp(op string, err error) error {
	if e, ok := err.(*Error); ok && e.Op == "" {
		named := *e
		named.Op = op
		return &named
	}
	return fmt.Errorf("%s: %w", op, err)
}

// answer gives the broker's answer to the request itself. What a broker said before it closed the connection is none.
func answer(err error) (*Error, bool) {
	if err == nil || errors.Is(err, ErrConnection) {
		return nil, false
	}
	return errors.AsType[*Error](err)
}

func isCode(err error, code frame.ErrorCode) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
