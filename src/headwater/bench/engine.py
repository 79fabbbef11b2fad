"""``headwater bench engine``: what a pass over the events costs, alone, with thousands of queries, and against peers.

The unit of cost is NumPy merely summing the columns: a *scan ratio* of 0.5 means that headwater takes twice that time. The
engine runs on one core; times are the best of three, and the rows that each run produced are counted and shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import headwater as hw
from headwater.base.arrays import Float64Array
from headwater.bench.common import children, peers
from headwater.bench.common.queries import many, named, one_query, primes, scan_query
from headwater.bench.common.report import Report, at_least, at_most
from headwater.bench.common.timing import Timed, best_of
from headwater.bench.common.workload import END, EVENTS_FULL, KEY_COUNT, SECOND, START, EventColumns, workload
from headwater.engine.intake.chunk import Chunk, Values
from headwater.engine.operators.partials import Op, lift

QUICK_PART = 10
HUNDRED_PART = 4
LIVE_BATCH_EVENTS = 1_000_000


@dataclass
class EngineBench:
    """One run of the benchmark: the events, and the times that several figures compare with."""

    report: Report
    events: EventColumns
    scan_seconds: dict[str, float] = field(default_factory=dict)
    one: Timed = field(default_factory=lambda: Timed(0.0, 0))

    @property
    def part(self) -> int:
        """The factor by which a quick run is smaller."""
        return QUICK_PART if self.report.quick else 1

    def table(self, *columns: str) -> pa.Table:
        """The events as an Arrow table: time, key and these columns."""
        return self.events.table("time", "key", *columns)

    def time(self, name: str, table: pa.Table, queries: list[hw.Query]) -> Timed:
        """The best time of these queries over the whole table."""
        timed = best_of(lambda: rows_of(table, queries))
        self.show(name, timed)
        return timed

    def show(self, name: str, timed: Timed) -> None:
        """Say how long it took, and put the number of rows beside the figures."""
        self.report.say(f"  {name}: {timed.seconds:.3f} s")
        self.report.add(f"{name}_rows", timed.rows, "rows")

    def add_scan_ratio(self, name: str, timed: Timed, bound: float = 0.08, column: str = "value") -> None:
        """The time NumPy needs to sum the three columns / the time of the engine."""
        note = f"{self.events.events / timed.seconds / 1e6:.0f} M events/s"
        self.report.add(name, self.scan_seconds[column] / timed.seconds, "ratio", at_least(bound), note)


def run(report: Report) -> None:
    """Measure all figures of the engine into ``report``, those of the engine alone first."""
    bench = EngineBench(report, workload(EVENTS_FULL // (QUICK_PART if report.quick else 1)))
    report.say(f"generating {bench.events.events:,} events")
    bench.table("value", "reading", "marker")
    alone = (scans, many_queries, odd_edges, quantiles, context_windows, disorder, million_keys, partials)
    with one_core():
        report.ask((*alone, registered, peers_one, peers_hundred, memory), bench)


def rows_of(table: pa.Table, queries: list[hw.Query]) -> int:
    """Run the queries and count the rows of the finished result table."""
    return int(hw.run(table, queries, time="time", unit="us").table.num_rows)


@contextmanager
def one_core() -> Iterator[None]:
    """Hold Arrow's thread pool to one thread; everything else in the engine runs on the caller's."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)


def scans(bench: EngineBench) -> None:
    """One query against merely reading the columns."""
    events = bench.events
    for column, values in (("value", events.values), ("reading", events.readings)):
        bench.scan_seconds[column] = best_of(partial(summed, events.times, events.keys, values)).seconds
        bench.report.say(f"  np.sum of time, key and {column}: {bench.scan_seconds[column]:.4f} s")
    floats = bench.time("scan_float", bench.table("value"), [scan_query("value")])
    bench.add_scan_ratio("scan_ratio_float", floats, 0.12)
    bench.report.add("cores_used", floats.cpu_seconds / floats.seconds, "cores", at_most(1.05), "processor / wall time")
    ints = bench.time("scan_int", bench.table("reading"), [scan_query("reading")])
    bench.add_scan_ratio("scan_ratio_int", ints, 0.35, "reading")
    bench.one = bench.time("one_query", bench.table("value"), [one_query()])
    bench.report.add("one_query_rate", events.events / bench.one.seconds / 1e6, "M events/s")


