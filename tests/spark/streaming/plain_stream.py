"""The stream of tests that are about drivers and files: one source, a count for each key, and settings that decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import headwater as hw
from headwater.simulator.stream import TABLES, DriverThread, ListedInput

SCHEMA = pa.schema([("time", pa.int64()), ("k", pa.int64())])
SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None, "ahead_max": None}
QUERY = hw.query("load", hw.tumbling(10), keys=["k"], n=hw.count())


def one_source(times: Iterable[int]) -> ListedInput:
    """The source "a" with an event at each time, the keys 0, 1 and 2 in turns; none of them is there yet."""
    listed = list(times)
    TABLES["a"] = pa.RecordBatch.from_pydict({"time": listed, "k": [t % 3 for t in listed]}, SCHEMA)
    return ListedInput(SCHEMA, {"a": 0})


def until(driver: DriverThread, *moments: str) -> None:
    """Let a driver go on to one of these moments, or to its end."""
    for _ in range(1000):
        if not driver.is_alive or driver.turn() in moments:
            return
    raise AssertionError(f"none of {moments} is ever reached")
