package frame

// Version is the protocol version that HELLO negotiates and every frame header carries.
const Version = 1

// HeaderBytes is the fixed size before a payload.
//
//	at  size  field
//	 0     4  length: bytes after this field, 12 + payload
//	 4     1  version
//	 5     1  command
//	 6     2  flags
//	 8     8  request id, chosen by the client; a reply carries the request's
const HeaderBytes = 16

// MaxPayload bounds the payload of one frame or of one part. Longer requests and replies travel in parts (FlagMore).
const MaxPayload = 1 << 20

// Flags of a frame header. A bit that a decoder does not know is refused.
const (
	FlagMore  uint16 = 1 << 0 // another part of the same request or reply follows under the same request id
	FlagReply uint16 = 1 << 1 // set on every frame from broker to client
)

// Command numbers are stable for ever.
type Command uint8

const (
	CmdHello         Command = 1
	CmdAuth          Command = 2
	CmdPing          Command = 3
	CmdMetadata      Command = 4
	CmdCreateTopic   Command = 5
	CmdDeleteTopic   Command = 6
	CmdAlterTopic    Command = 7
	CmdListTopics    Command = 8
	CmdDescribeTopic Command = 9
	CmdProducerID    Command = 10
	CmdProduce       Command = 11
	CmdPublish       Command = 12
	CmdFetch         Command = 13
	CmdListOffsets   Command = 14
	CmdSubscribe     Command = 15
	CmdUnsubscribe   Command = 16
	CmdDeliver       Command = 17
	CmdCredit        Command = 18
	CmdCancel        Command = 19
	CmdError         Command = 20
)

// Header is a decoded frame header.
type Header struct {
	Length    uint32 // bytes after the length field
	Version   uint8
	Command   Command
	Flags     uint16
	RequestID uint64
}

// Acks says what a reply to PRODUCE or PUBLISH waits for.
type Acks uint8

const (
	AcksNone    Acks = 0 // no reply
	AcksLeader  Acks = 1 // in the broker's memory
	AcksDurable Acks = 2 // on stable media
)

// Storage of a topic.
type Storage uint8

const (
	StorageLog    Storage = 0
	StorageMemory Storage = 1
	StorageNone   Storage = 2 // handed to the subscribers of the moment and forgotten
)

// Durability says when the bytes of a StorageLog topic become durable.
type Durability uint8

const (
	DurabilitySync     Durability = 0 // before a durable acknowledgement
	DurabilityInterval Durability = 1 // every IntervalMillis
	DurabilityNone     Durability = 2 // when the kernel or a checkpoint gets to it
)

// Settings of a topic. On the wire a u32 mask says which fields follow, in this order, so that ALTER can name some only.
type Settings struct {
	Mask             uint32     // SetXxx bits of the fields that are present
	Storage          Storage    // u8;  fixed at creation
	Durability       Durability // u8
	IntervalMillis   uint32     // of DurabilityInterval
	RetentionMillis  int64      // records older than this may go; -1: no limit
	RetentionBytes   int64      // per partition; -1: no limit
	RetentionRecords int64      // per partition; -1: no limit
	RetentionAcked   bool       // u8; records that every lease group has acked may go
	MaxRecordBytes   uint32     // greatest key + value + headers of one record
	SegmentBytes     uint32     // roll size of a segment file
}

const (
	SetStorage uint32 = 1 << iota
	SetDurability
	SetIntervalMillis
	SetRetentionMillis
	SetRetentionBytes
	SetRetentionRecords
	SetRetentionAcked
	SetMaxRecordBytes
	SetSegmentBytes
)

// Hello opens a connection; it is the first frame, and its payload is at most 4 KiB.
type Hello struct {
	MinVersion, MaxVersion uint8
	Features               uint64 // none defined yet: 0
	ClientName             string // at most 255 bytes; shown in logs and listings
	Software               string // name and version of the client library
}

