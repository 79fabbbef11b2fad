"""What a batch costs when the state has a million keys, which reducers share; and whether that grows from batch to batch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.base.arrays import Int64Array
from headwater.bench.common.workload import SEED
from headwater.bench.spark.ways import two
from headwater.bench.stream.data import RECORD_EVENTS, SOURCES
from headwater.bench.stream.timing import StreamBench, batch_seconds
from headwater.logs import Log


def million_keys(bench: StreamBench) -> None:
    """One long window: all keys stay open from the first batch to the last."""
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
    note = (
        f"{len(times)} batches of {sizes.key_batch_events:,} events, at most {max(times):.2f} s, "
        f"{state / 1e6:.0f} MB of state"
    )
    bench.progress.say(f"  million_keys_batch_s: {statistics.median(times):.2f} s; {note}, growth {growth:.2f}")
    bench.report.add("million_keys_batch_s", statistics.median(times), "s", note=note)
    bench.report.add("million_keys_growth", growth, "ratio", note="the last third of the batches / the first")


def random_keys(source: int, keys: int, events: int) -> Int64Array:
    """Of one source's share of the events."""
    return np.random.default_rng([SEED, source]).integers(0, keys, events // SOURCES, dtype=np.int64)


def append(log: Log, keys: Sequence[Int64Array]) -> None:
    """Events of these keys, for each partition; times go on from where they were."""
    for source, own in enumerate(keys):
        with log.writer(source, fsync="never") as writer:
            times = np.arange(writer.end, writer.end + len(own), dtype=np.int64)
            events = pa.table({"time": times, "key": own, "value": times * 0.5})
            for part in events.to_batches(max_chunksize=RECORD_EVENTS):
                writer.append(part, arrival=0)
