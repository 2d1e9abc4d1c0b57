package frame

// ErrorCode numbers are stable for ever. The table below generates the one of docs/PROTOCOL.md.
type ErrorCode uint16

const (
	ErrNone                ErrorCode = 0
	ErrMalformed           ErrorCode = 1 // frame or field does not parse; the connection closes
	ErrUnknownCommand      ErrorCode = 2 // or unknown flag
	ErrVersion             ErrorCode = 3 // no common protocol version
	ErrTooLarge            ErrorCode = 4 // batch, record or PUBLISH above its bound
	ErrOutOfOrder          ErrorCode = 5 // HELLO missing or repeated, parts mixed up, request id in use
	ErrUnauthenticated     ErrorCode = 6
	ErrInvalidName         ErrorCode = 7
	ErrUnknownTopic        ErrorCode = 8 // by name or id
	ErrTopicExists         ErrorCode = 9
	ErrUnknownPartition    ErrorCode = 10
	ErrInvalidSetting      ErrorCode = 11
	ErrCorrupt             ErrorCode = 12 // CRC or record framing of a batch is wrong
	ErrOffsetOutOfRange    ErrorCode = 13
	ErrSequence            ErrorCode = 14 // of an idempotent producer: does not follow its last batch
	ErrProducerFenced      ErrorCode = 15 // a newer epoch of this producer exists
	ErrUnknownProducer     ErrorCode = 16 // id never given, or nothing is known of it and the sequence is not 0
	ErrDurability          ErrorCode = 17 // the topic cannot give the acks asked for
	ErrBusy                ErrorCode = 18 // over a memory, window or queue bound, or the disk is stalled
	ErrFenced              ErrorCode = 19 // partition or shard stopped after a storage failure
	ErrDamaged             ErrorCode = 20 // the bytes at this offset cannot be read
	ErrStorageFull         ErrorCode = 21
	ErrStopping            ErrorCode = 22
	ErrCancelled           ErrorCode = 23
	ErrTimeout             ErrorCode = 24
	ErrUnknownSubscription ErrorCode = 25
	ErrLimit               ErrorCode = 26 // too many topics, partitions, subscriptions, requests
	ErrWrongShard          ErrorCode = 27
	ErrInternal            ErrorCode = 28
)