// HelloReply says what was negotiated.
type HelloReply struct {
	Version       uint8
	Features      uint64
	DirectoryID   [16]byte // when it differs from the last one seen, a client drops all cached ids
	ProduceWindow uint32   // bytes of produce requests that may be unanswered on this connection
	MaxPayload    uint32
	AuthRequired  bool
	Shard         uint32 // that owns this connection
	Shards        uint32
}

// Auth carries one step of an authentication mechanism. Version 1 brokers know the mechanism "none".
type Auth struct {
	Mechanism string
	Data      []byte
}

// AuthReply is the broker's step; Done says that no further one is expected.
type AuthReply struct {
	Done bool
	Data []byte
}

// Metadata asks for topics by name; no name asks for endpoints only.
type Metadata struct{ Topics []string }

// Endpoint is an address at which a shard listens.
type Endpoint struct {
	Host  string
	Port  uint16
	Shard uint32
}

// TopicMetadata maps partition i to Endpoints[Partitions[i]].
type TopicMetadata struct {
	Error      ErrorCode // 0 or why the rest is empty (ErrUnknownTopic, ErrInvalidName)
	Name       string
	ID         uint32
	Settings   Settings // all fields present, none with an error
	Partitions []uint16
}

type MetadataReply struct {
	Endpoints []Endpoint
	Topics    []TopicMetadata
}

// CreateTopic makes a topic. Answered when every shard knows it.
type CreateTopic struct {
	Name       string
	Partitions uint32
	Settings   Settings // absent fields take the broker's defaults
}

type CreateTopicReply struct{ ID uint32 }

type DeleteTopic struct{ Name string }

// AlterTopic changes the settings in the mask. Answered with an empty reply.
type AlterTopic struct {
	Name     string
	Settings Settings
}

// ListTopics pages through topics in name order.
type ListTopics struct {
	Prefix string
	After  string // the last name of the page before, or empty
	Limit  uint32 // at most 10,000; 0: that many
}

type TopicSummary struct {
	Name       string
	ID         uint32
	Partitions uint32
	Storage    Storage
	Durability Durability
	Records    uint64 // offsets between log start and high watermark, all partitions
	Bytes      uint64 // batch bytes held, all partitions
}

type ListTopicsReply struct {
	More   bool // another page follows After the last name
	Topics []TopicSummary
}

type DescribeTopic struct{ Name string }

// PartitionInfo is one partition as its owner sees it.
type PartitionInfo struct {
	Partition     uint32
	Shard         uint32
	Error         ErrorCode // ErrFenced when the partition stopped taking records
	Epoch         uint64
	LogStart      uint64
	LogEnd        uint64
	DurableEnd    uint64
	HighWatermark uint64
	Bytes         uint64
	Segments      uint32
}

type DescribeTopicReply struct {
	Name       string
	ID         uint32
	Settings   Settings
	Partitions []PartitionInfo
}

// ProducerID has an empty request; the reply names a producer for idempotent PRODUCE.
type ProducerIDReply struct {
	ProducerID uint64 // start number of the broker in the high bits: never given twice
	Epoch      uint16
}

// Produce appends one batch. Batch is the 96-byte header and the body; longer than a frame, it goes on in further parts
// whose payloads are simply the next bytes of the batch.
type Produce struct {
	Topic     uint32
	Partition uint32
	Acks      Acks // u8, then three reserved zero bytes
	Batch     []byte
}

// ProduceReply answers PRODUCE and PUBLISH.
type ProduceReply struct {
	Topic      uint32
	Partition  uint32
	BaseOffset uint64
	AppendTime int64  // Unix ms
	LogStart   uint64 // of the partition
}

// Publish appends one small record (payload of the frame at most 64 KiB); consecutive ones to the same partition in one
// read become one batch. No producer id, no compression.
type Publish struct {
	Topic     uint32
	Partition uint32
	Acks      Acks
	HasKey    bool   // u8
	Key       []byte // u16 length; empty without HasKey
	Value     []byte // the rest of the payload
}

