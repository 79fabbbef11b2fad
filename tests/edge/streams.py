"""Events that processes of a cluster make for themselves: functions that can be imported there."""

import os
import signal
import threading

import numpy as np
import pyarrow as pa


def made(number: int, leaves: int, events: int, batch: int = 1000) -> list[pa.RecordBatch]:
    """The events of one leaf: one each millisecond, in turn with the other leaves, so no two have the same time."""
    offsets = np.arange(events, dtype=np.int64)
    generator = np.random.default_rng(number)
    table = pa.record_batch(
        {
            "time": (offsets * leaves + number) * 1000,
            "key": generator.integers(0, 3, events),
            "value": generator.normal(size=events),
        }
    )
    return [table.slice(first, batch) for first in range(0, events, batch)]


def together(leaves: int, events: int) -> pa.Table:
    """The events of all leaves, in order."""
    parts = [batch for number in range(leaves) for batch in made(number, leaves, events)]
    return pa.Table.from_batches(parts).sort_by("time")


def doomed(seconds: float, *arguments: int) -> list[pa.RecordBatch]:
    """The same, but the process that asks for them is killed after a while."""
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return made(*arguments)


def broken() -> list[pa.RecordBatch]:
    raise ValueError("the sensor is broken")
