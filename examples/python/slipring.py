"""A small client of the Slipring message broker, protocol version 1.

One file, standard library only, Python 3.9 or later. It was written from docs/PROTOCOL.md alone and follows the order of that page: bytes,
frames, errors, the payload of each command, batches and records, and last the Client that sends them over one TCP connection.

    from slipring import Client, Record

    with Client("localhost", 7400) as client:
        topic = client.create_topic("orders", partitions=3)
        client.produce(topic, 0, [Record(b"hello", key=b"k1")])
        for record in client.fetch([(topic, 0, 0)])[topic, 0].records():
            print(record.offset, record.key, record.value)

A Client is for one thread. It reads frames while it waits for something, and while it sends; replies in another order than the requests are
kept until they are asked for. It does not reconnect: make a new Client, and hand it to Producer.rebind to go on without loss or duplicates.
"""

from __future__ import annotations

import enum
import select
import socket
import struct
import time
import zlib
from dataclasses import dataclass, field
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

VERSION = 1
MAX_PAYLOAD = 1 << 20
MAX_BODY = 1 << 20  # of a batch of several records
MAX_PUBLISH = 1 << 16
MAX_JOINED = 64 << 20
MAX_DECOMPRESSED = 256 << 20  # a few KiB of gzip can claim to be gigabytes
ALL_PARTITIONS = 0xFFFFFFFF
UNLIMITED = 1 << 62  # credit that never runs out

ACKS_NONE, ACKS_LEADER, ACKS_DURABLE = 0, 1, 2
STORAGE_LOG, STORAGE_MEMORY, STORAGE_NONE = 0, 1, 2
DURABILITY_SYNC, DURABILITY_INTERVAL, DURABILITY_NONE = 0, 1, 2
OFFSET_START, OFFSET_END, OFFSET_TIME = 0, 1, 2
START_TAIL, START_LOG, START_OFFSET = 0, 1, 2
CODEC_NONE, CODEC_GZIP = 0, 1


class Command(enum.IntEnum):
    HELLO = 1
    AUTH = 2
    PING = 3
    METADATA = 4
    CREATE_TOPIC = 5
    DELETE_TOPIC = 6
    ALTER_TOPIC = 7
    LIST_TOPICS = 8
    DESCRIBE_TOPIC = 9
    PRODUCER_ID = 10
    PRODUCE = 11
    PUBLISH = 12
    FETCH = 13
    LIST_OFFSETS = 14
    SUBSCRIBE = 15
    UNSUBSCRIBE = 16
    DELIVER = 17
    CREDIT = 18
    CANCEL = 19
    ERROR = 20


# ---------------------------------------------------------------- errors


class Code(enum.IntEnum):
    """Numbers of errors. A broker may know more of them than this client."""

    Malformed = 1
    UnknownCommand = 2
    Version = 3
    TooLarge = 4
    OutOfOrder = 5
    Unauthenticated = 6
    InvalidName = 7
    UnknownTopic = 8
    TopicExists = 9
    UnknownPartition = 10
    InvalidSetting = 11
    Corrupt = 12
    OffsetOutOfRange = 13
    Sequence = 14
    ProducerFenced = 15
    UnknownProducer = 16
    Durability = 17
    Busy = 18
    Fenced = 19
    Damaged = 20
    StorageFull = 21
    Stopping = 22
    Cancelled = 23
    Timeout = 24
    UnknownSubscription = 25
    Limit = 26
    WrongShard = 27
    Internal = 28


# For codes inside replies, which come without the field Retriable of an ERROR frame.
RETRIABLE = {Code.Busy, Code.StorageFull, Code.Stopping, Code.Timeout, Code.WrongShard, Code.Internal}


class SlipringError(Exception):
    """Base of every error of this module, except TimeoutError of waiting in vain."""


class ProtocolError(SlipringError):
    """Bytes that the protocol does not allow: a broken broker, network or client."""


class ConnectionClosed(SlipringError):
    """The connection has ended. The outcome of what was not answered by then is unknown."""


class BrokerError(SlipringError):
    """An ERROR frame, or an error code inside a reply.

    unknown: the request may have taken effect, or may yet; otherwise it has not. retriable: the same request, unchanged, may succeed after
    delay_ms. first and last: the valid offsets of OffsetOutOfRange, the expected sequence of Sequence. partial: what a FETCH had received
    before the error, if anything.
    """

    def __init__(self, code, unknown=False, retriable=False, delay_ms=0, first=0, last=0, text=""):
        super().__init__(code, text)
        self.code, self.unknown, self.retriable, self.delay_ms = code, unknown, retriable, delay_ms
        self.first, self.last, self.text = first, last, text
        self.partial: Optional[Dict[Tuple[int, int], FetchResult]] = None

    def __str__(self):
        return "%s: %s" % (code_name(self.code), self.text) if self.text else code_name(self.code)


def code_name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return "error %d" % code


# ---------------------------------------------------------------- bytes


def _crc_table() -> List[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data) -> int:
    """CRC-32C (Castagnoli) of data."""
    table, crc = _CRC_TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _string(text: str, limit: int = 0xFFFF) -> bytes:
    data = text.encode()
    if len(data) > limit:
        raise ValueError("text of %d bytes, %d are allowed" % (len(data), limit))
    return struct.pack("<H", len(data)) + data


