"""Sends a broker a few thousand records in every way there is, reads them back and compares: roundtrip.py HOST:PORT

Makes a topic of its own and deletes it at the end. Prints counts and OK; exits with 1 when something is not as it was sent.
"""

import os
import random
import sys
import time

import slipring as s
from slipring import BrokerError, Client, Code, Producer, Record

RECORDS = 4000
LARGE = 3 << 20


class Mismatch(Exception):
    pass


def same(what, got, want):
    if got != want:
        # Records can be megabytes long.
        raise Mismatch("%s: got %.200r, want %.200r" % (what, got, want))


def fails(what, code, function, *arguments, **options):
    """Calls function, which has to fail with this code, and returns the error."""
    try:
        function(*arguments, **options)
    except BrokerError as err:
        same(what, s.code_name(err.code), s.code_name(code))
        return err
    raise Mismatch("%s: no error, want %s" % (what, s.code_name(code)))


def make_records(dice):
    """For each partition the records to send. Among them is everything that a record may be."""
    partitions = [[], [], []]
    now = int(time.time() * 1000)
    for i in range(RECORDS):
        key = (None, b"", b"key-%d" % (i % 97), dice.randbytes(8))[i % 4]
        value = (b"", dice.randbytes(dice.randrange(300)), b"value-%d" % i)[i % 3]
        headers = [] if i % 5 else [("trace", b"%d" % i), ("trace", b""), ("gr\u00fc\u00dfe", None)]
        partition = i % 3 if key is None else s.partition_of(key, 3)
        partitions[partition].append(Record(value, key, headers, now + dice.randrange(-50, 50)))
    partitions[0].append(Record(None, b"null value", timestamp=now))
    partitions[1].insert(100, Record(dice.randbytes(LARGE), b"large", [("size", b"%d" % LARGE)], now))
    return partitions


def topics(client, name, topic):
    """What the broker says about a topic that was just made."""
    client.ping()
    described = client.describe_topic(name)
    same("DESCRIBE TOPIC", (described.id, len(described.partitions)), (topic, 3))
    metadata = client.metadata([name, name + ".not"])
    same("METADATA", [(t.error, t.name) for t in metadata.topics], [(0, name), (Code.UnknownTopic, name + ".not")])
    same("METADATA", (metadata.topics[0].id, len(metadata.topics[0].partitions)), (topic, 3))
    same("LIST TOPICS", [(t.name, t.id, t.partitions) for t in client.list_topics(name, page=1)], [(name, topic, 3)])
    client.alter_topic(name, s.Settings(retention_records=1000000))
    same("ALTER TOPIC", client.describe_topic(name).settings.retention_records, 1000000)
    fails("CREATE TOPIC again", Code.TopicExists, client.create_topic, name, 3)
    fails("a name with two dots", Code.InvalidName, client.create_topic, "a..b")


def produce(client, topic, partitions):
    """Partition 0 pipelined without a producer id, 1 idempotent, 2 with acks leader in single records and batches."""
    batches = [s.build_batch(partitions[0][i : i + 50]) for i in range(0, len(partitions[0]), 50)]
    offset = 0
    for i, request in enumerate([client.start_produce(topic, 0, batch) for batch in batches]):
        same("BaseOffset", client.finish_produce(request).base_offset, offset)
        offset += len(partitions[0][i * 50 : i * 50 + 50])

    producer, offset = Producer(client), 0
    for i in range(0, len(partitions[1]), 300):
        for reply in producer.produce(topic, 1, partitions[1][i : i + 300]):
            same("BaseOffset", reply.base_offset >= offset, True)
            offset = reply.base_offset

    for record in partitions[2][:20]:
        client.produce(topic, 2, [record], acks=s.ACKS_LEADER)
    client.produce(topic, 2, partitions[2][20:])


def fetch_all(client, topic, count):
    """All records of the first count partitions, read over many fetches."""
    ends = client.list_offsets([(topic, p, s.OFFSET_END, 0) for p in range(count)])
    next_offset = {(topic, a.partition): a.offset for a in client.list_offsets([(topic, p, s.OFFSET_START, 0) for p in range(count)])}
    records = {key: [] for key in next_offset}
    fetches = 0
    while True:
        left = [(*key, next_offset[key]) for key in next_offset if next_offset[key] < ends[key[1]].offset]
        if not left:
            return [records[topic, p] for p in range(count)], fetches
        fetches += 1
        before = dict(next_offset)
        for key, result in client.fetch(left, partition_bytes=100000).items():
            records[key] += result.check().records()
            next_offset[key] = result.next_offset
        same("FETCH moves on", next_offset != before, True)


