"""Event time that jumps: nothing was due in between, so getting over it must cost nothing."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.bench.common.report import Report, at_most
from headwater.bench.common.workload import SECOND
from headwater.bench.holon.process import CountedProgram, planned
from headwater.bench.holon.timing import turns

EVERY = SECOND // 50
YEAR = 365 * 24 * 3600 * SECOND
PARTITIONS = ("a", "b", "c")


def year(report: Report) -> None:
    """A year without events on all partitions, at steps of 20 ms."""
    gap_seconds()
    found = median([gap_seconds() for _ in range(turns(report))])
    note = f"{len(PARTITIONS)} partitions, {YEAR // EVERY:,} steps without events"
    report.add("year_gap_ms", found * 1000, "ms", at_most(100), note)


def gap_seconds() -> float:
    """How long a node takes from the first events behind the gap to the rows of all windows before it."""
    before = pa.record_batch({"time": np.arange(0, SECOND, SECOND // 1000)})
    behind = pa.record_batch({"time": np.array([YEAR])})
    queries = [
        hw.query("tumbling", hw.tumbling("20 ms"), n=hw.count()),
        hw.query("sliding", hw.sliding("1 s", "20 ms"), n=hw.count()),
    ]
    program = CountedProgram(planned(queries, PARTITIONS, before.schema, EVERY))
    for partition in PARTITIONS:
        program.take_in(partition, before)
    start = time.perf_counter()
    for partition in PARTITIONS:
        program.take_in(partition, behind)
    seconds = time.perf_counter() - start
    windows = SECOND // EVERY + 2 * SECOND // EVERY - 1
    if program.rows != windows:
        raise RuntimeError(f"{program.rows} rows came of {windows} windows: the gap was not got over")
    return seconds