class Reader:
    """Takes the fields of a payload one after the other and refuses what is not there."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left():
            raise ProtocolError("a field of %d bytes, %d are left" % (size, self.left()))
        self.at += size
        return self.data[self.at - size : self.at]

    def unpack(self, layout: str) -> tuple:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def number(self, layout: str) -> int:
        return self.unpack(layout)[0]

    def bool(self) -> bool:
        value = self.number("B")
        if value > 1:
            raise ProtocolError("a bool of %d" % value)
        return value == 1

    def zeros(self, size: int) -> None:
        if any(self.take(size)):
            raise ProtocolError("reserved bytes that are not zero")

    def string(self, limit: int = 255) -> str:
        size = self.number("H")
        if size > limit:
            raise ProtocolError("a text of %d bytes, %d are allowed" % (size, limit))
        try:
            text = self.take(size).decode()
        except UnicodeDecodeError as err:
            raise ProtocolError("a text that is not UTF-8") from err
        if any(c < " " or "\x7f" <= c <= "\x9f" for c in text):
            raise ProtocolError("a text with control characters")
        return text

    def bytes(self) -> bytes:
        return self.take(self.number("I"))

    def count(self, limit: int, least: int) -> int:
        """The count of a list of at most limit elements of at least so many bytes each."""
        count = self.number("I")
        if count > limit or count * least > self.left():
            raise ProtocolError("a list of %d elements in %d bytes" % (count, self.left()))
        return count

    def rest(self) -> bytes:
        return self.take(self.left())

    def end(self) -> None:
        if self.left():
            raise ProtocolError("%d bytes after the last field" % self.left())


# ---------------------------------------------------------------- frames

_HEADER = struct.Struct("<IBBHQ")
MORE, REPLY = 1, 2


class Frame(NamedTuple):
    command: int
    flags: int
    id: int
    payload: bytes


def encode_frame(frame: Frame) -> bytes:
    return _HEADER.pack(12 + len(frame.payload), VERSION, frame.command, frame.flags, frame.id) + frame.payload


def decode_frame(buffer: bytearray) -> Optional[Frame]:
    """Takes one frame from the front of buffer. None: it is not complete yet."""
    if len(buffer) < _HEADER.size:
        return None
    length, version, command, flags, request_id = _HEADER.unpack_from(buffer)
    if not 12 <= length <= 12 + MAX_PAYLOAD or version != VERSION or flags & ~(MORE | REPLY):
        raise ProtocolError("a frame of length %d, version %d, flags %d" % (length, version, flags))
    if len(buffer) < 4 + length:
        return None
    payload = bytes(buffer[_HEADER.size : 4 + length])
    del buffer[: 4 + length]
    return Frame(command, flags, request_id, payload)


def encode_parts(command: int, request_id: int, payload: bytes, limit: int = MAX_PAYLOAD) -> List[bytes]:
    """The frames of one message, of which all but the last say that there is more."""
    cuts = range(0, len(payload), limit) if payload else [0]
    return [
        encode_frame(Frame(command, MORE if cut + limit < len(payload) else 0, request_id, payload[cut : cut + limit])) for cut in cuts
    ]


# ---------------------------------------------------------------- settings


@dataclass
class Settings:
    """Settings of a topic. None: not given, which is the broker's default in CREATE TOPIC and no change in ALTER TOPIC."""

    storage: Optional[int] = None
    durability: Optional[int] = None
    interval_ms: Optional[int] = None
    retention_ms: Optional[int] = None
    retention_bytes: Optional[int] = None
    retention_records: Optional[int] = None
    retention_acked: Optional[bool] = None
    max_record_bytes: Optional[int] = None
    segment_bytes: Optional[int] = None


# In the order of the bits of the mask.
_SETTINGS = (
    ("storage", "B"),
    ("durability", "B"),
    ("interval_ms", "I"),
    ("retention_ms", "q"),
    ("retention_bytes", "q"),
    ("retention_records", "q"),
    ("retention_acked", "?"),
    ("max_record_bytes", "I"),
    ("segment_bytes", "I"),
)


def encode_settings(settings: Optional[Settings]) -> bytes:
    mask, fields = 0, b""
    for bit, (name, layout) in enumerate(_SETTINGS):
        value = getattr(settings, name, None)
        if value is not None:
            mask |= 1 << bit
            fields += struct.pack("<" + layout, value)
    return struct.pack("<I", mask) + fields


def decode_settings(reader: Reader) -> Settings:
    mask, settings = reader.number("I"), Settings()
    if mask >> len(_SETTINGS):
        raise ProtocolError("settings with the unknown mask %#x" % mask)
    for bit, (name, layout) in enumerate(_SETTINGS):
        if mask >> bit & 1:
            setattr(settings, name, reader.bool() if layout == "?" else reader.number(layout))
    return settings


# ---------------------------------------------------------------- payloads of requests


def encode_hello(client_name: str, software: str) -> bytes:
    return struct.pack("<BBQ", VERSION, VERSION, 0) + _string(client_name, 255) + _string(software, 255)


def encode_auth(mechanism: str, data: bytes = b"") -> bytes:
    return _string(mechanism, 32) + struct.pack("<I", len(data)) + data


def encode_metadata(topics: Sequence[str]) -> bytes:
    return struct.pack("<I", len(topics)) + b"".join(map(_string, topics))


def encode_create_topic(name: str, partitions: int, settings: Optional[Settings] = None) -> bytes:
    return _string(name) + struct.pack("<I", partitions) + encode_settings(settings)


def encode_name(name: str) -> bytes:
    """The payload of DELETE TOPIC and DESCRIBE TOPIC."""
    return _string(name)


def encode_alter_topic(name: str, settings: Settings) -> bytes:
    return _string(name) + encode_settings(settings)


def encode_list_topics(prefix: str = "", after: str = "", limit: int = 0) -> bytes:
    return _string(prefix) + _string(after) + struct.pack("<I", limit)


def encode_produce(topic: int, partition: int, acks: int, batch: bytes) -> bytes:
    return struct.pack("<IIB3x", topic, partition, acks) + batch


def encode_publish(topic: int, partition: int, acks: int, key: Optional[bytes], value: bytes) -> bytes:
    key, has_key = key or b"", key is not None
    return struct.pack("<IIB?H", topic, partition, acks, has_key, len(key)) + key + value


