"""What can only be measured in a process of its own: memory, and a million queries.

Each measurement is a function here, called in a fresh child, so that nothing another figure left behind is counted.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pyarrow as pa

import headwater as hw
from headwater.bench.common.queries import many, named, one_query, scan_query
from headwater.bench.common.workload import SECOND, START, EventColumns, endless

BATCH_EVENTS = 1_000_000


def in_child(module: str, *arguments: object, **environment: str) -> dict[str, float]:
    """Run a module of the benchmarks as a program in a fresh process and return what it measured."""
    command = [sys.executable, "-m", f"headwater.bench.{module}", *map(str, arguments)]
    finished = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, float] = json.loads(finished.stdout)
    return measured


def registration(queries: int) -> dict[str, float]:
    """Seconds to describe and register that many queries, no two equal, and the memory they need with the process.

    The first events belong to it: a plan made only when events come is part of registering, not a saving.
    """
    first_events = EventColumns(1_000).table("time", "key", "value").to_batches()[0]
    # A million queries over 600 lengths cannot all differ at whole seconds.
    specs = many(queries, resolution=SECOND // 1000)
    start = time.perf_counter()
    engine = hw.Engine(named(specs), time="time", unit="us")
    described_and_planned = time.perf_counter() - start
    del specs
    start = time.perf_counter()
    engine.push(first_events)
    return {"seconds": described_and_planned + time.perf_counter() - start, "gigabytes": resident_gigabytes()}


def growth(events_first: int, events_last: int) -> dict[str, float]:
    """Memory after few and after many events of an endless stream, with windows of every kind open all the time."""
    engine = hw.Engine(_lasting_queries(), time="time", unit="us")
    rows = 0
    measured: dict[str, float] = {}
    for seen, batch in endless(events_last, BATCH_EVENTS):
        engine.push(batch)
        engine.advance(batch.column("time")[-1].as_py())
        rows += engine.results().num_rows
        if seen in (events_first, events_last):
            measured["first_gb" if seen == events_first else "last_gb"] = resident_gigabytes()
    return {**measured, "rows": rows}


def resident_gigabytes() -> float:
    """The memory that this process holds now, after giving back what it can."""
    import psutil

    gc.collect()
    pa.default_memory_pool().release_unused()
    return float(psutil.Process().memory_info().rss) / 1e9


def _lasting_queries() -> list[hw.Query]:
    return [
        one_query(),
        scan_query("value", hw.sliding("1 min", "5 s"), "sliding"),
        scan_query("value", hw.session("8 ms"), "sessions"),
        scan_query("value", hw.punctuated(hw.col("marker") == START), "markers"),
        scan_query("value", hw.count_tumbling(100_000), "counted"),
        hw.query("p99", hw.tumbling("10 s"), keys=["key"], p99=hw.quantile("value", 0.99)),
    ]


if __name__ == "__main__":
    measures: dict[str, Callable[..., dict[str, float]]] = {"registration": registration, "growth": growth}
    print(json.dumps(measures[sys.argv[1]](*map(int, sys.argv[2:]))))
