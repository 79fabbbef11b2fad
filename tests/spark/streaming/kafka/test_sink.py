"""Rows in a topic exactly once: a batch that is run again, and writers that are killed at each step."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import DataError
from headwater.spark.streaming.kafka import sink as kafka_sink
from headwater.spark.streaming.kafka.client import BrokerError
from headwater.spark.streaming.kafka.sink import KafkaSink
from headwater.spark.streaming.sinks.timeline import Life, SinkError
from spark.streaming.kafka.writer import opened, rows_of
from waiting import SECONDS_MAX

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WRITER = Path(__file__).with_name("writer.py")


@pytest.fixture
def stream() -> str:
    return uuid.uuid4().hex


def expected(*batches: int) -> Counter:
    return Counter(json.dumps(row) for batch in batches for row in rows_of(batch).to_pylist())


def found(broker, topic: str, *, is_open: bool = False) -> Counter:
    messages = broker.messages(topic, is_open=is_open)
    return Counter(json.dumps(json.loads(message.value())) for message in messages)


def test_each_row_is_a_message_in_the_partition_of_its_keys(broker, stream):
    topic = broker.topic(partitions=3)
    sink = opened(broker.servers, topic, stream)
    sink.write(0, rows_of(0))
    sink.write(1, rows_of(1))
    messages = broker.messages(topic)
    assert found(broker, topic) == expected(0, 1)
    assert len({message.key() for message in messages}) == 40
    partitions = {}
    for message in messages:
        house = json.loads(message.value())["house"]
        assert json.loads(message.key())[3] == {"house": house}
        partitions.setdefault(house, set()).add(message.partition())
    assert all(len(some) == 1 for some in partitions.values())
    assert len(set.union(*partitions.values())) > 1


def test_a_batch_that_is_run_again_writes_nothing_twice(broker, stream):
    topic = broker.topic(partitions=2)
    sink = opened(broker.servers, topic, stream)
    for batch in (0, 1, 1):
        sink.write(batch, rows_of(batch))
    sink.close()
    again = opened(broker.servers, topic, stream)
    for batch in (1, 2):
        again.write(batch, rows_of(batch))
    again.write(3, rows_of(3).slice(0, 0))
    assert found(broker, topic) == expected(0, 1, 2)


@pytest.mark.parametrize("point", ["produced", "noted", "committing", "committed"])
def test_a_writer_that_is_killed_leaves_each_row_once(broker, stream, point):
    topic = broker.topic(partitions=3)
    # Twice: what the first leaves open must not stop the second, nor that the third.
    for is_second in (False, True):
        run = written_by_another(broker, topic, stream, point, 0, 1)
        # Who finds the batch written does not come to where it would die.
        lives = is_second and point == "committed"
        assert run.returncode == (0 if lives else -signal.SIGKILL), run.stderr
        is_there = point == "committed"
        assert found(broker, topic, is_open=not is_there) == (expected(0, 1) if is_there else expected(0))
    last_run = written_by_another(broker, topic, stream, "nowhere", 0, 2)
    assert last_run.returncode == 0, last_run.stderr
    assert found(broker, topic) == expected(0, 1, 2)


def written_by_another(broker, topic, stream, point, first, last) -> subprocess.CompletedProcess:
    command = [sys.executable, str(WRITER), broker.servers, topic, stream, point, str(first), str(last)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=SECONDS_MAX)


def test_a_note_that_kafka_has_forgotten_is_found_in_the_messages(broker, stream):
    topic = broker.topic(partitions=2)
    lives = [Life(0, "a"), Life(6, "b")]
    opened(broker.servers, topic, stream, lives, shared=True).write(6, rows_of(6))
    opened(broker.servers, topic, uuid.uuid4().hex, [Life(9, "c")], shared=True).write(9, rows_of(9))
    for future in broker.admin.delete_consumer_groups([f"headwater-{stream}-{topic}"]).values():
        future.result()
    sink = opened(broker.servers, topic, stream, lives, shared=True)
    sink.write(6, rows_of(6))
    assert found(broker, topic) == expected(6, 9)
    sink.write(7, rows_of(7))
    assert found(broker, topic) == expected(6, 7, 9)


def test_a_topic_of_another_stream_is_refused(broker, stream):
    topic = broker.topic()
    first = opened(broker.servers, topic, stream)
    first.write(0, rows_of(0))
    with pytest.raises(SinkError, match=rf"'{topic}' belongs to another stream, {stream} \(.*shared=True"):
        opened(broker.servers, topic, "other").write(0, rows_of(1))
    with pytest.raises(SinkError, match="another stream"):
        opened(broker.servers, topic, "other", transactions=False).write(0, rows_of(1))
    first.write(1, rows_of(1))
    assert found(broker, topic) == expected(0, 1)


def test_an_older_checkpoint_is_refused_by_a_topic(broker, stream):
    topic = broker.topic()
    sink = opened(broker.servers, topic, stream, [Life(0, "a")])
    for batch in range(3):
        sink.write(batch, rows_of(batch))
    with pytest.raises(
        SinkError, match="rows up to batch 2 that are not of this checkpoint, which goes on with batch 1"
    ):
        opened(broker.servers, topic, stream, [Life(0, "a"), Life(1, "b")]).write(1, rows_of(5))
    again = [Life(0, "a"), Life(2, "b")]
    for batch, rows in ((2, 5), (3, 3)):
        # Batch 2 was written and perhaps not done: it has to come, and as it was.
        with pytest.raises(SinkError, match="batch 2 is there with other rows"):
            opened(broker.servers, topic, stream, again).write(batch, rows_of(rows))
    sink = opened(broker.servers, topic, stream, again)
    for batch in (2, 3):
        sink.write(batch, rows_of(batch))
    assert found(broker, topic) == expected(0, 1, 2, 3)


def test_what_an_earlier_release_noted_is_adopted(broker, stream):
    from confluent_kafka import Consumer, TopicPartition

    topic = broker.topic()
    old = Consumer({"bootstrap.servers": broker.servers, "group.id": f"headwater-{stream}-{topic}"})
    old.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    old.close()
    with pytest.raises(SinkError, match="rows up to batch 5"):
        opened(broker.servers, topic, stream, [Life(3, "b")]).write(3, rows_of(3))
    sink = opened(broker.servers, topic, stream, [Life(5, "a")])
    for batch in (5, 6):
        sink.write(batch, rows_of(batch))
    assert found(broker, topic) == expected(6)


def test_a_run_that_was_taken_over_finds_its_batch_written_and_writes_no_more(broker, stream):
    topic = broker.topic()
    old, new = (opened(broker.servers, topic, stream) for _ in range(2))
    old.write(0, rows_of(0))
    new.write(1, rows_of(1))
    old.write(1, rows_of(1))
    assert found(broker, topic) == expected(0, 1)


def test_runs_that_shut_each_other_out_again_and_again_stop_with_a_sentence(broker, stream, monkeypatch):
    topic = broker.topic()
    one, other = (opened(broker.servers, topic, stream) for _ in range(2))
    start = KafkaSink._start

    def followed(sink):
        start(sink)
        if sink is one:
            start(other)

    monkeypatch.setattr(KafkaSink, "_start", followed)
    with pytest.raises(BrokerError, match=r"batch 0 is not written .* another run of the same stream has taken over"):
        one.write(0, rows_of(0))
    other.write(0, rows_of(0))
    assert found(broker, topic) == expected(0)


def test_a_batch_that_the_broker_could_not_take_is_tried_again(broker, stream, monkeypatch):
    from confluent_kafka import KafkaError, KafkaException

    topic = broker.topic()
    sink = opened(broker.servers, topic, stream)
    note, calls = kafka_sink.KafkaSink._note, []

    def fails_once(self, noted):
        calls.append(noted.batch)
        if len(calls) == 1:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "not now", txn_requires_abort=True))
        note(self, noted)

    monkeypatch.setattr(kafka_sink.KafkaSink, "_note", fails_once)
    sink.write(0, rows_of(0))
    assert calls == [0, 0]
    assert found(broker, topic) == expected(0)


def test_without_transactions_a_batch_may_come_again_with_the_same_keys(broker, stream):
    topic = broker.topic()
    for _ in range(2):
        opened(broker.servers, topic, stream, transactions=False).write(0, rows_of(0))
    assert found(broker, topic) == expected(0, 0)
    assert len({message.key() for message in broker.messages(topic)}) == 20


def test_events_set_aside_are_messages_too(broker, stream):
    topic = broker.topic()
    aside = pa.table({"source": ["a", "a"], "offset": [1, 2], "reason": ["late", "malformed"]})
    for _ in range(2):
        opened(broker.servers, topic, stream).write(0, aside)
    assert [json.loads(message.value()) for message in broker.messages(topic)] == aside.to_pylist()


def test_wrong_settings_of_a_kafka_sink_are_said(broker, stream):
    with pytest.raises(BrokerError, match="topic 'nowhere' does not exist; create it first"):
        opened(broker.servers, "nowhere", stream).write(0, rows_of(0))
    with pytest.raises(DataError, match="the sink was not opened"):
        KafkaSink(broker.servers, "nowhere").write(0, rows_of(0))
    with pytest.raises(DataError, match=r"config\['transactional.id'\] is set"):
        opened(broker.servers, broker.topic(), stream, config={"transactional.id": "mine"}).write(0, rows_of(0))


def test_of_two_streams_that_claim_a_topic_at_once_one_stays(broker, monkeypatch):
    """The second comes, signs and writes after the first has found the topic unsigned."""
    topic = broker.topic()
    first, second = (opened(broker.servers, topic, uuid.uuid4().hex) for _ in range(2))
    inner = KafkaSink._unsigned

    def slow(sink, reader):
        note = inner(sink, reader)
        if sink is first:
            second.write(0, rows_of(0))
        return note

    monkeypatch.setattr(KafkaSink, "_unsigned", slow)
    with pytest.raises(SinkError, match="belongs to another stream"):
        first.write(0, rows_of(0))
    second.write(1, rows_of(1))
    assert found(broker, topic) == expected(0, 1)


def test_a_driver_that_was_replaced_and_starts_late_does_not_stop_its_successor(broker, stream):
    topic = broker.topic()
    old, new = opened(broker.servers, topic, stream), opened(broker.servers, topic, stream)
    new.write(0, rows_of(0))
    # It had looked whether it was replaced before it fell asleep.
    old._start()
    new.write(1, rows_of(1))
    new.write(2, rows_of(2))

    def is_replaced():
        raise DataError("was replaced")

    object.__setattr__(old._stream, "check", is_replaced)
    with pytest.raises(DataError, match="was replaced"):
        old.write(3, rows_of(3))
    assert found(broker, topic) == expected(0, 1, 2)
