"""Writes batches into a topic, and is killed where it is told: a process of its own, for test_sink."""

import os
import signal
import sys
from functools import partial

import pyarrow as pa

import headwater as hw
from headwater.spark.streaming.kafka.sink import KafkaSink
from headwater.spark.streaming.sinks.timeline import Claimant, Life

LOAD = hw.query("load", hw.tumbling(10), keys=["house"], peak=hw.max("load"))
#: Where it may die: the step of the sink, and whether before or behind it.
POINTS = {
    "produced": ("_produce", "behind"),
    "noted": ("_note", "behind"),
    "committing": ("_commit", "before"),
    "committed": ("_commit", "behind"),
    "nowhere": ("_commit", ""),
}


def rows_of(batch: int) -> pa.Table:
    """What a batch writes, whenever it is run."""
    keys = [f"house {number}" for number in range(20)]
    count = len(keys)
    return pa.table(
        {
            "query": ["load"] * count,
            "window_start": [batch * 10] * count,
            "window_end": [batch * 10 + 10] * count,
            "house": keys,
            "peak": [float(number) for number in range(count)],
            "event_count": pa.array([batch] * count, pa.int64()),
            "revision": pa.array([0] * count, pa.int32()),
            "replaces": pa.nulls(count),
        }
    )


def opened(servers: str, topic: str, stream: str, lives=(Life(0, "life"),), **options) -> KafkaSink:
    sink = KafkaSink(servers, topic, **options)
    sink.open(Claimant(stream, lives, query_of=lambda name: LOAD))
    return sink


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(servers: str, topic: str, stream: str, point: str, first: str, last: str) -> None:
    """Write batches first to last, and die in the last one."""
    sink = opened(servers, topic, stream)
    for batch in range(int(first), int(last) + 1):
        if batch == int(last):
            arm(sink, *POINTS[point])
        sink.write(batch, rows_of(batch))


def arm(sink: KafkaSink, step: str, when: str) -> None:
    act = getattr(sink, step)

    def deadly(*arguments) -> None:
        if when == "before":
            die()
        act(*arguments)
        if step == "_produce":
            # So that the messages are at the broker.
            sink._producer.flush(30)
        if when == "behind":
            die()

    setattr(sink, step, partial(deadly))


if __name__ == "__main__":
    main(*sys.argv[1:])