def encode_fetch(wait_ms: int, min_bytes: int, max_bytes: int, partitions: Sequence[Tuple[int, int, int, int]]) -> bytes:
    """partitions: topic, partition, offset, greatest number of bytes."""
    elements = [struct.pack("<IIQI", *partition) for partition in partitions]
    return struct.pack("<IIII", wait_ms, min_bytes, max_bytes, len(elements)) + b"".join(elements)


def encode_list_offsets(queries: Sequence[Tuple[int, int, int, int]]) -> bytes:
    """queries: topic, partition, kind, time."""
    return struct.pack("<I", len(queries)) + b"".join(struct.pack("<IIBq", *query) for query in queries)


def encode_subscribe(name: str, partition: int, start: int, offset: int, records: int, size: int) -> bytes:
    return _string(name) + struct.pack("<IBQqq", partition, start, offset, records, size)


def encode_credit(records: int, size: int) -> bytes:
    return struct.pack("<qq", records, size)


def encode_cancel(request_id: int) -> bytes:
    return struct.pack("<Q", request_id)


# ---------------------------------------------------------------- payloads of replies


class Hello(NamedTuple):
    version: int
    features: int
    directory_id: bytes
    produce_window: int
    max_payload: int
    auth_required: bool
    shard: int
    shards: int


class Endpoint(NamedTuple):
    host: str  # empty: the one that the client has reached
    port: int
    shard: int


class TopicMetadata(NamedTuple):
    error: int  # if not 0, only name has a meaning
    name: str
    id: int
    settings: Settings
    partitions: List[int]  # for each partition the index of an endpoint


class Metadata(NamedTuple):
    endpoints: List[Endpoint]
    topics: List[TopicMetadata]


class ListedTopic(NamedTuple):
    name: str
    id: int
    partitions: int
    storage: int
    durability: int
    records: int
    bytes: int


class DescribedPartition(NamedTuple):
    partition: int
    shard: int
    error: int
    epoch: int
    log_start: int
    log_end: int
    durable_end: int
    high_watermark: int
    bytes: int
    segments: int


class DescribedTopic(NamedTuple):
    name: str
    id: int
    settings: Settings
    partitions: List[DescribedPartition]


class ProduceReply(NamedTuple):
    """Reply to PRODUCE and PUBLISH."""

    topic: int
    partition: int
    base_offset: int
    append_time: int
    log_start: int


class FetchChunk(NamedTuple):
    topic: int
    partition: int
    error: int
    high_watermark: int
    log_start: int
    data: bytes


class OffsetAnswer(NamedTuple):
    topic: int
    partition: int
    error: int
    offset: int
    time: int


class Deliver(NamedTuple):
    topic: int
    partition: int
    lost: int
    data: bytes


def decode_empty(payload: bytes) -> None:
    Reader(payload).end()


def _decode(payload: bytes, layout: str) -> tuple:
    reader = Reader(payload)
    fields = reader.unpack(layout)
    reader.end()
    return fields


def decode_hello(payload: bytes) -> Hello:
    reader = Reader(payload)
    hello = Hello(*reader.unpack("BQ16sII"), reader.bool(), *reader.unpack("II"))
    reader.end()
    return hello


def decode_auth(payload: bytes) -> Tuple[bool, bytes]:
    reader = Reader(payload)
    done, data = reader.bool(), reader.bytes()
    reader.end()
    return done, data


def decode_metadata(payload: bytes) -> Metadata:
    reader = Reader(payload)
    endpoints = [Endpoint(reader.string(), *reader.unpack("HI")) for _ in range(reader.count(1 << 16, 8))]
    topics = []
    for _ in range(reader.count(1000, 16)):
        error, name, topic = reader.number("H"), reader.string(), reader.number("I")
        settings = decode_settings(reader)
        partitions = list(reader.unpack("%dH" % reader.count(10000, 2)))
        if any(index >= len(endpoints) for index in partitions):
            raise ProtocolError("a partition at an endpoint that is not listed")
        topics.append(TopicMetadata(error, name, topic, settings, partitions))
    reader.end()
    return Metadata(endpoints, topics)


def decode_create_topic(payload: bytes) -> int:
    return _decode(payload, "I")[0]


def decode_list_topics(payload: bytes) -> Tuple[bool, List[ListedTopic]]:
    reader = Reader(payload)
    more = reader.bool()
    topics = [ListedTopic(reader.string(), *reader.unpack("IIBBQQ")) for _ in range(reader.count(10000, 28))]
    reader.end()
    return more, topics


def decode_describe_topic(payload: bytes) -> DescribedTopic:
    reader = Reader(payload)
    name, topic, settings = reader.string(), reader.number("I"), decode_settings(reader)
    partitions = [DescribedPartition(*reader.unpack("IIHQQQQQQI")) for _ in range(reader.count(10000, 62))]
    reader.end()
    return DescribedTopic(name, topic, settings, partitions)


def decode_producer_id(payload: bytes) -> Tuple[int, int]:
    producer_id, epoch = _decode(payload, "QH")
    if producer_id == 0:
        raise ProtocolError("producer id 0")
    return producer_id, epoch


def decode_produce(payload: bytes) -> ProduceReply:
    return ProduceReply(*_decode(payload, "IIQqQ"))


def decode_fetch_part(payload: bytes) -> List[FetchChunk]:
    """The chunks of one part of the reply to FETCH."""
    reader, chunks = Reader(payload), []
    while reader.left():
        topic, partition, error = reader.unpack("IIH")
        reader.zeros(2)
        chunks.append(FetchChunk(topic, partition, error, *reader.unpack("QQ"), reader.bytes()))
    return chunks


