"""Topics as sources: offsets are Kafka's own, gaps and bad values keep their places, losses are never silent."""

import json

import pyarrow as pa
import pytest

from headwater.engine.intake.arrivals import unread_lines, unread_values
from headwater.errors import DataError
from headwater.spark.formats import Passed, Wanted
from headwater.spark.streaming.inputs.input import Extent
from headwater.spark.streaming.kafka.client import BrokerError
from headwater.spark.streaming.kafka.input import KafkaInput

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SCHEMA = pa.schema({"time": pa.int64(), "v": pa.float64()})


def events(*times: int) -> list[dict]:
    return [{"time": time, "v": time / 2} for time in times]


def read(given: KafkaInput, source: str, start: int, end: int, columns=("time", "v"), *, strict: bool = False) -> list:
    """What a worker reads, from the planner's description as it travels."""
    given = KafkaInput.from_data(json.loads(json.dumps(given.to_data())))
    given.extents()
    stretches = json.loads(json.dumps(given.stretches(source, start, end)))
    wanted = Wanted(columns, given.schema, strict)
    return [part for stretch in stretches for part in KafkaInput.read(stretch, wanted)]


def places(parts: list, start: int = 0) -> dict[int, int]:
    """The time of the event at each offset."""
    found, at = {}, start
    for part in parts:
        if isinstance(part, Passed):
            assert part.low is None and part.high is None
            at += part.count
        else:
            found |= {at + row: time for row, time in enumerate(part.column("time").to_pylist())}
            at += len(part)
    return found


def end_of(parts: list, start: int = 0) -> int:
    return start + sum(part.count if isinstance(part, Passed) else len(part) for part in parts)


def test_every_partition_is_a_source_whose_offsets_are_kafkas(broker):
    topic = broker.topic(partitions=3)
    broker.send(topic, events(*range(100)), 0)
    broker.send(topic, events(7, 8), 2)
    given = KafkaInput(broker.servers, topic)
    assert given.schema.equals(SCHEMA)
    assert given.extents() == {
        f"{topic}/00000": Extent(100, topic),
        f"{topic}/00001": Extent(0, topic),
        f"{topic}/00002": Extent(2, topic),
    }
    assert places(read(given, f"{topic}/00000", 0, 100)) == dict(enumerate(range(100)))
    assert places(read(given, f"{topic}/00000", 40, 43), 40) == {40: 40, 41: 41, 42: 42}
    assert places(read(given, f"{topic}/00002", 1, 2), 1) == {1: 8}
    assert read(given, f"{topic}/00001", 0, 0) == []


def test_a_stretch_larger_than_a_chunk_is_read_whole(broker, monkeypatch):
    from headwater.spark.streaming.kafka import reading as kafka_reading

    monkeypatch.setattr(kafka_reading, "CHUNK_MESSAGES", 100)
    monkeypatch.setattr(kafka_reading, "TAKEN_AT_ONCE", 64)
    topic = broker.topic()
    broker.send(topic, events(*range(1000)))
    parts = read(KafkaInput(broker.servers, topic), f"{topic}/00000", 3, 990)
    assert len(parts) > 5
    assert places(parts, 3) == {offset: offset for offset in range(3, 990)}


def test_offsets_of_transactions_that_hold_no_event_are_passed_over(broker):
    topic = broker.topic()
    broker.transact(topic, events(1, 2))  # 0, 1, and 2 for its end
    broker.transact(topic, events(3, 4, 5), commit=False)  # 3 to 5, and 6 for its end
    broker.send(topic, events(6))  # 7
    broker.transact(topic, events(7))  # 8, and 9 for its end
    given = KafkaInput(broker.servers, topic)
    source = f"{topic}/00000"
    assert given.extents() == {source: Extent(10, source.rpartition("/")[0])}
    expected = {0: 1, 1: 2, 7: 6, 8: 7}
    for start in range(10):
        for end in (start + 1, 7, 10):
            if start < end:
                parts = read(given, source, start, end)
                assert end_of(parts, start) == end
                assert places(parts, start) == {at: time for at, time in expected.items() if start <= at < end}


def test_an_open_transaction_is_not_read_and_its_end_shows_it(broker):
    topic = broker.topic()
    broker.send(topic, events(1))
    given = KafkaInput(broker.servers, topic)
    open_one = broker.open_transaction(topic, events(2))
    broker.send(topic, events(3))
    source = f"{topic}/00000"
    assert given.extents()[source].end == 1
    open_one.commit_transaction(30)
    broker.settle(topic)
    assert given.extents()[source].end == 4
    assert places(read(given, source, 1, 4), 1) == {1: 2, 2: 3}


def test_malformed_values_keep_their_places_and_say_why(broker):
    topic = broker.topic()
    odd = [None, b"", b"[1]", b'{"time": 1', b"\xff", b"null", b'{"time":1}{"time":2}', b'{"v": "many", "time": 5}']
    broker.send(topic, [*events(0), *odd, b'{\n "time": 9,\n "v": 1\n}', *events(10)])
    given = KafkaInput(broker.servers, topic, schema=SCHEMA)
    parts = read(given, f"{topic}/00000", 0, 11)
    assert places(parts) == {0: 0, **dict.fromkeys(range(1, 8)), 8: 5, 9: 9, 10: 10}
    (batch,) = parts
    reasons = unread_lines(batch)
    assert sorted(reasons) == [1, 2, 3, 4, 5, 6, 7]
    assert reasons[3] == "offset 3: this is no JSON object"
    assert unread_values(batch, "v") == {8: "many"}
    with pytest.raises(DataError, match=rf"{topic}/00000, offset 1: .* \(strict\)"):
        read(given, f"{topic}/00000", 0, 11, strict=True)


