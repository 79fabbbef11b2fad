"""Settings of Kafka clients, and messages as events, by a few plain cases without a broker."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

import headwater as hw
from headwater.language.time_columns import ARRIVAL
from headwater.spark.formats import Wanted
from headwater.spark.streaming.kafka.client import Connection, KafkaSettings, source_name
from headwater.spark.streaming.kafka.values import KEY, batches_of, schema_of

SCHEMA = pa.schema([("time", pa.int64()), (KEY, pa.string())])


@dataclass(frozen=True)
class Message:
    """A message as the client library gives it."""

    at: int
    data: bytes | None
    name: bytes | None = None
    stamp: tuple[int, int] = (0, 0)

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.data

    def key(self) -> bytes | None:
        return self.name

    def timestamp(self) -> tuple[int, int]:
        return self.stamp


def read(*messages: Message, columns: tuple[str, ...] = ("time",), strict: bool = False):
    found = batches_of(messages, "t/00000", Wanted(columns, SCHEMA, strict))
    return [(offset, batch.to_pylist()) for offset, batch in found]


def test_messages_are_events_at_kafkas_own_offsets():
    assert read(Message(7, b'{"time": 1}'), Message(8, b'{"time": 2}')) == [(7, [{"time": 1}, {"time": 2}])]


def test_a_gap_in_the_offsets_begins_a_new_batch():
    assert read(Message(1, b'{"time": 1}'), Message(3, b'{"time": 2}')) == [(1, [{"time": 1}]), (3, [{"time": 2}])]


def test_a_message_that_is_no_event_says_where_it_stands():
    ((_, (bad, good)),) = read(Message(4, b"[1]"), Message(5, b'{"time": 2}'))
    assert (bad["time"], good["time"]) == (None, 2)
    assert bad["\0\0"]["reason"] == "offset 4: this is no JSON object"
    with pytest.raises(hw.DataError, match=r"t/00000, offset 4: this is no JSON object \(strict\)"):
        read(Message(4, b"[1]"), strict=True)


def test_the_key_of_a_message_is_a_column_beside():
    assert read(Message(0, None, b"a"), columns=(KEY,)) == [(0, [{KEY: "a"}])]


def test_an_event_of_kafka_arrives_by_the_timestamp_of_its_message():
    messages = Message(0, b'{"time": 1}', None, (1, 5)), Message(1, b'{"time": 2}')
    ((_, found),) = read(*messages, columns=("time", ARRIVAL))
    assert found == [{"time": 1, ARRIVAL: 5_000}, {"time": 2, ARRIVAL: None}]
    ((_, found),) = read(*messages, columns=(ARRIVAL,))
    assert [row[ARRIVAL] for row in found] == [5_000, None]


def test_columns_are_told_from_the_first_values():
    assert schema_of([b'{"a": 1,\n"b": "x"}']) == pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_names_of_sources_sort_as_their_partitions_do():
    assert source_name("t", 2) < source_name("t", 10)


def test_settings_are_checked_where_they_are_given():
    with pytest.raises(hw.DataError, match="servers is '': give brokers as 'host:port'"):
        KafkaSettings("", {})
    with pytest.raises(hw.DataError, match=r"config\['a'\] is \[1\]: give text, a number"):
        KafkaSettings("host:1", {"a": [1]})


def test_a_secret_comes_from_the_environment(monkeypatch):
    connection = Connection(KafkaSettings("host:1", {"sasl.password": {"env": "SECRET"}}))
    with pytest.raises(hw.DataError, match="'SECRET' is not set"):
        connection.config({}, {})
    monkeypatch.setenv("SECRET", "s")
    assert connection.config({"own": 1}, {})["sasl.password"] == "s"


def test_what_must_be_so_cannot_be_set():
    connection = Connection(KafkaSettings("host:1", {"isolation.level": "read_uncommitted"}))
    with pytest.raises(hw.DataError, match="headwater needs it to be 'read_committed'; leave it out"):
        connection.config({}, {"isolation.level": "read_committed"})
