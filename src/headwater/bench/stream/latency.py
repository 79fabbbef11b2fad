"""How long after its end a window's row is there, when a million events a second come through the load driver.

The load's process, Spark and its workers share two cores: what the load itself takes is in the figure.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.bench.common.report import at_most
from headwater.bench.common.workload import SECOND
from headwater.bench.load.driver import LoadRun, now_us, start_load
from headwater.bench.load.judgement import judge
from headwater.bench.load.judgement import latency as latency_of
from headwater.bench.load.schedule import SCHEMA, Schedule
from headwater.bench.spark.ways import two
from headwater.bench.stream.cluster import wait_for
from headwater.bench.stream.data import SOURCES
from headwater.bench.stream.timing import StreamBench
from headwater.logs import Log


def latency(bench: StreamBench) -> None:
    """Tumbling windows of a second, by key, without disorder."""
    sizes, place = bench.sizes, bench.place()
    log = Log.create(place, partition_count=SOURCES, time="time")
    for source in range(SOURCES):
        with log.writer(source) as writer:
            writer.append(pa.RecordBatch.from_pylist([{"time": 0, "key": 0, "value": 0.0}], schema=SCHEMA))
    seen: list[tuple[int, int]] = []

    def note(rows: Any, batch: int) -> None:
        moment = now_us()
        if len(rows):
            seen.extend((end, moment) for end in pa.compute.unique(rows["window_end"]).to_pylist())

    with bench.streaming(place, two(hw.tumbling("1 s")), schema=SCHEMA, sink=note, root="driver") as stream:

        def done() -> int:
            return int(stream.progress.get("events", 0))

        # It runs, and has run once, before the load begins.
        wait_for(lambda: done() >= SOURCES or not stream.is_active, "the first batch of a stream")
        with start_load(Schedule(sizes.latency_rate, sizes.latency_seconds), place) as running:
            ran = running.wait(done)
        if not stream.is_active:
            stream.await_end()
    report(bench, ran, seen)


def report(bench: StreamBench, ran: LoadRun, seen: list[tuple[int, int]]) -> None:
    sizes = bench.sizes
    # A row comes some time after its window: what ends in the last moments is not waited for.
    found = latency_of(seen, ran.schedule.window_ends(SECOND, warm_up_s=sizes.latency_warm_up, tail_s=2.0))
    verdict = judge(ran.samples, ran.schedule, warm_up_s=sizes.latency_warm_up)
    note = (
        f"{found.count} windows, {found.missing} missing, at most {found.max_s:.2f} s; {verdict.reason}; "
        f"the load driver itself took {ran.cpu_seconds / sizes.latency_seconds:.2f} cores"
    )
    bench.progress.say(f"  latency: p50 {found.p50_s:.2f} s, p99 {found.p99_s:.2f} s; {note}")
    bench.report.add("latency_p50_s", found.p50_s, "s", at_most(0.6), note)
    bench.report.add("latency_p99_s", found.p99_s, "s", at_most(1.5))