def summed(*columns: NDArray[Any]) -> int:
    """Read every column once, as cheaply as NumPy can; returns how many there were."""
    return len([column.sum() for column in columns])


def many_queries(bench: EngineBench) -> None:
    """A thousand and ten thousand different queries against what one query and their rows may cost."""
    table = bench.table("value")
    for count, slide_min, factor, rows_per_second in ((1_000, 1, 1.25, 20e6), (10_000, 10, 2.0, 10e6)):
        timed = bench.time(f"queries_{count}", table, named(many(count, slide_min)))
        allowed = factor * bench.one.seconds + timed.rows / rows_per_second
        note = f"{timed.seconds:.2f} s of {allowed:.2f} s allowed"
        bench.report.add(f"queries_{count}_cost", timed.seconds / allowed, "ratio", at_most(1.0), note)


def odd_edges(bench: EngineBench) -> None:
    """A hundred tumbling queries whose edges hardly ever meet: lengths are primes."""
    queries = [one_query(hw.tumbling(f"{length} ms"), f"prime{length}") for length in primes(1009, 100)]
    timed = bench.time("odd_edges", bench.table("value"), queries)
    bench.report.add("odd_edges_ratio", bench.one.seconds / timed.seconds, "ratio", at_least(0.3))


def quantiles(bench: EngineBench) -> None:
    """A thousand quantiles of each window and key against sorting each window and key once."""
    aggregates: dict[str, Any] = {f"q{i}": hw.quantile("value", i / 1001) for i in range(1, 1001)}
    query = hw.query("quantiles", hw.tumbling("1 s"), keys=["key"], **aggregates)
    timed = bench.time("quantiles_1000", bench.table("value"), [query])
    groups = grouped(bench.events)
    sorting = best_of(lambda: len([np.sort(group) for group in groups]))
    note = f"np.sort of {sorting.rows:,} groups that are grouped already: {sorting.seconds:.2f} s"
    bench.report.add("quantiles_1000_sort_ratio", sorting.seconds / timed.seconds, "ratio", at_least(0.5), note)
    selecting = best_of(lambda: select_and_sort(bench.events), repeats=1)
    note = f"np.sort when NumPy must find each group first: {selecting.seconds:.2f} s"
    bench.report.add("quantiles_1000_select_sort_ratio", selecting.seconds / timed.seconds, "ratio", None, note)


def grouped(events: EventColumns) -> list[Float64Array]:
    """The values of each second and key, in the order of the slices.

    >>> [len(group) for group in grouped(EventColumns(20_000))][:3]
    [941, 969, 1001]
    """
    group = events.times // SECOND * KEY_COUNT + events.keys
    order = np.argsort(group, kind="stable")
    return np.split(events.values[order], np.searchsorted(group[order], np.unique(group[order])[1:]))


def select_and_sort(events: EventColumns) -> int:
    """Sort the values of each second and key as a NumPy user would, from the columns; returns the number of groups."""
    count = 0
    edges = np.searchsorted(events.times, np.arange(events.seconds + 1) * SECOND)
    for first, last in pairwise(edges.tolist()):
        keys, values = events.keys[first:last], events.values[first:last]
        count += len([np.sort(values[keys == key]) for key in range(KEY_COUNT)])
    return count


def context_windows(bench: EngineBench) -> None:
    """Windows whose ends the events decide."""
    start, end = hw.col("marker") == START, hw.col("marker") == END
    table = bench.table("value", "marker")
    for name, window in (
        ("sessions", hw.session("8 ms")),
        ("punctuated", hw.punctuated(start)),
        ("between", hw.between(start, end)),
        ("count", hw.count_tumbling(1_000_000)),
    ):
        bench.add_scan_ratio(f"{name}_scan_ratio", bench.time(name, table, [scan_query("value", window)]))


def disorder(bench: EngineBench) -> None:
    """Events up to a second late, pushed live in batches."""
    for percent in (1, 10):
        order = bench.events.disordered(percent / 100)
        table = bench.table("value").take(pa.array(order))
        batches = table.combine_chunks().to_batches(max_chunksize=LIVE_BATCH_EVENTS)
        timed = best_of(partial(rows_live, batches))
        bench.show(f"disorder_{percent}pct", timed)
        bench.add_scan_ratio(f"disorder_{percent}pct_scan_ratio", timed)


