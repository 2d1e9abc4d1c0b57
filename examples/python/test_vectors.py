"""Holds slipring.py to every hex block of the protocol page: test_vectors.py PATH/PROTOCOL.md

Requests and batches are built from the values that the comments of the block give and have to come out as the same bytes. Replies are
decoded and have to give the values of the comments. Each payload is also cut short at every byte and extended by one, which has to be
refused.
"""

import re
import sys

import slipring as s
from slipring import Code, Command, Record, Settings

TIME = 1767225600000  # of all blocks
DIRECTORY = bytes(range(0x10, 0x20))
CHECKS = {}


def check(name):
    """Registers a function that gets the bytes of the block of this name, and all blocks."""
    return lambda function: CHECKS.setdefault(name, function)


def same(got, want):
    if got != want:
        raise AssertionError("got  %r\nwant %r" % (got, want))


def refuses(function, *arguments):
    try:
        result = function(*arguments)
    except s.ProtocolError:
        return
    raise AssertionError("accepted: %r" % (result,))


def frames_of(data):
    buffer, frames = bytearray(data), []
    while buffer:
        frames.append(s.decode_frame(buffer))
        assert frames[-1] is not None, "the last frame is cut off"
    return frames


def request(name, command, request_id, payload):
    """A block that is one request frame."""

    @check(name)
    def run(data, blocks):
        same(s.encode_frame(s.Frame(command, 0, request_id, payload(blocks) if callable(payload) else payload)), data)
        same(frames_of(data)[0][:3], (command, 0, request_id))


def reply(name, command, request_id, decode, want, cuts=True):
    """A block that is one reply frame. cuts: its payload may not be shorter or longer."""

    @check(name)
    def run(data, blocks):
        (frame,) = frames_of(data)
        same(frame[:3], (command, s.REPLY, request_id))
        same(s.encode_frame(frame), data)
        same(decode(frame.payload), want(blocks) if callable(want) else want)
        if cuts:
            for size in range(len(frame.payload)):
                refuses(decode, frame.payload[:size])
            refuses(decode, frame.payload + b"\0")


# ---------------------------------------------------------------- frames

FULL_SETTINGS = Settings(0, 0, 1000, 604800000, -1, -1, False, 16 << 20, 256 << 20)
PRODUCE_REPLY = s.ProduceReply(7, 2, 2 << 32, TIME + 1234, 100)

