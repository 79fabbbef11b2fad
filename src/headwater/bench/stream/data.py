"""What the stream benchmark drains: the same events as files of two folders and as a log of two partitions.

In each of the two, an event every millisecond, of ten keys, with values as in the other benchmarks. The files of a folder
follow each other in time, as if they had come one after the other, and are as old as that: Spark reads the oldest first. They are
written as pyarrow does by default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.bench.load.schedule import Content
from headwater.logs import Log

SOURCES = 2
MILLISECOND = 1_000
#: The fewest files on which a peer runs: a few batches of a few files of each source.
FILES_MIN = 32
RECORD_EVENTS = 1 << 16


@dataclass(frozen=True)
class StreamData:
    """The files and the log of one run, below a folder that the caller deletes; written when first asked for."""

    folder: Path
    events: int
    #: Of one file.
    file_events: int

    @property
    def _source_events(self) -> int:
        return self.events // SOURCES

    @cached_property
    def files(self) -> Path:
        """A folder of two folders of Parquet files, of equal times and sizes."""
        import pyarrow.parquet as pq

        for number, first in enumerate(range(0, self._source_events, self.file_events)):
            stop = min(first + self.file_events, self._source_events)
            for source in range(SOURCES):
                path = self.folder / "files" / f"source-{source}" / f"{number:05d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.Table.from_batches([batch(source, first, stop)]), path)
                os.utime(path, (number, number))
        return self.folder / "files"

    def some_files(self, events: int) -> Path:
        """The first files of both folders, together with at least ``events`` events, under names of their own."""
        place = self.folder / f"some-{events}"
        if not place.exists():
            for path in sorted(self.files.glob("*/*.parquet")):
                if int(path.stem) * self.file_events * SOURCES < events:
                    (place / path.parent.name).mkdir(parents=True, exist_ok=True)
                    os.link(path, place / path.parent.name / path.name)
        return place

    @cached_property
    def log(self) -> Path:
        """A log of two partitions."""
        log = Log.create(self.folder / "log", partition_count=SOURCES, time="time")
        for source in range(SOURCES):
            with log.writer(source, fsync="never") as writer:
                for first in range(0, self._source_events, RECORD_EVENTS):
                    some = batch(source, first, min(first + RECORD_EVENTS, self._source_events), is_log=True)
                    writer.append(some, arrival_ns=0)
        return self.folder / "log"


def batch(source: int, first: int, stop: int, is_log: bool = False) -> pa.RecordBatch:
    """Events ``[first, stop)`` of a source: in files with times that Spark knows as such, in a log with microseconds.

    >>> batch(0, 3, 5)["time"].cast("int64").to_pylist(), batch(1, 0, 2, is_log=True).schema.types[0]
    ([3000, 4000], DataType(int64))
    """
    times = pa.array(np.arange(first, stop, dtype=np.int64) * MILLISECOND)
    times = times if is_log else times.cast(pa.timestamp("us", tz="UTC"))
    return pa.record_batch([times, *_CONTENTS[source].columns(first, stop)], ["time", "key", "value"])


_CONTENTS = [Content(seed=7 + source) for source in range(SOURCES)]
