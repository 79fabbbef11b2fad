"""``headwater bench stream``: windows over streams on Spark by headwater, against Spark's own and against the least there can be.

Two cores, local; the last figure on a cluster of two workers. A sustainable rate is that at which a stream works off what was
written before, behind its first batches: a stream that takes this many events a second when they all wait could take them as
they come.
`data.py` writes them, `timing.py` times streams, `native.py` is Spark alone, `idle.py` a stream that does nothing. `growth.py`
asks whether a stream needs more as it gets older, without Spark, and `recovery.py` the last question.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.base.arrays import Int64Array
from headwater.bench.common.report import Rate, Report, at_most
from headwater.bench.common.timing import in_turns
from headwater.bench.common.workload import SECOND, SEED
from headwater.bench.load.driver import now_us, start_load
from headwater.bench.load.judgement import judge
from headwater.bench.load.judgement import latency as latency_of
from headwater.bench.load.schedule import SCHEMA, Schedule
from headwater.bench.spark.timing import CORES, local_spark, noop
from headwater.bench.spark.ways import hundred, two
from headwater.bench.stream import native
from headwater.bench.stream.cluster import wait_for
from headwater.bench.stream.data import FILES_MIN, RECORD_EVENTS, SOURCES, StreamData
from headwater.bench.stream.growth import growth
from headwater.bench.stream.page_reader import reading
from headwater.bench.stream.recovery import recovery
from headwater.bench.stream.sizes import FULL, QUICK
from headwater.bench.stream.timing import StreamBench, batch_seconds, drained, events_done
from headwater.logs import Log

#: The number of batches in which a backlog is worked off; the first is for warming up.
DRAIN_BATCHES = 4
#: To find the better of two slow ways, a part of the events will do.
HUNDRED_TRIAL = 20


def run(report: Report, questions: Sequence[Question] | None = None) -> None:
    """Measure all figures of streams into ``report``."""
    sizes = QUICK if report.quick else FULL
    chosen = QUESTIONS if questions is None else questions
    with local_spark(report) as (spark, folder):
        data = StreamData(folder / "data", sizes.events, sizes.native_events // FILES_MIN)
        bench = StreamBench(report, spark, folder, sizes, data)
        report.ask([question for question in chosen if question is not recovery], bench)
    # It has a cluster of its own.
    report.ask([question for question in chosen if question is recovery], bench)


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
    # Against the faster of the two: what headwater sets for its own streams can be set for an empty one too.
    bench.report.add("trigger_overhead", ours / min(cheap, default), "ratio", at_most(1.4), note)
    bench.report.add("trigger_overhead_default", ours / default, "ratio", note="the empty one as Spark is by default")
    bench.report.add("batch_seconds", ours, "s")


def sliding(bench: StreamBench) -> None:
    """Ten windows for each event, on files."""
    query = two(hw.sliding("10 s", "1 s"))
    check(bench, [query], lambda events: native.windowed(events, "10 seconds", "1 second"))
    ours = Rate("hw.stream", best(bench, lambda: drain_rate(bench, bench.data.files, [query])))
    theirs = native_rate(bench, lambda events: [native.windowed(events, "10 seconds", "1 second")])
    bench.report.add_ratio("sustainable_vs_spark", 15, ours, theirs)
    bench.report.add_rate("sustainable_rate", ours)


def hundred_queries(bench: StreamBench) -> None:
    """A hundred lengths of tumbling windows, on files."""
    lengths = bench.sizes.lengths
    rate = best(bench, lambda: drain_rate(bench, bench.data.files, hundred(lengths)))
    ours = Rate(f"hw.stream, {len(lengths)} queries,", rate)
    bench.report.add_ratio("sustainable_100_vs_spark", 50, ours, native_hundred(bench, lengths))
    bench.report.add_rate("sustainable_100_rate", ours)


def streaming_batch(bench: StreamBench) -> None:
    """One query over a log as a stream, and as a batch job."""
    query = two(hw.tumbling("1 s"))
    log, events = bench.data.log, bench.sizes.events

    def batch_rate() -> float:
        begin = time.perf_counter()
        noop(hw.read(bench.spark, log, [query]))
        return events / (time.perf_counter() - begin)

    batch_rate()  # workers and plans are warm
    streams, batches = map(max, in_turns([lambda: drain_rate(bench, log, [query]), batch_rate], bench.sizes.repeats))
    bench.report.add_ratio("streaming_batch_ratio", 0.5, Rate("hw.stream", streams), Rate("hw.read", batches))


def latency(bench: StreamBench) -> None:
    """How long after its end a window's row is there, when a million events a second come through the load driver.

    Tumbling windows of a second, by key, without disorder. The load's process, Spark and its workers share two cores: what the
    load itself takes is in the figure.
    """
    sizes, place = bench.sizes, bench.place()
    log = Log.create(place, partition_count=SOURCES, time="time")
    for source in range(SOURCES):
        with log.writer(source) as writer:
            writer.append(pa.RecordBatch.from_pylist([{"time": 0, "key": 0, "value": 0.0}], schema=SCHEMA))
    seen: list[tuple[int, int]] = []

    def see(rows: Any, batch: int) -> None:
        moment = now_us()
        if len(rows):
            seen.extend((end, moment) for end in pa.compute.unique(rows["window_end"]).to_pylist())

    with bench.streaming(place, two(hw.tumbling("1 s")), schema=SCHEMA, sink=see, root="driver") as stream:
        # It runs, and has run once, before the load begins.
        wait_for(lambda: events_done(stream) >= SOURCES or not stream.is_active, "the first batch of a stream")
        with start_load(Schedule(sizes.latency_rate, sizes.latency_seconds), place) as running:
            ran = running.wait(lambda: events_done(stream))
        if not stream.is_active:
            stream.await_end()
    # A row comes some time after its window: what ends in the last moments is not waited for.
    found = latency_of(seen, ran.schedule.window_ends(SECOND, warm_up_s=sizes.latency_warm_up, tail_s=2.0))
    verdict = judge(ran.samples, ran.schedule, warm_up_s=sizes.latency_warm_up)
    note = (
        f"{found.count} windows, {found.missing} missing, at most {found.max_s:.2f} s; {verdict.reason}; "
        f"the load driver itself took {ran.cpu_seconds / sizes.latency_seconds:.2f} cores"
    )
    bench.report.add("latency_p50_s", found.p50_s, "s", at_most(0.6), note)
    bench.report.add("latency_p99_s", found.p99_s, "s", at_most(1.5))


def million_keys(bench: StreamBench) -> None:
    """What a batch costs when reducers share a state of a million keys, and whether that grows from batch to batch.

    In one long window all keys stay open from the first batch to the last.
    """
    sizes, checkpoint = bench.sizes, bench.place()
    log = Log.create(bench.place(), partition_count=SOURCES, time="time")
    query = two(hw.tumbling("100 d"))
    append(log, [np.arange(source, sizes.keys, SOURCES) for source in range(SOURCES)])
    settings = {"checkpoint": checkpoint, "root": "reducers"}
    with bench.streaming(log.path, query, trigger="available now", **settings) as stream:
        stream.await_end()
    append(
        log, [random_keys(source, sizes.keys, sizes.key_batches * sizes.key_batch_events) for source in range(SOURCES)]
    )
    with bench.streaming(log.path, query, max_events_per_trigger=sizes.key_batch_events, **settings) as stream:
        times = batch_seconds(stream.query, sizes.key_batches, 1)
        state = stream.progress["state_bytes"]
    third = max(1, len(times) // 3)
    growth = statistics.median(times[-third:]) / statistics.median(times[:third])
    note = f"{len(times)} batches of {sizes.key_batch_events:,} events, at most {max(times):.2f} s, {state / 1e6:.0f} MB of state"
    bench.report.add("million_keys_batch_s", statistics.median(times), "s", note=note)
    bench.report.add("million_keys_growth", growth, "ratio", note="the last third of the batches / the first")


def random_keys(source: int, keys: int, events: int) -> Int64Array:
    """The keys of one source's share of the events."""
    return np.random.default_rng([SEED, source]).integers(0, keys, events // SOURCES, dtype=np.int64)


def append(log: Log, keys: Sequence[Int64Array]) -> None:
    """Append events of these keys to each partition; times go on from where they were."""
    for source, own in enumerate(keys):
        with log.writer(source, fsync="never") as writer:
            times = np.arange(writer.end, writer.end + len(own), dtype=np.int64)
            events = pa.table({"time": times, "key": own, "value": times * 0.5})
            for part in events.to_batches(max_chunksize=RECORD_EVENTS):
                writer.append(part, arrival_ns=0)


def page_cost(bench: StreamBench) -> None:
    """The rate of a stream whose page somebody reads, another process, against one without a page."""
    query, log = two(hw.tumbling("1 s")), bench.data.log
    ways = [lambda: drain_rate(bench, log, [query], page=0), lambda: drain_rate(bench, log, [query])]
    ways[1]()  # workers and plans are warm
    read, plain = map(max, in_turns(ways, bench.sizes.repeats))
    bench.report.add_ratio("page_cost", 0.98, Rate("with its page open,", read), Rate("without one", plain))


def drain_rate(bench: StreamBench, source: Path, queries: list[hw.Query], **settings: Any) -> float:
    """Events per second at which headwater works off all of a source, behind its first batch; a page is read meanwhile."""
    events = bench.sizes.events
    limit = -(-events // DRAIN_BATCHES)
    asked = {"max_events_per_trigger": limit, "root": "driver", **settings}
    with bench.streaming(source, queries, **asked) as stream, reading(stream.page_url):
        return drained(lambda: stream.is_active, lambda: events_done(stream), events, limit)


def best(bench: StreamBench, rate: Callable[[], float]) -> float:
    return max(rate() for _ in range(bench.sizes.repeats))


# Spark alone


def best_way(bench: StreamBench, ways: Mapping[str, Callable[[int], float]], trial: int, events: int) -> Rate:
    """The rate of the fastest way, each tried on a few events, then that one on all of them.

    What counts is the best it was seen at, as for ours.
    """
    rates = {}
    for name, rate in ways.items():
        rates[name] = rate(trial)
        bench.report.say(f"  {name}: {rates[name] / 1e6:.3g} M/s on {trial:,} events")
    name = max(rates, key=lambda each: rates[each])
    return Rate(f"Spark {name}", max(rates[name], ways[name](events)))


def native_rate(bench: StreamBench, frames: Frames) -> Rate:
    """The rate of Spark with the faster of its state stores."""
    events = bench.sizes.native_events
    ways = {f"with {store}": partial(native_drain, bench, bench.data, store, frames) for store in native.STORES}
    return best_way(bench, ways, events // 4, events)


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
    """The faster of one query and of a hundred, on as many events as make its fixed costs small."""
    events = bench.sizes.hundred_events
    forms: dict[str, Frames] = {
        "by a union": lambda read: [native.union(read, lengths)],
        "by a query each": lambda read: [native.windowed(read, f"{length} seconds") for length in lengths],
    }
    ways = {name: partial(hundred_drain, bench, form) for name, form in forms.items()}
    return best_way(bench, ways, events // HUNDRED_TRIAL, events)


def hundred_drain(bench: StreamBench, form: Frames, events: int) -> float:
    """Events per second of one form of the hundred queries, in two batches, one to warm up: each takes long, however small."""
    data = StreamData(bench.place(), events, events // (2 * SOURCES))
    return native_drain(bench, data, "HDFS-backed store", form, events)


def check(bench: StreamBench, queries: list[hw.Query], frame: Callable[[Any], Any]) -> None:
    """Refuse a comparison unless both give the same rows for a few events, as far as both have closed the windows."""
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
    """A time in microseconds; Spark gives times of the session's zone, which is UTC, without one."""
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
    page_cost,
    million_keys,
    growth,
    recovery,
)
