"""``headwater bench spark``: windows on Spark by headwater, against the best that a user can say in Spark alone.

Two cores, local. Both sides read the same files, answer the same question (checked on a few events first) and leave every row in
the noop sink; what is compared are events per second. `data.py` makes the files, `ways.py` holds both sides of each
question, `timing.py` times them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import get_args

import headwater as hw
from headwater.bench.common.queries import many, named, one_query
from headwater.bench.common.report import Rate, Report, at_least, at_most
from headwater.bench.common.workload import EVENTS_FULL
from headwater.bench.spark import ways
from headwater.bench.spark.crossing import crossing
from headwater.bench.spark.data import EVENT_BYTES, EventFiles, Kind, SparkData
from headwater.bench.spark.decode import Decode, decoders
from headwater.bench.spark.timing import SparkBench, local_spark, noop

QUICK_PART = 10
#: What rows may cost beside the pass over the events, as in the engine's benchmark.
ROWS_PER_SECOND = 20e6
SUM = "sum(value) AS answer"
FOUR = (SUM, "min(value) AS low", "max(value) AS high")


def run(report: Report, questions: Sequence[Question] | None = None) -> None:
    """Measure all figures on Spark into ``report``."""
    with begun(report) as bench:
        report.ask(QUESTIONS if questions is None else questions, bench)


@contextmanager
def begun(report: Report, kinds: Sequence[Kind] = get_args(Kind)) -> Iterator[SparkBench]:
    """A run with its Spark and its files, all or those of some kinds, as long as the block lasts."""
    events = EVENTS_FULL // (QUICK_PART if report.quick else 1)
    with local_spark(report) as (spark, folder):
        report.say(f"writing files of {events:,} events")
        yield SparkBench(report, spark, SparkData(folder / "data", events, kinds))


def tumbling(bench: SparkBench) -> None:
    """One ordinary query, against Spark, against merely decoding the files, and over files that need no decoding."""
    ours, peers = ways.reading(ways.every(ways.four(hw.tumbling("1 s")))), ways.tumbling(*FOUR)
    expected = bench.check([*peers, ours], "float")
    if bench.check([ours], "ipc")[:2] != expected[:2]:
        raise RuntimeError("Arrow IPC files gave other rows than Parquet files of the same events")
    peer, _ = bench.best_peer(peers, "float")
    events, ipc = bench.data.events("float", "tenfold"), bench.data.events("ipc", "tenfold")
    with decoders() as decode:
        decode(bench.data.events("float", "check").files)
        times = bench.best(
            [
                partial(bench.materialize, ours, events),
                partial(bench.materialize, peer, events),
                partial(decoding_seconds, decode, events),
                partial(bench.materialize, ours, ipc),
            ]
        )
    names = ("hw.read", peer.name, "pyarrow", "hw.read of IPC")
    read, native, decoding, mapped = (Rate(name, events.count / seconds) for name, seconds in zip(names, times))
    bench.report.add_ratio("read_tumbling", 2, read, native)
    bench.report.add_ratio("read_decode_ratio", 0.4, read, decoding)
    bench.report.add_ratio("read_ipc_ratio", 1.5, mapped, read)
    for name, rate in {"read_tumbling_rate": read, "read_ipc_rate": mapped, "decode_rate": decoding}.items():
        bench.report.add_rate(name, rate)


def decoding_seconds(decode: Decode, events: EventFiles) -> float:
    """How long merely decoding the files takes."""
    begin = perf_counter()
    decode(events.files)
    return perf_counter() - begin


def sliding(bench: SparkBench) -> None:
    """Ten windows for each event."""
    queries, peers = ways.every(ways.four(hw.sliding("10 s", "1 s"))), ways.sliding(*FOUR)
    bench.compare("read_sliding", 20, ways.reading(queries), peers)
    bench.compare("aggregate_sliding", 7, ways.aggregating(queries), peers, "int")
    bench.compare("aggregate_sliding_native", 7, ways.aggregating(queries, sums="native"), peers)
    # What a user can do by hand, for comparison.
    by_hand = ways.exploded_sliding(*FOUR)
    bench.check([*peers, by_hand], "float")
    bench.report.add_rate("exploded_sliding_rate", bench.best_peer([by_hand], "float")[1])


def hundred_queries(bench: SparkBench) -> None:
    """A hundred tumbling queries, whose slices are shared."""
    queries, peers = ways.every(*ways.hundred(bench.lengths)), ways.hundred_lengths(bench.lengths)
    bench.compare("read_100_queries", 200, ways.reading(queries), peers)
    bench.compare("aggregate_100_queries", 50, ways.aggregating(queries), peers, "int")


def thousand_queries(bench: SparkBench) -> None:
    """A thousand queries against one, and what their rows may cost."""
    one, thousand = ways.reading(ways.every(one_query())), ways.reading(ways.every(*named(many(bench.thousand))))
    events = bench.data.events("float", "all")
    rows = thousand.frame(bench.spark, events).count()
    seconds = bench.best([partial(bench.materialize, way, events) for way in (one, thousand)])
    allowed = seconds[0] + rows / ROWS_PER_SECOND
    note = f"{seconds[1]:.2f} s; one query {seconds[0]:.2f} s, {rows:,} rows {rows / ROWS_PER_SECOND:.2f} s"
    bench.report.add("read_1000_ratio", allowed / seconds[1], "ratio", at_least(0.7), note)
    bench.report.add("read_1000_rows", rows, "rows")


def medians(bench: SparkBench) -> None:
    """The exact median of each second and key."""
    query = hw.query("median", hw.tumbling("1 s"), keys=["key"], answer=hw.median("value"))
    peers = ways.tumbling("percentile(value, 0.5) AS answer")
    bench.compare("read_median", 10, ways.reading(ways.every(query)), peers)


def sessions(bench: SparkBench) -> None:
    """Windows that end where a key falls silent."""
    query = ways.two(hw.session(ways.SESSION_GAP))
    bench.compare("read_sessions", 15, ways.reading(ways.every(query)), ways.sessions())


def count_windows(bench: SparkBench) -> None:
    """A million events of all keys and files per window."""
    sums, own = ways.counted(hw.sum("value")), ways.counted(hw.apply(ways.ENERGY, "value"))
    peers = ways.row_numbers("sum(value)")
    bench.compare("read_count", 10, ways.reading(sums), peers)
    bench.compare("aggregate_count", 1.5, ways.aggregating(sums), peers, "int")
    bench.compare("aggregate_count_python", 0.5, ways.aggregating(own), ways.row_numbers("sum(value * value)"))


def crossing_share(bench: SparkBench) -> None:
    """The bytes that leave the Python workers, are shuffled or reach the driver, against those of the events."""
    ours = ways.reading(ways.every(ways.four(hw.tumbling("10 s"))))
    events = bench.data.events("float", "all")
    crossed = crossing(bench.spark, lambda: noop(ours.frame(bench.spark, events)))
    note = f"bytes: {crossed.python:,} out of Python, {crossed.shuffle:,} shuffled, {crossed.results:,} results"
    bench.report.add("crossing_share", crossed.total / (events.count * EVENT_BYTES), "ratio", at_most(0.01), note)


def mapinarrow_floor(bench: SparkBench) -> None:
    """Aggregating behind `mapInArrow` against merely getting there."""
    ours, floor = ways.aggregating(ways.every(ways.four(hw.tumbling("1 s")))), ways.floor()
    bench.check([*ways.tumbling(*FOUR), ours], "float")
    bench.materialize(floor, bench.data.events("float", "check"))
    rate, least = bench.rates([ours, floor], bench.data.events("float", "all"))
    bench.report.add_ratio("mapinarrow_floor", 0.8, rate, least)
    bench.report.add_rate("mapinarrow_rate", rate)


Question = Callable[[SparkBench], None]
QUESTIONS: tuple[Question, ...] = (
    tumbling,
    sliding,
    hundred_queries,
    thousand_queries,
    medians,
    sessions,
    count_windows,
    crossing_share,
    mapinarrow_floor,
)