request("hello_request", Command.HELLO, 1, s.encode_hello("billing-7", "slipring-go/0.1"))
reply("hello_reply", Command.HELLO, 1, s.decode_hello, s.Hello(1, 0, DIRECTORY, 8 << 20, 1 << 20, False, 1, 4))
request("auth_request", Command.AUTH, 2, s.encode_auth("none"))
reply("auth_reply", Command.AUTH, 2, s.decode_auth, (True, b""))
request("ping_request", Command.PING, 3, b"")
reply("ping_reply", Command.PING, 3, s.decode_empty, None)
request("metadata_request", Command.METADATA, 4, s.encode_metadata(["orders.eu", "nope"]))
reply(
    "metadata_reply",
    Command.METADATA,
    4,
    s.decode_metadata,
    s.Metadata(
        [s.Endpoint("10.0.0.5", 7401, 0), s.Endpoint("10.0.0.5", 7402, 1)],
        [s.TopicMetadata(0, "orders.eu", 7, FULL_SETTINGS, [0, 1, 0]), s.TopicMetadata(Code.UnknownTopic, "nope", 0, Settings(), [])],
    ),
)
request(
    "create_topic_request",
    Command.CREATE_TOPIC,
    5,
    s.encode_create_topic("orders.eu", 3, Settings(durability=s.DURABILITY_INTERVAL, interval_ms=250)),
)
reply("create_topic_reply", Command.CREATE_TOPIC, 5, s.decode_create_topic, 7)
request("delete_topic_request", Command.DELETE_TOPIC, 6, s.encode_name("orders.eu"))
reply("delete_topic_reply", Command.DELETE_TOPIC, 6, s.decode_empty, None)
request(
    "alter_topic_request",
    Command.ALTER_TOPIC,
    7,
    s.encode_alter_topic("orders.eu", Settings(retention_bytes=1 << 30, retention_acked=True)),
)
reply("alter_topic_reply", Command.ALTER_TOPIC, 7, s.decode_empty, None)
request("list_topics_request", Command.LIST_TOPICS, 8, s.encode_list_topics("orders.", "orders.de", 2))
reply(
    "list_topics_reply",
    Command.LIST_TOPICS,
    8,
    s.decode_list_topics,
    (
        True,
        [
            s.ListedTopic("orders.eu", 7, 3, s.STORAGE_LOG, s.DURABILITY_SYNC, 1000000, 123456789),
            s.ListedTopic("orders.us", 9, 1, s.STORAGE_NONE, 0, 0, 0),
        ],
    ),
)
request("describe_topic_request", Command.DESCRIBE_TOPIC, 9, s.encode_name("orders.eu"))
reply(
    "describe_topic_reply",
    Command.DESCRIBE_TOPIC,
    9,
    s.decode_describe_topic,
    s.DescribedTopic(
        "orders.eu",
        7,
        FULL_SETTINGS,
        [
            s.DescribedPartition(0, 0, 0, 3, 100, 5000, 4990, 4990, 987654, 2),
            s.DescribedPartition(1, 1, Code.Fenced, 3, 0, 70, 70, 70, 7000, 1),
        ],
    ),
)
request("producer_id_request", Command.PRODUCER_ID, 10, b"")
reply("producer_id_reply", Command.PRODUCER_ID, 10, s.decode_producer_id, (3 << 32 | 9, 0))
request(
    "produce_request", Command.PRODUCE, 11, lambda blocks: s.encode_produce(7, 2, s.ACKS_DURABLE, blocks["batch_one"])
)
reply("produce_reply", Command.PRODUCE, 11, s.decode_produce, PRODUCE_REPLY)
request("publish_request", Command.PUBLISH, 13, s.encode_publish(7, 2, s.ACKS_LEADER, b"k1", b"hello"))
reply("publish_reply", Command.PUBLISH, 13, s.decode_produce, PRODUCE_REPLY._replace(base_offset=5000))
request("fetch_request", Command.FETCH, 14, s.encode_fetch(500, 1, 4 << 20, [(7, 2, 2 << 32, 1 << 20), (7, 0, 50, 1 << 20)]))
request(
    "list_offsets_request",
    Command.LIST_OFFSETS,
    15,
    s.encode_list_offsets([(7, 0, s.OFFSET_START, 0), (7, 0, s.OFFSET_END, 0), (7, 9, s.OFFSET_TIME, TIME)]),
)
reply(
    "list_offsets_reply",
    Command.LIST_OFFSETS,
    15,
    s.decode_list_offsets,
    [s.OffsetAnswer(7, 0, 0, 100, TIME), s.OffsetAnswer(7, 0, 0, 5000, 0), s.OffsetAnswer(7, 9, Code.UnknownPartition, 0, 0)],
)
request(
    "subscribe_request", Command.SUBSCRIBE, 16, s.encode_subscribe("orders.eu", s.ALL_PARTITIONS, s.START_TAIL, 0, 1000, 1 << 20)
)
reply("subscribe_reply", Command.SUBSCRIBE, 16, s.decode_empty, None)
request("unsubscribe_request", Command.UNSUBSCRIBE, 16, b"")
reply("unsubscribe_reply", Command.UNSUBSCRIBE, 16, s.decode_empty, None)
request("credit", Command.CREDIT, 16, s.encode_credit(500, 1 << 16))
request("cancel", Command.CANCEL, 17, s.encode_cancel(14))


def error_fields(payload):
    error = s.decode_error(payload)
    return error.code, error.unknown, error.retriable, error.delay_ms, error.first, error.last, error.text


reply(
    "error",
    Command.ERROR,
    11,
    error_fields,
    (Code.Busy, False, True, 50, 0, 0, "produce window of 8 MiB is full; wait for replies"),
)
reply(
    "error_range",
    Command.ERROR,
    18,
    error_fields,
    (Code.OffsetOutOfRange, False, False, 0, 100, 5000, "offset 50 is below log start"),
)


@check("produce_request_parts")
def produce_request_parts(data, blocks):
    payload = s.encode_produce(7, 2, s.ACKS_DURABLE, blocks["batch_full"])
    same(b"".join(s.encode_parts(Command.PRODUCE, 12, payload, limit=132)), data)
    same([frame[:3] for frame in frames_of(data)], [(Command.PRODUCE, s.MORE, 12), (Command.PRODUCE, 0, 12)])
    same(b"".join(frame.payload for frame in frames_of(data)), payload)


@check("fetch_reply")
def fetch_reply(data, blocks):
    first, second = frames_of(data)
    same(first[:3], (Command.FETCH, s.MORE | s.REPLY, 14))
    same(second[:3], (Command.FETCH, s.REPLY, 14))
    batch = blocks["batch_stamped"]
    same(s.decode_fetch_part(first.payload), [s.FetchChunk(7, 2, 0, (2 << 32) + 4, 100, batch[:128])])
    same(
        s.decode_fetch_part(second.payload),
        [s.FetchChunk(7, 2, 0, (2 << 32) + 4, 100, batch[128:]), s.FetchChunk(7, 0, Code.OffsetOutOfRange, 5000, 100, b"")],
    )
    for size in range(1, len(first.payload)):
        refuses(s.decode_fetch_part, first.payload[:size])


