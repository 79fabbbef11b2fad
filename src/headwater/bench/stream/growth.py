"""What a stream keeps after many batches, in the loop without Spark: planner, leaf, root and checkpoint in one process.

Small files come, each a source of its own, and are removed a while after they were read. What the stream keeps is to be bounded
by what is open, so that the last tenth of the batches looks like the second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import pyarrow as pa

import headwater as hw
from headwater.bench.common.report import at_most
from headwater.bench.stream.timing import StreamBench

SCHEMA = pa.schema([("time", pa.int64()), ("key", pa.string())])
EVENTS = 5
#: Files that stay behind the newest one.
FILES_KEPT = 30
#: Sizes on disk are looked at this often, in batches.
LOOK_EVERY = 10
GROWTH_MAX = 1.1


class Sample(NamedTuple):
    """One batch; bytes of the checkpoint as they were last looked at."""

    seconds: float
    offset_bytes: int
    memory_bytes: int
    checkpoint_bytes: int


def growth(bench: StreamBench) -> None:
    """How much more the last tenth of many small batches needs than the second."""
    batches = bench.sizes.growth_batches
    samples = list(sampled(bench.place(), batches))
    means: dict[str, Callable[[Sequence[float]], float]] = {"seconds": median}
    for name in Sample._fields:
        second, last = tenths([getattr(sample, name) for sample in samples], means.get(name, fmean))
        note = f"{second:,.4g} in the second tenth of {batches:,} batches, {last:,.4g} in the last"
        bench.report.add(f"growth_{name}", last / second, "ratio", at_most(GROWTH_MAX), note)


def tenths(values: Sequence[float], mean: Callable[[Sequence[float]], float]) -> tuple[float, float]:
    """The means of the second and of the last tenth.

    >>> tenths(range(100), fmean)
    (14.5, 94.5)
    """
    size = len(values) // 10
    return mean(values[size : 2 * size]), mean(values[-size:])


def sampled(place: Path, batches: int) -> Iterator[Sample]:
    """Run a stream for so many batches."""
    import psutil

    process, checkpoint_bytes = psutil.Process(), 0
    for number, (seconds, offset) in enumerate(_batches(place, batches)):
        if number % LOOK_EVERY == 0:
            checkpoint_bytes = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        yield Sample(seconds, len(json.dumps(offset)), process.memory_info().rss, checkpoint_bytes)


def _batches(place: Path, batches: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """The seconds and the offset of each batch."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from headwater.spark.stream import begin
    from headwater.spark.streaming.checkpoint import StreamCheckpoint
    from headwater.spark.streaming.inputs.folder import FolderInput
    from headwater.spark.streaming.runner import BatchRunner
    from headwater.spark.streaming.source import StreamReader

    folder = place / "in"
    folder.mkdir(parents=True)
    checkpoint = StreamCheckpoint(place / "headwater")
    opened = FolderInput(folder, place / "seen", sources="file", schema=SCHEMA)
    settings = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": 10**9}
    query = hw.query("load", hw.tumbling(100), keys=["key"], n=hw.count())
    begin(checkpoint, opened, [query], settings, 2)
    reader, runner = StreamReader(str(checkpoint.path), None), BatchRunner(checkpoint, _Nowhere())
    start, done = reader.initialOffset(), 0
    for file in count():
        _write(folder, file)
        while True:
            began = time.perf_counter()
            end = reader.latestOffset(start, ReadAllAvailable())
            if end == start:
                break
            frames = [each for part in reader.partitions(start, end) for each in reader.read(part)]
            runner(_Frames(pa.Table.from_batches(frames)), done)  # type: ignore[arg-type]
            yield time.perf_counter() - began, end
            start, done = end, done + 1
            if done == batches:
                return


def _write(folder: Path, number: int) -> None:
    """A file of a few events behind those of the one before; one that was read long ago goes."""
    lines = "".join(f"{number * EVENTS + event},{'ab'[event % 2]}\n" for event in range(EVENTS))
    (folder / ".next").write_text(f"time,key\n{lines}")
    (folder / ".next").rename(folder / f"{number:09d}.csv")
    (folder / f"{number - FILES_KEPT:09d}.csv").unlink(missing_ok=True)


class _Frames:
    """The DataFrame of a batch, as far as a root on the driver uses it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._table


class _Nowhere:
    def open(self, stream: object) -> None: ...

    def write(self, batch: int, rows: pa.Table) -> None: ...

    def close(self) -> None: ...