// Fetch reads from many partitions. The reply comes when MinBytes are there, MaxWaitMillis have passed, or an error is
// known; MaxBytes bounds it, but one batch is always allowed.
type Fetch struct {
	MaxWaitMillis uint32
	MinBytes      uint32
	MaxBytes      uint32
	Partitions    []FetchPartition // at least one, each partition once; reused by Decode
}

type FetchPartition struct {
	Topic     uint32
	Partition uint32
	Offset    uint64 // first offset wanted; the batch that holds it comes whole, the client filters
	MaxBytes  uint32
}

// FetchChunk is one piece of a FETCH reply. The payload of each part is a run of chunks. The data of the chunks of one
// partition, in order of arrival, concatenate to whole batches at the end of the reply; a batch larger than a frame is
// spread over several chunks. A partition with an error or without records has one chunk without data.
type FetchChunk struct {
	Topic         uint32
	Partition     uint32
	Error         ErrorCode // u16, then two reserved zero bytes; ErrOffsetOutOfRange: LogStart..HighWatermark is valid
	HighWatermark uint64
	LogStart      uint64
	Data          []byte // u32 length
}

// ListOffsets resolves positions to offsets.
type ListOffsets struct{ Partitions []OffsetQuery }

type OffsetQuery struct {
	Topic     uint32
	Partition uint32
	Kind      OffsetKind
	Time      int64 // Unix ms, of OffsetByTime: first offset with append time >= Time; else 0
}

type OffsetKind uint8

const (
	OffsetStart  OffsetKind = 0 // log start
	OffsetEnd    OffsetKind = 1 // high watermark
	OffsetByTime OffsetKind = 2
)

type ListOffsetsReply struct{ Partitions []OffsetAnswer }

type OffsetAnswer struct {
	Topic     uint32
	Partition uint32
	Error     ErrorCode
	Offset    uint64
	Time      int64 // append time of the batch found, 0 when the offset is the end
}

// AllPartitions in Subscribe.Partition stands for every partition of the topic.
const AllPartitions = ^uint32(0)

// Subscribe asks for push. The request id of SUBSCRIBE names the subscription on this connection: DELIVER, CREDIT and
// UNSUBSCRIBE carry it. Answered with an empty reply once nothing published later can be missed.
type Subscribe struct {
	Name      string // exact topic name
	Partition uint32 // or AllPartitions
	Start     SubscribeStart
	Offset    uint64 // of SubscribeOffset, which needs one named partition; else 0
	Records   int64  // first credit
	Bytes     int64
}

type SubscribeStart uint8

const (
	SubscribeTail   SubscribeStart = 0 // what becomes readable from now on
	SubscribeLog    SubscribeStart = 1 // from log start
	SubscribeOffset SubscribeStart = 2
)

// Unsubscribe ends the subscription named by its frame's request id; the empty reply is the last frame with that id.
type Unsubscribe struct{}

// Deliver pushes bytes of one partition to the subscription named by the request id. Data of consecutive DELIVER frames of
// one partition concatenates to whole batches; FlagMore says that this batch goes on in the next one.
type Deliver struct {
	Topic     uint32
	Partition uint32
	Lost      uint32 // records that a StorageNone topic dropped for this subscription since the last DELIVER
	Data      []byte // the rest of the payload
}

// Credit adds to a subscription's credit. Spent when either is <= 0; one delivery may take it below zero. No reply.
type Credit struct {
	Records int64
	Bytes   int64
}

// Cancel ends a waiting request of this connection by its id; that request is answered ErrCancelled unless its reply is
// already on the way. CANCEL itself has no reply.
type Cancel struct{ RequestID uint64 }

// Error is the reply to a request that failed.
type Error struct {
	Code        ErrorCode // u16
	Outcome     Outcome   // u8
	Retriable   bool      // u8
	DelayMillis uint32    // wait at least so long before a retry
	First, Last uint64    // of ErrOffsetOutOfRange and ErrSequence: the valid range, else 0
	Text        string    // what failed, where, what to do
}

// Outcome says what became of a request that was answered with an error.
type Outcome uint8

const (
	NotDone        Outcome = 0
	OutcomeUnknown Outcome = 1
)