def decode_list_offsets(payload: bytes) -> List[OffsetAnswer]:
    reader = Reader(payload)
    answers = [OffsetAnswer(*reader.unpack("IIHQq")) for _ in range(reader.count(10000, 26))]
    reader.end()
    return answers


def decode_deliver(payload: bytes) -> Deliver:
    reader = Reader(payload)
    return Deliver(*reader.unpack("III"), reader.rest())


def decode_error(payload: bytes) -> BrokerError:
    reader = Reader(payload)
    code, outcome = reader.unpack("HB")
    if code == 0 or outcome > 1:
        raise ProtocolError("an ERROR of code %d, outcome %d" % (code, outcome))
    error = BrokerError(code, outcome == 1, reader.bool(), *reader.unpack("IQQ"), reader.string(1024))
    reader.end()
    return error


# ---------------------------------------------------------------- records


@dataclass
class Record:
    """A record. key, value and the values of headers may be None, which is not the same as empty.

    timestamp: Unix milliseconds; None stands for now when it is sent. offset and append_time are the broker's.
    """

    value: Optional[bytes] = b""
    key: Optional[bytes] = None
    headers: Sequence[Tuple[str, Optional[bytes]]] = ()
    timestamp: Optional[int] = None
    offset: Optional[int] = field(default=None, compare=False)
    append_time: Optional[int] = field(default=None, compare=False)

    def __post_init__(self):
        self.headers = list(self.headers)  # so that equal headers make equal records


def encode_varint(n: int) -> bytes:
    u, out = n << 1 ^ n >> 63, bytearray()
    while u > 0x7F:
        out.append(u & 0x7F | 0x80)
        u >>= 7
    out.append(u)
    return bytes(out)


def _bytes_varint(data: Optional[bytes]) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


class RecordReader(Reader):
    """Takes the fields of records, which are varints mostly."""

    def varint(self, bits: int = 32) -> int:
        u = shift = 0
        while True:
            byte = self.number("B")
            u |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise ProtocolError("a varint of more than %d bits" % bits)
        if u >> bits:
            raise ProtocolError("a varint of more than %d bits" % bits)
        return u >> 1 ^ -(u & 1)

    def bytes_or_null(self) -> Optional[bytes]:
        size = self.varint()
        if size < -1:
            raise ProtocolError("a length of %d" % size)
        return None if size == -1 else self.take(size)


def encode_record(record: Record, time_delta: int, offset_delta: int) -> bytes:
    fields = [
        b"\0",
        encode_varint(time_delta),
        encode_varint(offset_delta),
        _bytes_varint(record.key),
        _bytes_varint(record.value),
        encode_varint(len(record.headers)),
    ]
    for name, value in record.headers:
        # Names that are not UTF-8 come from other encoders and go back as they were.
        fields += (_bytes_varint(name.encode(errors="surrogateescape")), _bytes_varint(value))
    data = b"".join(fields)
    return encode_varint(len(data)) + data


def decode_records(body: bytes, header: BatchHeader) -> List[Record]:
    """The records of a decompressed body."""
    reader, records, last_delta = RecordReader(body), [], -1
    for _ in range(header.count):
        size = reader.varint()
        if size < 0:
            raise ProtocolError("a record of %d bytes" % size)
        fields = RecordReader(reader.take(size))
        if fields.number("B") != 0:
            raise ProtocolError("a record with attributes")
        time_delta, delta = fields.varint(64), fields.varint()
        if not last_delta < delta <= header.last_offset_delta:
            raise ProtocolError("offset delta %d after %d in a batch up to %d" % (delta, last_delta, header.last_offset_delta))
        last_delta = delta
        key, value, headers = fields.bytes_or_null(), fields.bytes_or_null(), []
        count = fields.varint()
        if not 0 <= count <= fields.left() // 2:
            raise ProtocolError("%d headers in %d bytes" % (count, fields.left()))
        for _ in range(count):
            name = fields.bytes_or_null()
            if name is None:
                raise ProtocolError("a header without a name")
            headers.append((name.decode(errors="surrogateescape"), fields.bytes_or_null()))
        fields.end()
        records.append(Record(value, key, headers, header.base_time + time_delta, header.base_offset + delta, header.append_time))
    reader.end()
    return records


# ---------------------------------------------------------------- batches

_BATCH = struct.Struct("<IIIBBHQIIQqqqQIIq8s")
BATCH_HEADER = _BATCH.size


class BatchHeader(NamedTuple):
    """The header of a batch, in the order of its fields."""

    header_crc: int
    body_crc: int
    body_bytes: int
    version: int
    attributes: int
    producer_epoch: int
    base_offset: int
    last_offset_delta: int
    count: int
    epoch: int
    base_time: int
    max_time: int
    append_time: int
    producer_id: int
    base_sequence: int
    partition_tag: int
    expiry: int
    reserved: bytes = bytes(8)

    def pack(self) -> bytes:
        """The header with the right CRC, whatever header_crc says."""
        data = _BATCH.pack(*self)[4:]
        return struct.pack("<I", crc32c(data)) + data


class Batch(NamedTuple):
    """A batch as the broker stores it; body is as it was sent, perhaps compressed."""

    header: BatchHeader
    body: bytes

    @property
    def size(self) -> int:
        return BATCH_HEADER + len(self.body)

    @property
    def next_offset(self) -> int:
        return self.header.base_offset + self.header.last_offset_delta + 1

    def records(self) -> List[Record]:
        return decode_records(decompress(self.header.attributes & 7, self.body), self.header)


