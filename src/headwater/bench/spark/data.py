"""The files that the Spark benchmark reads: generated once per run, a pure function of the seed.

Four files of sorted events (time, key, value), one event per millisecond and file, ten keys. ``float`` and ``int`` are Parquet
files, as pyarrow writes them by default, ``ipc`` holds the events of ``float`` as Arrow IPC. A key falls silent for a tenth of
a second every ten seconds, so that there are sessions to find; everything else is drawn uniformly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from headwater.bench.common.workload import EVENTS_FULL, KEY_COUNT, SEED

Kind = Literal["float", "int", "ipc"]
#: ``tenfold`` is ``all`` under ten names per file; ``part`` is for peers that would take too long; ``check`` comes first, to warm
#: up and to compare answers.
Scale = Literal["check", "part", "all", "tenfold"]

FILES = 4
NAMES = 10
MILLISECOND = 1_000
PARTS: dict[Scale, int] = {"check": 100, "part": 10, "all": 1}
#: Time, key and value, eight bytes each.
EVENT_BYTES = 24
IPC_BATCH_EVENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class EventFiles:
    """Files of events, and the number of events in them."""

    count: int
    files: tuple[str, ...]


class SparkData:
    """All files of one run, or those of some kinds, below a folder that the caller deletes."""

    def __init__(self, folder: Path, events: int = EVENTS_FULL, kinds: Sequence[Kind] = get_args(Kind)) -> None:
        self._folder = folder
        self._file_events = events // FILES
        for number in range(FILES):
            self._write(number, kinds)

    def events(self, kind: Kind, scale: Scale) -> EventFiles:
        """The files of one kind, as many events of them as ``scale`` says."""
        if scale == "tenfold":
            count = self._file_events * NAMES
            paths = [self._name(kind, scale, number, name) for number in range(FILES) for name in range(NAMES)]
        else:
            count = self._file_events // PARTS[scale]
            paths = [self._name(kind, scale, number) for number in range(FILES)]
        return EventFiles(count * FILES, tuple(map(str, paths)))

    def _write(self, number: int, kinds: Sequence[Kind]) -> None:
        import pyarrow.parquet as pq

        floats = table(number, self._file_events)
        readings = pa.array(np.rint(floats.column("value").to_numpy() * 1_000).astype(np.int64))
        tables: dict[Kind, pa.Table] = {"float": floats, "int": floats.set_column(2, "value", readings), "ipc": floats}
        for kind in kinds:
            events = tables[kind]
            for scale, part in PARTS.items():
                path = self._name(kind, scale, number)
                path.parent.mkdir(parents=True, exist_ok=True)
                some = events.slice(0, self._file_events // part)
                if kind == "ipc":
                    with pa.ipc.new_file(path, some.schema) as writer:
                        writer.write_table(some, max_chunksize=IPC_BATCH_EVENTS)
                else:
                    pq.write_table(some, path)
            self._link(kind, number)

    def _link(self, kind: Kind, number: int) -> None:
        for name in range(NAMES):
            path = self._name(kind, "tenfold", number, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._name(kind, "all", number), path)

    def _name(self, kind: Kind, scale: Scale, number: int, name: int = 0) -> Path:
        return self._folder / f"{kind}-{scale}" / f"part-{number}-{name}.{'arrow' if kind == 'ipc' else 'parquet'}"


def table(number: int, events: int) -> pa.Table:
    """The events of one file.

    >>> some = table(0, 20_000)
    >>> some.column_names, some["time"][1].as_py(), sorted(set(some["key"].to_pylist()))
    (['time', 'key', 'value'], 1000, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    rng = np.random.default_rng([SEED, number])
    milliseconds = np.arange(events, dtype=np.int64)
    keys = rng.integers(0, KEY_COUNT, events, dtype=np.int64)
    is_silent = keys == milliseconds // 100 % 100
    keys = np.where(is_silent, (keys + 1) % KEY_COUNT, keys)
    values = rng.normal(20.0, 5.0, events)
    return pa.table({"time": milliseconds * MILLISECOND, "key": keys, "value": values})