@check("deliver")
def deliver(data, blocks):
    (frame,) = frames_of(data)
    same(frame[:3], (Command.DELIVER, s.REPLY, 16))
    got = s.decode_deliver(frame.payload)
    same(got[:3], (7, 0, 0))
    sent = s.BatchHeader(*s._BATCH.unpack_from(blocks["batch_one"]))
    stamp = {"base_offset": 5000, "epoch": 3, "append_time": TIME + 9, "partition_tag": s.partition_tag(DIRECTORY, 7, 0)}
    same(sent._replace(**stamp).pack() + blocks["batch_one"][s.BATCH_HEADER :], got.data)
    same(records_of(got.data), [Record(b"hello", timestamp=TIME)])


# ---------------------------------------------------------------- batches


def batch_of(data):
    buffer = bytearray(data)
    (batch,) = s.take_batches(buffer)
    same(buffer, bytearray())
    same(batch.header.pack() + batch.body, data)
    return batch


def records_of(data):
    return batch_of(data).records()


def refuses_damage(data):
    """Another bit anywhere in a batch is refused; one cut short is not complete, or is refused for its damage."""
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        refuses(lambda: s.take_batches(damaged)[0])
        same(s.take_batches(bytearray(data[:at])), [])


FOUR_RECORDS = [
    Record(b"v1", b"k1", timestamp=TIME),
    Record(b"", b"", timestamp=TIME + 5),
    Record(b"v3", None, [("trace", b"abc"), ("trace", b"")], timestamp=TIME - 3),
    Record(b"x" * 70, b"k4", timestamp=TIME + 70),
]


@check("batch_one")
def batch_one(data, blocks):
    same(s.build_batch([Record(b"hello", timestamp=TIME)]), data)
    same(records_of(data), [Record(b"hello", timestamp=TIME)])
    refuses_damage(data)


@check("batch_full")
def batch_full(data, blocks):
    same(s.build_batch(FOUR_RECORDS, 3 << 32 | 9, 2, 1000, expiry=TIME + 60000), data)
    same(records_of(data), FOUR_RECORDS)
    refuses_damage(data)


@check("batch_stamped")
def batch_stamped(data, blocks):
    sent = batch_of(blocks["batch_full"])
    stamp = {"base_offset": 2 << 32, "epoch": 3, "append_time": TIME + 1234, "partition_tag": s.partition_tag(DIRECTORY, 7, 2)}
    same(sent.header._replace(**stamp).pack() + sent.body, data)
    records = records_of(data)
    same(records, FOUR_RECORDS)
    same([record.offset for record in records], [(2 << 32) + i for i in range(4)])
    same(batch_of(data).next_offset, (2 << 32) + 4)


@check("batch_gzip")
def batch_gzip(data, blocks):
    same(batch_of(data).header.attributes, s.CODEC_GZIP)
    same(len(records_of(data)), 3)
    refuses_damage(data)


@check("batch_gaps")
def batch_gaps(data, blocks):
    batch = batch_of(data)
    records = batch.records()
    same([(record.offset, record.value) for record in records], [(101, b"b"), (104, b"e")])
    same(batch.next_offset, 106)
    same(b"".join(s.encode_record(record, 0, record.offset - 100) for record in records), batch.body)


@check("batch_null")
def batch_null(data, blocks):
    records = [Record(None, b"k", [("h", None)], timestamp=TIME)]
    same(s.build_batch(records), data)
    same(records_of(data), records)


# ---------------------------------------------------------------- what the page says in words


def words():
    same(s.crc32c(b"123456789"), 0xE3069283)
    same((s.murmur2(b"21"), s.murmur2(b"foobar")), (3321034988, 3504634814))
    same(s.encode_varint(300), bytes.fromhex("d804"))
    for n in (0, -1, 1, -2, 2, 300, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)):
        same(s.RecordReader(s.encode_varint(n)).varint(64), n)
    same([s.encode_varint(n) for n in (0, -1, 1, -2, 2)], [bytes([u]) for u in range(5)])
    refuses(s.RecordReader(s.encode_varint(2**31)).varint)
    refuses(s.RecordReader(b"\x80" * 10 + b"\0").varint, 64)


def main(path):
    with open(path, encoding="utf-8") as page:
        found = re.findall(r"^```hex \S*?(\w+)\.hex\n(.*?)^```", page.read(), re.M | re.S)
    blocks = {name: bytes.fromhex(re.sub(r"#.*", "", text)) for name, text in found}
    failed = 0
    for name in sorted(blocks.keys() | CHECKS.keys()):
        try:
            if name not in blocks or name not in CHECKS:
                raise AssertionError("no such block on the page" if name in CHECKS else "no check of this block")
            CHECKS[name](blocks[name], blocks)
        except (AssertionError, s.SlipringError) as err:
            failed += 1
            print("%s: %s" % (name, err))
    words()
    print("%d vectors OK" % (len(blocks) - failed))
    return 1 if failed or not blocks else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