def decompress(codec: int, body: bytes) -> bytes:
    if codec == CODEC_NONE:
        return body
    if codec != CODEC_GZIP:
        raise SlipringError("codec %d is not in Python's standard library" % codec)
    out = b""
    try:
        while body:  # gzip files may follow each other
            member = zlib.decompressobj(wbits=31)
            out += member.decompress(body, MAX_DECOMPRESSED + 1 - len(out))
            if len(out) > MAX_DECOMPRESSED:
                raise SlipringError("a batch of more than %d bytes, decompressed" % MAX_DECOMPRESSED)
            if not member.eof:
                raise ProtocolError("a gzip body that is cut off")
            body = member.unused_data
    except zlib.error as err:
        raise ProtocolError("a gzip body that is damaged: %s" % err) from err
    return out


def partition_tag(directory_id: bytes, topic: int, partition: int) -> int:
    return crc32c(directory_id + struct.pack("<II", topic, partition))


def build_batch(
    records: Sequence[Record], producer_id: int = 0, producer_epoch: int = 0, base_sequence: int = 0, expiry: int = 0
) -> bytes:
    """One batch of records, not compressed. Records without a timestamp get the time of now."""
    if not records:
        raise ValueError("a batch has one record at least")
    now = int(time.time() * 1000)
    times = [now if record.timestamp is None else record.timestamp for record in records]
    body = b"".join(encode_record(record, times[i] - times[0], i) for i, record in enumerate(records))
    header = BatchHeader(
        header_crc=0,
        body_crc=crc32c(body),
        body_bytes=len(body),
        version=1,
        attributes=CODEC_NONE,
        producer_epoch=producer_epoch,
        base_offset=0,
        last_offset_delta=len(records) - 1,
        count=len(records),
        epoch=0,
        base_time=times[0],
        max_time=max(times),
        append_time=0,
        producer_id=producer_id,
        base_sequence=base_sequence,
        partition_tag=0,
        expiry=expiry,
    )
    return header.pack() + body


def split_records(records: Iterable[Record], limit: int = MAX_BODY) -> Iterator[List[Record]]:
    """Groups of records whose batches have a body of at most limit bytes; a larger record is a group of its own."""
    group: List[Record] = []
    size = 0
    for record in records:
        # The deltas are not known yet; 20 bytes are more than those of the bare record and those of the greatest ones differ by.
        more = len(encode_record(record, 0, 0)) + 20
        if group and size + more > limit:
            yield group
            group, size = [], 0
        group.append(record)
        size += more
    if group:
        yield group


def take_batches(buffer: bytearray) -> List[Batch]:
    """Takes the complete batches from the front of buffer and checks both CRCs."""
    batches = []
    while len(buffer) >= BATCH_HEADER:
        header = BatchHeader(*_BATCH.unpack_from(buffer))
        if header.header_crc != crc32c(buffer[4:BATCH_HEADER]):
            raise ProtocolError("a batch whose header has another CRC")
        if header.version != 1 or header.attributes & ~7 or any(header.reserved):
            raise ProtocolError("a batch of version %d, attributes %d" % (header.version, header.attributes))
        if header.last_offset_delta >= 1 << 31 or not 1 <= header.count <= header.last_offset_delta + 1:
            raise ProtocolError("a batch of %d records, last delta %d" % (header.count, header.last_offset_delta))
        if header.max_time < header.base_time:
            raise ProtocolError("a batch whose MaxTime is below BaseTime")
        if header.producer_id == 0 and (header.producer_epoch or header.base_sequence):
            raise ProtocolError("a batch with a sequence and without a producer")
        if header.body_bytes > 1 << 31:
            raise ProtocolError("a batch of %d bytes" % header.body_bytes)
        end = BATCH_HEADER + header.body_bytes
        if len(buffer) < end:
            break
        body = bytes(buffer[BATCH_HEADER:end])
        if header.body_crc != crc32c(body):
            raise ProtocolError("a batch whose body has another CRC")
        del buffer[:end]
        batches.append(Batch(header, body))
    return batches


# ---------------------------------------------------------------- choosing a partition


def murmur2(data: bytes) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition where Slipring's and Kafka's clients put a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


# ---------------------------------------------------------------- results of the client


class FetchResult:
    """What FETCH brought from one partition.

    An error does not make the batches before it bad; check raises it.
    """

    def __init__(self, offset: int):
        self.offset = offset
        self.error = self.high_watermark = self.log_start = 0
        self.batches: List[Batch] = []

    def check(self) -> FetchResult:
        if self.error:
            valid = (self.log_start, self.high_watermark) if self.error == Code.OffsetOutOfRange else (0, 0)
            raise BrokerError(self.error, False, self.error in RETRIABLE, 0, *valid, "FETCH at offset %d" % self.offset)
        return self

    @property
    def next_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.offset

    def records(self) -> List[Record]:
        """The records from the offset asked for on; the first batch may begin below it."""
        return [record for batch in self.batches for record in batch.records() if record.offset >= self.offset]


class Delivery(NamedTuple):
    """One batch of a subscription."""

    topic: int
    partition: int
    lost: int
    batch: Batch


class Subscription:
    """Push from one topic, made by Client.subscribe."""

    def __init__(self, client: Client, request_id: int):
        self.id = request_id
        self.error: Optional[BrokerError] = None  # that has ended it
        self._client = client
        self._ready: List[Delivery] = []
        self._part = bytearray()  # the beginning of a batch that goes on in the next frame
        self._part_of: Optional[Tuple[int, int]] = None
        self._lost = 0

    def next(self, timeout: Optional[float] = None) -> Delivery:
        """The next batch. What it costs is given back as credit, so that what the client has not asked for stays within the first credit.

        Raises the error that has ended the subscription after the last batch, and TimeoutError.
        """
        deadline = self._client._deadline(timeout)
        while not self._ready:
            if self.error:
                raise self.error
            self._client._pump(deadline)
        delivery = self._ready.pop(0)
        if not self.error:
            self.credit(delivery.batch.header.count, delivery.batch.size)
        return delivery

    def credit(self, records: int, size: int) -> None:
        """Adds to the credit."""
        self._client._send([encode_frame(Frame(Command.CREDIT, 0, self.id, encode_credit(records, size)))])

    def _deliver(self, frame: Frame) -> None:
        deliver = decode_deliver(frame.payload)
        of = (deliver.topic, deliver.partition)
        if self._part_of not in (None, of):
            raise ProtocolError("a DELIVER of another partition inside of a batch")
        self._part += deliver.data
        self._lost += deliver.lost
        for batch in take_batches(self._part):
            self._client._check_tag(batch, *of)
            self._ready.append(Delivery(*of, self._lost, batch))
            self._lost = 0
        more = bool(frame.flags & MORE)
        if more != bool(self._part):
            raise ProtocolError("a DELIVER whose flag more does not say how its last batch ends")
        self._part_of = of if more else None