def duplicates(client, topic):
    """A batch that is sent twice is stored once. Returns how many records are stored."""
    producer_id, epoch = client.producer_id()
    first = s.build_batch([Record(b"once"), Record(b"once more")], producer_id, epoch, 0)
    reply = client.produce_batch(topic, 0, first)
    same("a batch sent again", client.produce_batch(topic, 0, first), reply)
    follows = client.produce_batch(topic, 0, s.build_batch([Record(b"next")], producer_id, epoch, 2))
    same("the batch after it", follows.base_offset, reply.base_offset + 2)
    gap = fails("a gap", Code.Sequence, client.produce_batch, topic, 0, s.build_batch([Record(b"gap")], producer_id, epoch, 9))
    same("the sequence expected", gap.first, 3)
    return 3


def wrong_requests(client, topic, end):
    """Requests that have to fail, after which the connection goes on."""
    result = client.fetch([(topic, 0, end + 1)])[topic, 0]
    error = fails("FETCH past the end", Code.OffsetOutOfRange, result.check)
    same("the valid offsets", (error.first, error.last), (0, end))
    result = client.fetch([(topic, 3, 0)])[topic, 3]
    fails("FETCH of partition 3", Code.UnknownPartition, result.check)
    batch = bytearray(s.build_batch([Record(b"damaged on its way")]))
    batch[-3] ^= 1
    fails("a damaged batch", Code.Corrupt, client.produce_batch, topic, 0, bytes(batch))
    fails("a record above 4 MiB", Code.TooLarge, client.produce, topic, 0, [Record(bytes((4 << 20) + 1))])
    request = client.start_fetch([(topic, 0, end)], wait_ms=60000)
    client.cancel(request)
    fails("a cancelled FETCH", Code.Cancelled, client.finish_fetch, request)
    same("FETCH at the end", client.fetch([(topic, 0, end)], wait_ms=50)[topic, 0].records(), [])
    client.ping()


def push(client, name, topic, partition, records):
    """Publishes to a subscription, and reads what is there already by another one with little credit. Returns how many records came."""
    tail = client.subscribe(name)
    sent = []
    for i in range(200):
        key = (None, b"", b"k%d" % i)[i % 3]
        client.publish(topic, partition, b"published %d" % i, key, acks=s.ACKS_DURABLE if i % 10 == 0 else s.ACKS_LEADER)
        sent.append((key, b"published %d" % i))
    got = []
    while len(got) < len(sent):
        delivery = tail.next()
        same("the partition pushed", (delivery.topic, delivery.partition), (topic, partition))
        got += [(record.key, record.value) for record in delivery.batch.records()]
    same("records pushed", got, sent)
    client.unsubscribe(tail)

    log = client.subscribe(name, 1, s.START_OFFSET, offset=50, records=10, size=1 << 16)
    stored = []
    while len(stored) < len(records) - 50:
        stored += [record for record in log.next().batch.records() if record.offset >= 50]
    same("records pushed from the log", stored, records[50:])
    client.unsubscribe(log)
    fails("SUBSCRIBE to nothing", Code.UnknownTopic, client.subscribe, name + ".not")
    return len(got) + len(stored), len(sent)


def roundtrip(client, name):
    partitions = make_records(random.Random(7))
    topic = client.create_topic(name, 3, s.Settings(max_record_bytes=4 << 20))
    try:
        topics(client, name, topic)
        produce(client, topic, partitions)
        got, fetches = fetch_all(client, topic, 3)
        for p in range(3):
            same("records of partition %d" % p, len(got[p]), len(partitions[p]))
            for i, (record, want) in enumerate(zip(got[p], partitions[p])):
                same("record %d of partition %d" % (i, p), record, want)
                same("offset of record %d of partition %d" % (i, p), record.offset, i)
        print("%d records, %d bytes of values, %d fetches" % (sum(map(len, got)), sum(len(r.value or b"") for g in got for r in g), fetches))

        end = len(partitions[0]) + duplicates(client, topic)
        wrong_requests(client, topic, end)
        pushed, published = push(client, name, topic, 2, partitions[1])
        print("%d records published, %d records pushed" % (published, pushed))
        ends = [answer.offset for answer in client.list_offsets([(topic, p, s.OFFSET_END, 0) for p in range(3)])]
        same("ends", ends, [end, len(partitions[1]), len(partitions[2]) + published])
        late = client.list_offsets([(topic, 0, s.OFFSET_TIME, got[0][0].append_time), (topic, 0, s.OFFSET_TIME, 1 << 60)])
        same("LIST OFFSETS by time", [answer.offset for answer in late], [0, end])
    finally:
        client.delete_topic(name)
    fails("DESCRIBE TOPIC of a deleted one", Code.UnknownTopic, client.describe_topic, name)
    result = client.fetch([(topic, 0, 0)])[topic, 0]
    fails("FETCH from a deleted topic", Code.UnknownTopic, result.check)


def main(address):
    host, _, port = address.rpartition(":")
    try:
        with Client(host.strip("[]"), int(port), client_name="roundtrip") as client:
            roundtrip(client, "example.roundtrip." + os.urandom(4).hex())
    except (Mismatch, s.SlipringError, OSError) as err:
        print("%s: %s" % (type(err).__name__, err), file=sys.stderr)
        return 1
    print("OK")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
