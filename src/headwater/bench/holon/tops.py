"""The best ten of each key against Polars, in one process of its own: Polars fixes its threads when it is imported."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.bench.common.children import in_child
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.workload import EVENTS_PER_SECOND, SECOND, SEED, EventColumns
from headwater.bench.engine import one_core
from headwater.bench.holon.timing import MILLION, medians, turns

KEYS = 1_000
BEST = 10
EVENTS = 4 * MILLION


def against_polars(report: Report) -> None:
    """``hw.top("price", 10)`` by 1,000 keys, all events in one window."""
    events = EVENTS // (10 if report.quick else 1)
    found = in_child("holon.tops", events, turns(report), POLARS_MAX_THREADS="1")
    note = f"{events / found['ours'] / MILLION:.0f} and {events / found['polars'] / MILLION:.0f} M events/s"
    report.add("top_vs_polars", found["polars"] / found["ours"], "ratio", at_least(1), note)


def table_of(events: int) -> pa.Table:
    """Prices of a thousand keys."""
    data = EventColumns(events)
    keys = np.random.default_rng([SEED, KEYS]).integers(0, KEYS, events, dtype=np.int64)
    return pa.table({"time": data.times, "key": keys, "price": data.values})


def best_of_each(table: pa.Table, seconds: int) -> pa.Table:
    """By key the best prices, as the engine says."""
    query = hw.query("tops", hw.tumbling(f"{seconds} s"), keys=["key"], best=hw.top("price", BEST))
    return hw.run(table, [query], time="time", unit="us").table


def peers_best(events: Any, seconds: int) -> Any:
    """By key the best prices, as Polars says; ``events`` is a lazy frame."""
    import polars

    start = polars.col("time") // (seconds * SECOND)
    best = polars.col("price").top_k(BEST)
    return events.group_by(start.alias("start"), "key").agg(best).collect()


def measure(events: int, repeats: int) -> dict[str, float]:
    """The seconds of both over the same events, whose rows are the same."""
    import polars

    if polars.thread_pool_size() != 1:
        raise RuntimeError(f"Polars runs {polars.thread_pool_size()} threads, not 1: set POLARS_MAX_THREADS")
    table, seconds = table_of(events), events // EVENTS_PER_SECOND
    frame = polars.DataFrame(polars.from_arrow(table)).lazy()
    works = [partial(best_of_each, table, seconds), partial(peers_best, frame, seconds)]
    check_rows(works[0](), works[1]())
    ours, theirs = medians(works, repeats)
    return {"ours": ours, "polars": theirs}


def check_rows(ours: pa.Table, theirs: Any) -> None:
    """Refuse a comparison in which both did not give the same best of each key."""
    mine = {row["key"]: [event["price"] for event in row["best"]] for row in ours.to_pylist()}
    peers = {row["key"]: sorted(row["price"], reverse=True) for row in theirs.to_dicts()}
    if mine != peers:
        raise RuntimeError(f"Polars has other best prices of {len(peers)} keys than headwater of {len(mine)}")


if __name__ == "__main__":
    with one_core():
        print(json.dumps(measure(*map(int, sys.argv[1:]))))