def test_keys_and_timestamps_are_columns_if_they_are_asked_for(broker):
    topic = broker.topic(**{"message.timestamp.type": "LogAppendTime"})
    broker.send(topic, events(1), key=b"house 3")
    broker.send(topic, events(2), key=b"\xff")
    broker.transact(topic, events(3))
    given = KafkaInput(broker.servers, topic, key=True, timestamp=True)
    assert given.schema.names == ["time", "v", "kafka_key", "kafka_timestamp"]
    (batch, _) = read(given, f"{topic}/00000", 0, 4, given.schema.names)
    assert batch.column("kafka_key").to_pylist() == ["house 3", None, None]
    assert unread_values(batch, "kafka_key") == {1: r"b'\xff'"}
    stamps = batch.column("kafka_timestamp").to_pylist()
    assert None not in stamps and stamps == sorted(stamps)
    (batch, _) = read(given, f"{topic}/00000", 0, 4, ["kafka_timestamp"])
    assert batch.column("kafka_timestamp").to_pylist() == stamps


def test_a_partition_that_is_added_is_a_new_source_read_from_its_beginning(broker):
    topic = broker.topic()
    broker.send(topic, events(1, 2))
    given = KafkaInput(broker.servers, topic, schema=SCHEMA, begin="latest")
    broker.add_partitions(topic, 2)
    broker.send(topic, events(5), 1)
    broker.send(topic, events(3), 0)
    assert given.extents() == {f"{topic}/00000": Extent(3, topic), f"{topic}/00001": Extent(1, topic)}
    assert read(given, f"{topic}/00000", 0, 2) == [Passed(2)]
    assert places(read(given, f"{topic}/00000", 0, 3)) == {2: 3}
    assert places(read(given, f"{topic}/00001", 0, 1)) == {0: 5}


def test_events_that_kafka_dropped_are_an_error_or_are_counted(broker):
    topic = broker.topic()
    source = f"{topic}/00000"
    broker.send(topic, events(*range(10)))
    strict, lenient = (KafkaInput(broker.servers, topic, on_data_loss=each) for each in ("error", "pass"))
    planned = [each.stretches(source, 2, 10)[0] for each in (strict, lenient) if each.extents()]
    broker.drop_before(topic, 0, 5)
    with pytest.raises(DataError, match=rf"{source}: offsets \[2, 5\) are gone"):
        read(strict, source, 2, 10)
    assert places(read(lenient, source, 2, 10), 2) == {offset: offset for offset in range(5, 10)}
    lenient.extents()
    assert lenient.stretches(source, 2, 10)[0]["lost"] == 3
    # Between planning and reading as well.
    wanted = Wanted(["time"], SCHEMA)
    with pytest.raises(DataError, match=rf"{source}: offsets \[2, 5\) are gone"):
        list(KafkaInput.read(planned[0], wanted))
    assert places(list(KafkaInput.read(planned[1], wanted)), 2) == {offset: offset for offset in range(5, 10)}
    # What was gone before the stream began was never its own.
    later = KafkaInput(broker.servers, topic)
    assert places(read(later, source, 0, 10)) == {offset: offset for offset in range(5, 10)}


def test_a_topic_that_is_gone_or_made_again_is_an_error_that_names_it(broker):
    from confluent_kafka.admin import NewTopic

    topic = broker.topic()
    broker.send(topic, events(1))
    given = KafkaInput(broker.servers, topic)
    given.extents()
    broker.delete(topic)
    with pytest.raises(BrokerError, match=f"topic '{topic}' is gone"):
        given.extents()
    broker.make(NewTopic(topic, 1, 1))
    broker.send(topic, events(1))  # waits until the broker knows it
    with pytest.raises(DataError, match=f"topic '{topic}' was deleted and made again"):
        given.extents()
    with pytest.raises(BrokerError, match="topic 'nowhere' does not exist"):
        KafkaInput(broker.servers, "nowhere")


def test_a_broker_that_ends_earlier_than_it_said_is_an_error(broker):
    topic = broker.topic()
    broker.send(topic, events(1, 2))
    given = KafkaInput(broker.servers, topic, timeout_s=1)
    with pytest.raises(DataError, match=r"Kafka ends at offset 2, but went to 5 before"):
        read(given, f"{topic}/00000", 0, 5)


def test_a_broker_that_does_not_answer_is_named():
    pytest.importorskip("confluent_kafka")
    with pytest.raises(BrokerError, match=r"Kafka at 127.0.0.1:1: topic 't' cannot be looked at: .*Connect"):
        KafkaInput("127.0.0.1:1", "t", timeout_s=2)


def test_wrong_settings_of_a_kafka_input_are_said(broker):
    topic = broker.topic()
    with pytest.raises(DataError, match="are empty, so nothing says which columns there are; give schema="):
        KafkaInput(broker.servers, topic).schema  # noqa: B018
    with pytest.raises(DataError, match="on_data_loss is 'ignore': give 'error' or 'pass'"):
        KafkaInput(broker.servers, topic, on_data_loss="ignore")
    with pytest.raises(DataError, match=r"begin\['.*'\] is 7: Kafka holds \[0, 0\)"):
        KafkaInput(broker.servers, topic, begin={f"{topic}/00000": 7})
    with pytest.raises(DataError, match="is to come from the environment, where 'NOT_SET_ANYWHERE' is not set"):
        KafkaInput(broker.servers, topic, config={"sasl.password": {"env": "NOT_SET_ANYWHERE"}})
    given = KafkaInput(broker.servers, topic, schema=SCHEMA, config={"isolation.level": "read_uncommitted"})
    broker.send(topic, events(1))
    with pytest.raises(DataError, match="headwater needs it to be 'read_committed'"):
        read(given, f"{topic}/00000", 0, 1)