class _Waiting:
    """A request that is not answered yet."""

    def __init__(self, command: int, window: int):
        self.command, self.window = command, window
        self.asked: Dict[Tuple[int, int], int] = {}  # the offsets of a FETCH
        self.seconds = 0.0  # that a FETCH may wait
        self.parts: List[bytes] = []
        self.size = 0
        self.done = False
        self.error: Optional[BrokerError] = None


# ---------------------------------------------------------------- the client


class Client:
    """One connection. timeout, in seconds, bounds connecting and each wait for an answer."""

    def __init__(self, host: str, port: int, client_name: str = "", timeout: float = 30.0):
        self.timeout = timeout
        self._buffer = bytearray()
        self._last_id = 0
        self._waiting: Dict[int, _Waiting] = {}
        self._subscriptions: Dict[int, Subscription] = {}
        self._lost: Optional[Exception] = None
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)  # waiting is select's, with a deadline
        try:
            payload = encode_hello(client_name, "slipring-python-example/1")
            self.hello = decode_hello(self._call(Command.HELLO, payload))
            if self.hello.version != VERSION:
                raise ProtocolError("HELLO agreed on version %d" % self.hello.version)
            if self.hello.auth_required:
                self.auth()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._lost = self._lost or ConnectionClosed("closed by this client")
        self._socket.close()

    # ---- frames in and out

    def _deadline(self, timeout: Optional[float]) -> float:
        return time.monotonic() + (self.timeout if timeout is None else timeout)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _receive(self) -> None:
        """Reads what has arrived. A lost connection is kept for _pump, since the frames before its end are still to be read."""
        try:
            data = self._socket.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as err:
            self._lost = self._lost or ConnectionClosed(str(err))
            return
        if data:
            self._buffer += data
        else:
            self._lost = self._lost or ConnectionClosed("closed by the broker")

    def _send(self, frames: Iterable[bytes]) -> None:
        # A broker stops reading from a client that does not read, so sending reads too: otherwise both could wait for each other.
        for frame in frames:
            view = memoryview(frame)
            deadline = self._deadline(None)
            while view and not self._lost:
                readable, writable, _ = select.select([self._socket], [self._socket], [], max(0.0, deadline - time.monotonic()))
                if readable:
                    self._receive()
                if writable:
                    try:
                        view = view[self._socket.send(view) :]
                    except (BlockingIOError, InterruptedError):
                        pass
                    except OSError as err:
                        self._receive()  # perhaps an ERROR that says why
                        self._lost = self._lost or ConnectionClosed(str(err))
                elif time.monotonic() >= deadline:
                    self.close()  # a frame that is sent in part cannot be taken back
                    raise TimeoutError("the broker does not take what is sent")

    def _pump(self, deadline: float) -> None:
        """Waits for one frame and gives it to whom it belongs."""
        while True:
            try:
                frame = decode_frame(self._buffer)
                if frame is not None:
                    return self._dispatch(frame)
            except ProtocolError as err:
                self._lost = self._lost or err
                self._socket.close()
                raise
            if self._lost:
                self._socket.close()
                raise self._lost
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise TimeoutError("no answer in time")
            self._receive()

    def _dispatch(self, frame: Frame) -> None:
        if not frame.flags & REPLY:
            raise ProtocolError("a frame from the broker without the flag reply")
        subscription, waiting = self._subscriptions.get(frame.id), self._waiting.get(frame.id)
        if frame.command == Command.DELIVER:
            if subscription:
                subscription._deliver(frame)
        elif frame.command == Command.ERROR:
            error = decode_error(frame.payload)
            if frame.id == 0:  # of no request; the connection ends
                self._lost = self._lost or error
                raise error
            # Of two errors that an UNSUBSCRIBE may meet, only this one is its answer; the other ended the subscription before.
            if subscription and error.code != Code.UnknownSubscription:
                subscription.error = error
            if waiting and not (waiting.command == Command.UNSUBSCRIBE and error.code != Code.UnknownSubscription):
                waiting.error, waiting.done = error, True
        elif waiting:
            if frame.command != waiting.command:
                raise ProtocolError("a reply of command %d to a request of command %d" % (frame.command, waiting.command))
            waiting.parts.append(frame.payload)
            waiting.size += len(frame.payload)
            if waiting.size > MAX_JOINED and waiting.command != Command.FETCH:
                raise ProtocolError("a reply of more than %d bytes" % MAX_JOINED)
            waiting.done = not frame.flags & MORE
        # Anything else answers a request that this client has given up.

    def _start(self, command: int, payload: bytes, request_id: Optional[int] = None, window: int = 0) -> int:
        if self._lost:
            raise self._lost
        request_id = request_id or self._next_id()
        self._waiting[request_id] = _Waiting(command, window)
        self._send(encode_parts(command, request_id, payload))
        return request_id

    def _wait(self, request_id: int, deadline: float) -> List[bytes]:
        """The payloads of the reply."""
        waiting = self._waiting[request_id]
        try:
            while not waiting.done:
                self._pump(deadline)
        finally:
            del self._waiting[request_id]
        if waiting.error:
            raise waiting.error
        return waiting.parts

    def _call(self, command: int, payload: bytes = b"") -> bytes:
        return b"".join(self._wait(self._start(command, payload), self._deadline(None)))

    # ---- the connection

    def auth(self) -> None:
        """AUTH with the mechanism none. Only needed where HELLO says so, and done by then."""
        done, _ = decode_auth(self._call(Command.AUTH, encode_auth("none")))
        if not done:
            raise ProtocolError("mechanism none wants a second step")

    def ping(self) -> None:
        decode_empty(self._call(Command.PING))

    # ---- topics

    def metadata(self, names: Sequence[str] = ()) -> Metadata:
        return decode_metadata(self._call(Command.METADATA, encode_metadata(names)))

    def topic(self, name: str) -> TopicMetadata:
        """The metadata of one topic that exists."""
        topic = self.metadata([name]).topics[0]
        if topic.error:
            raise BrokerError(topic.error, text=name)
        return topic

    def create_topic(self, name: str, partitions: int = 1, settings: Optional[Settings] = None) -> int:
        """Creates a topic and returns its id."""
        return decode_create_topic(self._call(Command.CREATE_TOPIC, encode_create_topic(name, partitions, settings)))

    def delete_topic(self, name: str) -> None:
        decode_empty(self._call(Command.DELETE_TOPIC, encode_name(name)))

    def alter_topic(self, name: str, settings: Settings) -> None:
        decode_empty(self._call(Command.ALTER_TOPIC, encode_alter_topic(name, settings)))

    def list_topics(self, prefix: str = "", page: int = 0) -> Iterator[ListedTopic]:
        """All topics whose names begin with prefix, asked for in pages."""
        more, after = True, ""
        while more:
            more, topics = decode_list_topics(self._call(Command.LIST_TOPICS, encode_list_topics(prefix, after, page)))
            if more and not topics:
                raise ProtocolError("an empty page of topics with more after it")
            yield from topics
            after = topics[-1].name if topics else after

    def describe_topic(self, name: str) -> DescribedTopic:
        return decode_describe_topic(self._call(Command.DESCRIBE_TOPIC, encode_name(name)))

    # ---- producing

    def producer_id(self) -> Tuple[int, int]:
        """A new id for an idempotent producer, and its epoch."""
        return decode_producer_id(self._call(Command.PRODUCER_ID))

    def _start_produce(self, command: int, payload: bytes, acks: int) -> int:
        if acks == ACKS_NONE:
            if self._lost:
                raise self._lost
            request_id = self._next_id()
            self._send(encode_parts(command, request_id, payload))
            return request_id
        deadline = self._deadline(None)
        while True:
            unanswered = sum(waiting.window for waiting in self._waiting.values() if not waiting.done)
            if unanswered == 0 or unanswered + len(payload) + _HEADER.size <= self.hello.produce_window:
                return self._start(command, payload, window=len(payload) + _HEADER.size)
            self._pump(deadline)

    def start_produce(self, topic: int, partition: int, batch: bytes, acks: int = ACKS_DURABLE) -> int:
        """Sends a batch of build_batch without waiting for the reply, which finish_produce returns. It keeps to the produce window."""
        return self._start_produce(Command.PRODUCE, encode_produce(topic, partition, acks, batch), acks)

    def finish_produce(self, request_id: int, timeout: Optional[float] = None) -> ProduceReply:
        """The reply to a request of start_produce with acks other than none."""
        return decode_produce(b"".join(self._wait(request_id, self._deadline(timeout))))

    def produce_batch(self, topic: int, partition: int, batch: bytes, acks: int = ACKS_DURABLE) -> Optional[ProduceReply]:
        """Appends a batch of build_batch. None with acks none."""
        request_id = self.start_produce(topic, partition, batch, acks)
        return None if acks == ACKS_NONE else self.finish_produce(request_id)

    def produce(
        self, topic: int, partition: int, records: Iterable[Record], acks: int = ACKS_DURABLE
    ) -> List[Optional[ProduceReply]]:
        """Appends records in as many batches as they need. See Producer for retries without duplicates."""
        return [self.produce_batch(topic, partition, build_batch(group), acks) for group in split_records(records)]

    def publish(
        self, topic: int, partition: int, value: bytes, key: Optional[bytes] = None, acks: int = ACKS_DURABLE
    ) -> Optional[ProduceReply]:
        """Appends one small record without headers. None with acks none."""
        payload = encode_publish(topic, partition, acks, key, value)
        if len(payload) > MAX_PUBLISH:
            raise ValueError("PUBLISH of %d bytes, %d are allowed" % (len(payload), MAX_PUBLISH))
        request_id = self._start_produce(Command.PUBLISH, payload, acks)
        return None if acks == ACKS_NONE else self.finish_produce(request_id)

    # ---- reading

    def _check_tag(self, batch: Batch, topic: int, partition: int) -> None:
        if batch.header.partition_tag != partition_tag(self.hello.directory_id, topic, partition):
            raise ProtocolError("a batch at offset %d that is of another partition" % batch.header.base_offset)

    def start_fetch(
        self,
        partitions: Sequence[Tuple[int, int, int]],
        wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 16 << 20,
        partition_bytes: int = 4 << 20,
    ) -> int:
        """Sends FETCH without waiting for the reply, which finish_fetch returns. Meanwhile cancel ends it."""
        asked = [(topic, partition, offset, partition_bytes) for topic, partition, offset in partitions]
        request_id = self._start(Command.FETCH, encode_fetch(wait_ms, min_bytes, max_bytes, asked))
        waiting = self._waiting[request_id]
        waiting.asked = {(topic, partition): offset for topic, partition, offset in partitions}
        waiting.seconds = wait_ms / 1000
        return request_id

    def finish_fetch(self, request_id: int) -> Dict[Tuple[int, int], FetchResult]:
        waiting = self._waiting[request_id]
        error = None
        try:
            self._wait(request_id, self._deadline(self.timeout + waiting.seconds))
        except BrokerError as err:
            error = err
        results = {key: FetchResult(offset) for key, offset in waiting.asked.items()}
        buffers = {key: bytearray() for key in results}
        seen = set()
        for payload in waiting.parts:
            for chunk in decode_fetch_part(payload):
                key = chunk.topic, chunk.partition
                if key not in results:
                    raise ProtocolError("FETCH answered with a partition that was not asked for")
                seen.add(key)
                result = results[key]
                result.error, result.high_watermark, result.log_start = chunk.error, chunk.high_watermark, chunk.log_start
                buffers[key] += chunk.data
        for key, buffer in buffers.items():
            results[key].batches = take_batches(buffer)
            for batch in results[key].batches:
                self._check_tag(batch, *key)
            if buffer and not error and not results[key].error:
                raise ProtocolError("FETCH ended inside of a batch")
        if error:
            error.partial = results if waiting.parts else None
            raise error
        if seen != results.keys():
            raise ProtocolError("FETCH did not answer for every partition")
        return results

    def fetch(self, partitions: Sequence[Tuple[int, int, int]], **bounds) -> Dict[Tuple[int, int], FetchResult]:
        """Reads from partitions, given as topic, partition and offset. bounds: those of start_fetch."""
        return self.finish_fetch(self.start_fetch(partitions, **bounds))

    def cancel(self, request_id: int) -> None:
        """Asks to end a waiting FETCH; its finish_fetch then raises Cancelled, unless the reply was under way."""
        self._send([encode_frame(Frame(Command.CANCEL, 0, self._next_id(), encode_cancel(request_id)))])

    def list_offsets(self, queries: Sequence[Tuple[int, int, int, int]]) -> List[OffsetAnswer]:
        """queries: topic, partition, one of OFFSET_START, OFFSET_END, OFFSET_TIME, and the time or 0."""
        answers = decode_list_offsets(self._call(Command.LIST_OFFSETS, encode_list_offsets(queries)))
        if [answer[:2] for answer in answers] != [tuple(query[:2]) for query in queries]:
            raise ProtocolError("LIST OFFSETS answered other queries")
        return answers

    # ---- push

    def subscribe(
        self,
        name: str,
        partition: int = ALL_PARTITIONS,
        start: int = START_TAIL,
        offset: int = 0,
        records: int = UNLIMITED,
        size: int = UNLIMITED,
    ) -> Subscription:
        """Asks for push with a first credit of so many records and bytes."""
        subscription = Subscription(self, self._next_id())
        self._subscriptions[subscription.id] = subscription
        try:
            self._start(Command.SUBSCRIBE, encode_subscribe(name, partition, start, offset, records, size), subscription.id)
            decode_empty(b"".join(self._wait(subscription.id, self._deadline(None))))
        except BaseException:
            del self._subscriptions[subscription.id]
            raise
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription. Batches that have arrived can still be taken from it."""
        try:
            self._start(Command.UNSUBSCRIBE, b"", subscription.id)
            decode_empty(b"".join(self._wait(subscription.id, self._deadline(None))))
        except BrokerError as err:
            if err.code != Code.UnknownSubscription:
                raise
        finally:
            self._subscriptions.pop(subscription.id, None)
        subscription.error = subscription.error or BrokerError(Code.UnknownSubscription, text="unsubscribed")


class Producer:
    """An idempotent producer: each batch is appended exactly once and in order, across retries and new connections.

    It has one batch under way at a time. A batch whose outcome is unknown goes again, as it was, before the next one of its partition.
    """

    def __init__(self, client: Client):
        self.client = client
        self.directory_id = client.hello.directory_id
        self.id, self.epoch = client.producer_id()
        self._sequence: Dict[Tuple[int, int], int] = {}
        self._unsure: Dict[Tuple[int, int], Tuple[bytes, int]] = {}

    def rebind(self, client: Client) -> None:
        """Goes on over a new connection after the old one was lost."""
        if client.hello.directory_id != self.directory_id:
            raise SlipringError("another data directory: topic ids, offsets and producer ids of the old one mean nothing there")
        self.client = client

    def produce(self, topic: int, partition: int, records: Iterable[Record], acks: int = ACKS_DURABLE) -> List[ProduceReply]:
        """Appends records. Retries what is retriable until the client's timeout; other errors and a lost connection are raised."""
        if acks == ACKS_NONE:
            raise ValueError("an idempotent producer needs replies")
        key = topic, partition
        if key in self._unsure:
            self._settle(key, acks, unknown=True)
        replies = []
        for group in split_records(records):
            batch = build_batch(group, self.id, self.epoch, self._sequence.get(key, 0))
            self._unsure[key] = batch, len(group)
            replies.append(self._settle(key, acks))
        return replies

    def _settle(self, key: Tuple[int, int], acks: int, unknown: bool = False) -> ProduceReply:
        batch, count = self._unsure[key]
        deadline = self.client._deadline(None)
        while True:
            try:
                reply = self.client.produce_batch(*key, batch, acks)
                break
            except BrokerError as err:
                # One that is refused now may still be appended by an earlier attempt.
                unknown = unknown or err.unknown
                pause = max(err.delay_ms / 1000, 0.01)
                if not err.retriable or time.monotonic() + pause > deadline:
                    if not unknown:
                        del self._unsure[key]
                    raise
                time.sleep(pause)
        del self._unsure[key]
        self._sequence[key] = (self._sequence.get(key, 0) + count) & 0xFFFFFFFF
        return reply
