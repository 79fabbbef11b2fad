"""``headwater bench stream``: windows over streams on Spark by headwater, against Spark's own and against the least there can be.

Two cores, local; the last figure on a cluster of two workers. A sustainable rate is that at which a stream works off what was
written before, behind its first batches: whoever takes so many events a second when they all wait could take them as they come.
`stream_data` writes them, `stream_timing` times streams, `stream_native` is Spark alone, `stream_idle` a stream that does
nothing; latency, many keys and recovery have files of their own.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import headwater as hw
from headwater.bench.common.report import Report, at_most
from headwater.bench.common.timing import StepLog
from headwater.bench.common.workload import SECOND
from headwater.bench.spark.timing import Rate, noop
from headwater.bench.spark.ways import LENGTHS, two
from headwater.bench.stream import native
from headwater.bench.stream.data import FILES_MIN, SOURCES, StreamData
from headwater.bench.stream.keys import million_keys
from headwater.bench.stream.latency import latency
from headwater.bench.stream.recovery import recovery
from headwater.bench.stream.sizes import FULL, QUICK, Sizes
from headwater.bench.stream.timing import StreamBench, batch_seconds, drained
from headwater.spark.session import local_session

CORES = 2
DRIVER_MEMORY = "4g"
#: A backlog is worked off in so many batches; the first is for warming up.
DRAIN_BATCHES = 4
#: To find the better of two slow ways, a part of the events will do.
HUNDRED_TRIAL = 20


def run(
    report: Report, progress: StepLog, questions: Sequence[Question] | None = None, sizes: Sizes | None = None
) -> None:
    """Measure all figures of streams into ``report``."""
    sizes = sizes or (QUICK if report.quick else FULL)
    with TemporaryDirectory(prefix="headwater-bench-") as name:
        folder = Path(name)
        progress.say("starting Spark")
        settings = {"spark.driver.memory": DRIVER_MEMORY, "spark.local.dir": str(folder / "spark")}
        chosen = QUESTIONS if questions is None else questions
        with local_session("headwater bench", master=f"local[{CORES}]", **settings) as spark:
            data = StreamData(folder / "data", sizes.events, sizes.native_events // FILES_MIN)
            bench = StreamBench(report, progress, spark, folder, sizes, data)
            for question in (question for question in chosen if question is not recovery):
                progress.say(question.__name__.replace("_", " "))
                question(bench)
        if recovery in chosen:
            progress.say("recovery")
            recovery(bench)


def trigger_overhead(bench: StreamBench) -> None:
    """A batch of ten queries over a few events, against one that does nothing."""
    from headwater.bench.stream.idle import start_idle

    sizes = bench.sizes
    times: dict[str, list[float]] = {"ours": [], "cheap": [], "default": []}
    queries = [two(hw.tumbling(f"{number} s"), f"every{number}") for number in range(1, 11)]
    limit = {"max_events_per_trigger": sizes.batch_events, "root": "driver"}
    # In turns, so that a slow minute hits all; the first turn only warms Spark up.
    for turn in range(sizes.repeats + 1):
        count = sizes.batches // sizes.repeats if turn else 1
        with bench.streaming(bench.data.log, queries, **limit) as stream:
            found = {"ours": batch_seconds(stream.query, count, sizes.warm_up_batches)}
        for name in ("cheap", "default"):
            idle = start_idle(bench.spark, SOURCES, bench.place(), name == "cheap")
            try:
                found[name] = batch_seconds(idle, count, sizes.warm_up_batches)
            finally:
                idle.stop()
        for name, some in found.items() if turn else ():
            times[name] += some
    ours, cheap, default = (statistics.median(each) for each in times.values())
    note = f"{ours * 1000:.0f} ms, an empty one {cheap * 1000:.0f} ms, with Spark's default settings {default * 1000:.0f} ms"
    bench.progress.say(f"  trigger_overhead: {note}")
    # Against the faster of the two: what headwater sets for its own streams anybody could set for an empty one.
    bench.report.add("trigger_overhead", ours / min(cheap, default), "ratio", at_most(1.4), note)
    bench.report.add("trigger_overhead_default", ours / default, "ratio", note="the empty one as Spark is by default")
    bench.report.add("batch_seconds", ours, "s")


def sliding(bench: StreamBench) -> None:
    """Ten windows for each event, on files."""
    query = two(hw.sliding("10 s", "1 s"))
    check(bench, [query], lambda events: native.windowed(events, "10 seconds", "1 second"))
    ours = Rate("hw.stream", best(bench, lambda: drain_rate(bench, bench.data.files, [query])))
    theirs = native_rate(bench, lambda events: [native.windowed(events, "10 seconds", "1 second")])
    bench.add_ratio("sustainable_vs_spark", 15, ours, theirs)
    bench.report.add("sustainable_rate", ours.events_per_second / 1e6, "M events/s")


def hundred_queries(bench: StreamBench) -> None:
    """A hundred lengths of tumbling windows, on files."""
    lengths = LENGTHS[:: bench.sizes.lengths_step]
    queries = [two(hw.tumbling(f"{length} s"), f"length{length}") for length in lengths]
    ours = Rate(
        f"hw.stream, {len(lengths)} queries,", best(bench, lambda: drain_rate(bench, bench.data.files, queries))
    )
    theirs = native_hundred(bench, lengths)
    bench.add_ratio("sustainable_100_vs_spark", 50, ours, theirs)
    bench.report.add("sustainable_100_rate", ours.events_per_second / 1e6, "M events/s")


def streaming_batch(bench: StreamBench) -> None:
    """One query over a log as a stream, and as a batch job."""
    query = two(hw.tumbling("1 s"))
    log, events = bench.data.log, bench.sizes.events

    def batch_rate() -> float:
        begin = time.perf_counter()
        noop(hw.read(bench.spark, log, [query]))
        return events / (time.perf_counter() - begin)

    batch_rate()  # workers and plans are warm
    streams, batches = zip(*((drain_rate(bench, log, [query]), batch_rate()) for _ in range(bench.sizes.repeats)))
    bench.add_ratio("streaming_batch_ratio", 0.5, Rate("hw.stream", max(streams)), Rate("hw.read", max(batches)))


def drain_rate(bench: StreamBench, source: Path, queries: list[hw.Query]) -> float:
    """Events per second at which headwater works off all of a source, behind its first batch."""
    events = bench.sizes.events
    limit = -(-events // DRAIN_BATCHES)
    with bench.streaming(source, queries, max_events_per_trigger=limit, root="driver") as stream:
        return drained(lambda: stream.is_active, lambda: int(stream.progress.get("events", 0)), events, limit)


def best(bench: StreamBench, rate: Callable[[], float]) -> float:
    return max(rate() for _ in range(bench.sizes.repeats))


# Spark alone


def native_rate(bench: StreamBench, frames: Frames) -> Rate:
    """Of the faster store, each tried on a quarter of the events, then on all of them."""
    events = bench.sizes.native_events
    rates = {}
    for store in native.STORES:
        rates[store] = native_drain(bench, bench.data, store, frames, events // 4)
        bench.progress.say(f"  {store}: {rates[store] / 1e6:.3g} M/s on {events // 4:,} events")
    store = max(rates, key=lambda each: rates[each])
    # The best it was seen at, as for ours.
    return Rate(f"Spark with {store}", max(rates[store], native_drain(bench, bench.data, store, frames, events)))


def native_drain(bench: StreamBench, data: StreamData, store: str, frames: Frames, events: int) -> float:
    """Events per second at which Spark works off the first files, behind its first batch."""
    folder = data.some_files(events)
    count = len(list(folder.glob("*/*.parquet")))
    files_per_batch = max(SOURCES, count // DRAIN_BATCHES)
    spark = native.session(bench.spark, store, CORES)
    batch_events = files_per_batch * data.file_events
    batches = -(-count // files_per_batch)
    asked = frames(native.files(spark, folder, files_per_batch))
    return native.rate(bench, asked, batches * batch_events, batch_events)


def native_hundred(bench: StreamBench, lengths: Sequence[int]) -> Rate:
    """The faster of one query and of a hundred, as tried on a few events; then on as many as make its fixed costs small."""
    events = bench.sizes.hundred_events
    forms: dict[str, Frames] = {
        "a union": lambda read: [native.union(read, lengths)],
        "a query each": lambda read: [native.windowed(read, f"{length} seconds") for length in lengths],
    }
    rates = {}
    for name, form in forms.items():
        rates[name] = hundred_drain(bench, form, events // HUNDRED_TRIAL)
        bench.progress.say(f"  {name}: {rates[name] / 1e6:.3g} M/s on {events // HUNDRED_TRIAL:,} events")
    name = max(rates, key=lambda each: rates[each])
    return Rate(f"Spark by {name}", max(rates[name], hundred_drain(bench, forms[name], events)))


def hundred_drain(bench: StreamBench, form: Frames, events: int) -> float:
    """In two batches, one to warm up: each takes long, however few events it has."""
    data = StreamData(bench.place(), events, events // (2 * SOURCES))
    return native_drain(bench, data, "HDFS-backed store", form, events)


def check(bench: StreamBench, queries: list[hw.Query], frame: Callable[[Any], Any]) -> None:
    """Both give the same rows for a few events, as far as both have closed the windows; else nothing is compared."""
    folder = bench.data.some_files(1)
    last = bench.data.file_events // 1000 * SECOND
    spark = native.session(bench.spark, "HDFS-backed store", CORES)
    theirs = {
        (epoch(row["window"]["start"]), row["key"]): (row["event_count"], row["answer"])
        for row in native.rows(bench, frame(native.files(spark, folder, SOURCES)))
    }
    with bench.streaming(folder, queries, sink="memory", trigger="available now") as stream:
        stream.await_end()
        found = stream.sink.table()
    columns = [found[name].to_pylist() for name in ("window_start", "key", "event_count", "answer")]
    ours = {(int_time(start), key): (count, answer) for start, key, count, answer in zip(*columns)}
    common = ours.keys() & theirs.keys()
    missing = [start for start, _ in ours.keys() ^ theirs.keys() if start < last - 20 * SECOND]
    is_same = all(ours[k][0] == theirs[k][0] and math.isclose(ours[k][1], theirs[k][1], rel_tol=1e-9) for k in common)
    if missing or not is_same or not common:
        raise RuntimeError(f"hw.stream and Spark differ in windows that begin at {sorted(missing)[:5]}, or in values")


def epoch(moment: datetime) -> int:
    """Microseconds; Spark gives times of the session's zone, which is UTC, without one."""
    return round(moment.replace(tzinfo=UTC).timestamp() * SECOND)


def int_time(moment: Any) -> int:
    return moment if isinstance(moment, int) else epoch(moment)


#: What is asked of Spark, given the events as a streaming DataFrame.
Frames = Callable[[Any], list[Any]]
Question = Callable[[StreamBench], None]
QUESTIONS: tuple[Question, ...] = (
    trigger_overhead,
    latency,
    sliding,
    hundred_queries,
    streaming_batch,
    million_keys,
    recovery,
)