def rows_live(batches: list[pa.RecordBatch]) -> int:
    """Push the batches one by one into an engine that expects a second of disorder, and count all result rows."""
    engine = hw.Engine([scan_query("value")], time="time", unit="us", disorder=SECOND)
    rows = 0
    for batch in batches:
        engine.push(batch)
        rows += engine.results().num_rows
    engine.flush()
    return rows + int(engine.results().num_rows)


def million_keys(bench: EngineBench) -> None:
    """A million keys: most of a slice's rows hold one event or two."""
    table = bench.table("value").set_column(1, "key", pa.array(bench.events.million_keys()))
    timed = bench.time("keys_million", table, [scan_query("value", hw.tumbling("100 s"))])
    bench.report.add("keys_million_rate", bench.events.events / timed.seconds / 1e6, "M events/s", at_least(5))


def partials(bench: EngineBench) -> None:
    """The bytes of an exact sum and its count, as they will travel."""
    rows, values_per_row = 1_000, 1_000
    events = rows * values_per_row
    values = Values(bench.events.values[:events], None, pa.float64())
    numbers = np.arange(events, dtype=np.int64)
    chunk = Chunk(bench.events.times[:events], numbers, np.zeros(events, np.int32), ["a"], {"value": values})
    lifted = lift([Op("sum", "value"), Op("count")], chunk, (numbers // values_per_row).astype(np.int32), rows)
    size = sum(len(column.to_bytes()) for column in lifted.values()) / rows
    note = "sum and count, header included, mean over 1,000 partials of 1,000 values"
    bench.report.add("sum_partial_bytes", size, "bytes", at_most(24), note)


def registered(bench: EngineBench) -> None:
    """A million queries: how long they take to register, and what they hold."""
    measured = children.in_child("common.children", "registration", 1_000_000 // bench.part)
    note = "described, registered and past their first events"
    bench.report.add("queries_million_register_s", measured["seconds"], "s", at_most(60), note)
    bench.report.add("queries_million_gb", measured["gigabytes"], "GB", at_most(4), "the whole process")


def peers_one(bench: EngineBench) -> None:
    """The one-query case, everyone on one thread."""
    for peer in peers.PEERS:
        timed = peers.measure(peer, "one", bench.events.events, threads=1, repeats=3)
        check_rows(peer, timed, bench.one)
        bench.report.add(
            f"{peer}_ratio", timed.seconds / bench.one.seconds, "ratio", at_least(1.5), f"{timed.seconds:.3f} s"
        )


def peers_hundred(bench: EngineBench) -> None:
    """A hundred queries: headwater on one core, the peers on two, one group-by per query; and sliced by hand.

    Everyone gets the same quarter of the events, once: on all of them the peers would need more time than all else.
    """
    events = EventColumns(bench.events.events // HUNDRED_PART)
    table = events.table("time", "key", "value")
    ours = bench.time("queries_100", table, named(many(100)))
    for peer in peers.PEERS:
        for case, name, bound in (("many", "", at_least(20)), ("sliced", "_sliced", None)):
            timed = peers.measure(peer, case, events.events, threads=2)
            bench.report.say(f"  {peer}, {case}: {timed.seconds:.2f} s")
            check_rows(peer, timed, ours)
            note = f"{timed.seconds:.2f} s against {ours.seconds:.2f} s, {events.events:,} events"
            bench.report.add(f"{peer}_ratio_100{name}", timed.seconds / ours.seconds, "ratio", bound, note)


def check_rows(peer: str, timed: Timed, ours: Timed) -> None:
    """Refuse a comparison in which both did not answer the same question."""
    if timed.rows != ours.rows:
        raise RuntimeError(
            f"{peer} produced {timed.rows:,} rows, headwater {ours.rows:,}: they did not answer the same queries"
        )


def memory(bench: EngineBench) -> None:
    """An endless stream must not fill the memory."""
    first, last = 50_000_000 // bench.part, 500_000_000 // bench.part
    measured = children.in_child("common.children", "growth", first, last)
    note = f"{measured['first_gb']:.2f} GB after {first:,} events, {measured['last_gb']:.2f} GB after {last:,}"
    bench.report.add("memory_growth_rows", measured["rows"], "rows")
    bench.report.add("memory_growth", measured["last_gb"] / measured["first_gb"], "ratio", at_most(1.1), note)
