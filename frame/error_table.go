package frame

import "strconv"

// errorRow describes one code for people; docs/PROTOCOL.md carries the same table and a test compares them.
type errorRow struct {
	name      string
	text      string // what happened
	retriable bool   // the same request may succeed later, unchanged
	closes    string // whether the broker closes the connection after it: yes, no or may
	advice    string // what to do
}

var errorTable = [...]errorRow{
	ErrNone:                {"None", "no error", false, "no", "nothing"},
	ErrMalformed:           {"Malformed", "a frame or field does not parse", false, "yes", "fix the client"},
	ErrUnknownCommand:      {"UnknownCommand", "unknown command or flag", false, "no", "use what the negotiated version defines"},
	ErrVersion:             {"Version", "no common protocol version", false, "no", "use a client that speaks a version of this broker"},
	ErrTooLarge:            {"TooLarge", "batch, record or PUBLISH above its bound", false, "no", "split the batch, use PRODUCE, or raise max record of the topic"},
	ErrOutOfOrder:          {"OutOfOrder", "HELLO is missing or repeated, parts are mixed up, or a request id is in use", false, "yes", "fix the client"},
	ErrUnauthenticated:     {"Unauthenticated", "authentication is missing or failed", false, "yes", "authenticate"},
	ErrInvalidName:         {"InvalidName", "the name is not allowed", false, "no", "use tokens of A-Z a-z 0-9 _ - joined by dots, 255 bytes at most"},
	ErrUnknownTopic:        {"UnknownTopic", "no such topic", false, "no", "create it, or drop the cached id and ask METADATA"},
	ErrTopicExists:         {"TopicExists", "a topic of this name exists", false, "no", "use it, or choose another name"},
	ErrUnknownPartition:    {"UnknownPartition", "the topic has no such partition", false, "no", "ask METADATA for the partitions"},
	ErrInvalidSetting:      {"InvalidSetting", "a setting is unknown, out of bounds or cannot be changed", false, "no", "correct the setting"},
	ErrCorrupt:             {"Corrupt", "checksum or record framing of a batch is wrong", false, "no", "build the batch anew; suspect memory or network if it was right"},
	ErrOffsetOutOfRange:    {"OffsetOutOfRange", "the offset is not in the log", false, "no", "choose an offset from First to Last"},
	ErrSequence:            {"Sequence", "the sequence does not follow the producer's last batch", false, "no", "send from First on, in order; a batch before First is stored"},
	ErrProducerFenced:      {"ProducerFenced", "a newer epoch of this producer exists", false, "no", "stop, or ask for a new producer id"},
	ErrUnknownProducer:     {"UnknownProducer", "the producer id was never given, or nothing is known of it and its sequence is not 0", false, "no", "ask for a new producer id; earlier batches may be stored"},
	ErrDurability:          {"Durability", "the topic cannot give the acks asked for", false, "no", "ask for the strongest acks that the topic offers"},
	ErrBusy:                {"Busy", "over a bound of memory, window or queue, or the disk is stalled", true, "no", "wait for the delay, then retry"},
	ErrFenced:              {"Fenced", "the partition or shard stopped after a storage failure", false, "no", "read on; an operator must look at the broker's log"},
	ErrDamaged:             {"Damaged", "the bytes at this offset cannot be read", false, "no", "restore the data, or seek past it; the broker's log names the offsets"},
	ErrStorageFull:         {"StorageFull", "no room on the disk", true, "no", "free space or shorten retention, then retry"},
	ErrStopping:            {"Stopping", "the broker is stopping", true, "may", "reconnect and retry"},
	ErrCancelled:           {"Cancelled", "the request was cancelled", false, "no", "nothing"},
	ErrTimeout:             {"Timeout", "a deadline has passed", true, "yes", "reconnect and retry"},
	ErrUnknownSubscription: {"UnknownSubscription", "no subscription has this id", false, "no", "subscribe again"},
	ErrLimit:               {"Limit", "too many topics, partitions, subscriptions or requests", false, "no", "ask for less at a time, or raise the limit"},
	ErrWrongShard:          {"WrongShard", "this shard does not own the partition", true, "no", "ask METADATA and use the endpoint it names"},
	ErrInternal:            {"Internal", "a fault of the broker", true, "may", "retry, and report it"},
}

func (c ErrorCode) row() *errorRow {
	if int(c) < len(errorTable) {
		return &errorTable[c]
	}
	return nil
}

// Name is the code's constant without Err.
func (c ErrorCode) Name() string {
	if r := c.row(); r != nil {
		return r.name
	}
	return "Error" + strconv.Itoa(int(c))
}

// String is what happened, in a few words.
func (c ErrorCode) String() string {
	if r := c.row(); r != nil {
		return r.text
	}
	return "error " + strconv.Itoa(int(c))
}

// Advice is what to do about it.
func (c ErrorCode) Advice() string {
	if r := c.row(); r != nil {
		return r.advice
	}
	return "see the text of the error"
}

// Retriable is the usual value of Error.Retriable for the code.
func (c ErrorCode) Retriable() bool {
	r := c.row()
	return r != nil && r.retriable
}

// Closes says that the broker closes the connection after an error of this code. All others leave it open once HELLO is
// done, but for Stopping and Internal, which may close it.
func (c ErrorCode) Closes() bool {
	r := c.row()
	return r != nil && r.closes == "yes"
}
