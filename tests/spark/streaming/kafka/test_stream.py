"""A stream from Kafka to Kafka: every row once, also behind a restart, with gaps and bad values on the way."""

import json

import pytest

import headwater as hw
from headwater.spark.stream import stream
from headwater.spark.streaming.kafka.input import KafkaInput
from headwater.spark.streaming.kafka.sink import KafkaSink
from waiting import SECONDS_MAX

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

QUERIES = [
    hw.query("load", hw.tumbling(10), keys=["house"], n=hw.count(), total=hw.sum("v")),
    hw.query("sessions", hw.session(3), n=hw.count()),
]


def events(times) -> list[dict]:
    return [{"time": time, "house": f"house {time % 3}", "v": time} for time in times]


def run(spark, broker, source: str, target: str, checkpoint) -> None:
    sink = KafkaSink(broker.servers, target)
    given = KafkaInput(broker.servers, source)
    started = stream(spark, given, QUERIES, checkpoint=checkpoint, sink=sink, trigger="available now")
    assert started.await_end(SECONDS_MAX)


def rows(broker, topic: str) -> list[tuple]:
    found = [json.loads(message.value()) for message in broker.messages(topic)]
    names = ("query", "window_start", "window_end", "house", "n", "total")
    return sorted(tuple(str(row.get(name)) for name in names) for row in found)


def test_gaps_and_bad_values_of_a_topic_change_no_row(spark, broker, tmp_path):
    source, target = broker.topic(partitions=2), broker.topic(partitions=2)
    broker.transact(source, events(range(0, 30, 2)), 0)
    broker.transact(source, events([5] * 10), 0, commit=False)
    broker.send(source, [*events(range(1, 30, 2)), b"no event"], 1)
    run(spark, broker, source, target, tmp_path / "checkpoint")
    broker.transact(source, events(range(30, 60, 2)), 0)
    broker.send(source, events(range(31, 60, 2)), 1)
    run(spark, broker, source, target, tmp_path / "checkpoint")
    found = rows(broker, target)
    assert len(found) == len(set(found))
    # Windows up to the last event of the slower partition.
    expected = [
        ("load", str(start), str(start + 10), house, str(len(times)), str(sum(times)))
        for start in range(0, 50, 10)
        for house in ("house 0", "house 1", "house 2")
        if (times := [time for time in range(start, start + 10) if f"house {time % 3}" == house])
    ]
    assert [row for row in found if row[0] == "load"] == sorted(expected)
