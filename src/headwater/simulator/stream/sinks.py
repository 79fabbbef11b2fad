"""The sinks of a simulated stream: real ones, behind a witness that knows what each batch gave and what is left of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from headwater.logs import Log
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.stream.driver import Driver
from headwater.simulator.stream.loop import DurableSink
from headwater.spark.streaming.sinks import FolderSink, LogSink
from headwater.spark.streaming.sinks.gathered import Gathering
from headwater.spark.streaming.sinks.log import _OPEN, BATCH

#: Where rows can go. What is called memory outlives drivers, as a database would that a function writes to.
KINDS = ("memory", "folder", "gathering", "log")
_NAME = re.compile(r"batch-(\d+)(?:-(\d+))?\.parquet")
#: For how long a folder gathers.
WAITS = ("2 s", "20 s", "1 h")


class SinkPlace:
    """Where rows go in all lives of a stream: which kind of sink, and the folder."""

    def __init__(self, kind: str, path: Path, every: str) -> None:
        self.kind, self.path, self._every = kind, path, every
        self.witness = DurableSink()

    def open(self) -> Any:
        """A sink for one life; None: the witness is all there is."""
        if self.kind == "memory":
            return None
        if self.kind == "log":
            return LogSink(self.path)
        return FolderSink(self.path, every=self._every if self.kind == "gathering" else None)

    def last(self) -> int:
        """The last batch that has rows here."""
        return max(self.rows(), default=-1)

    def check(self, until: int) -> None:
        """Check that every row of the batches before ``until`` is here, once and in order, and nothing else."""
        if self.kind == "memory":
            return
        found = self.rows()
        given = {batch: texts(rows) for batch, rows in self.witness.batches.items() if batch < until and len(rows)}
        for batch in sorted(found.keys() | given.keys()):
            if found.get(batch) != given.get(batch):
                there, wanted = len(found.get(batch, ())), len(given.get(batch, ()))
                raise ViolationError(
                    f"{self.path.name}, a sink of kind {self.kind}, has {there} rows of batch {batch}, other than the {wanted}"
                    " that were written"
                )

    def rows(self) -> dict[int, list[str]]:
        """What a reader finds, by batch."""
        if self.kind == "memory" or not self.path.exists():
            return {}
        found: dict[int, list[str]] = {}
        for batch, table in self._log_rows() if self.kind == "log" else self._file_rows():
            found.setdefault(batch, []).extend(texts(table))
        return found

    def _file_rows(self) -> list[tuple[int, pa.Table]]:
        tables = []
        for name in sorted(os.listdir(self.path)):
            if (match := _NAME.fullmatch(name)) is None:
                continue
            table = parquet.ParquetFile(self.path / name).read()
            counts = [[int(match[1]), len(table)]]
            if match[2]:
                counts = json.loads(table.schema.metadata[b"headwater.batches"])
            for batch, count in counts:
                tables.append((batch, table.slice(0, count)))
                table = table.slice(count)
        return tables

    def _log_rows(self) -> list[tuple[int, pa.Table]]:
        if not (self.path / "log.json").exists():
            return []
        tables = []
        for stored in Log.open(self.path).reader(0).read():
            table = pa.Table.from_batches([stored.batch])
            for batch in table[BATCH].unique().to_pylist():
                mask = pa.compute.equal(table[BATCH], batch)
                tables.append((batch, table.filter(mask).drop_columns([BATCH])))
        return tables


def texts(table: pa.Table) -> list[str]:
    """Rows such that they can be compared; values that are no numbers are like themselves."""
    return [repr(row) for row in table.to_pylist()]


class WitnessedSink:
    """A sink in one life: its witness is told first. ``trouble``: what goes wrong before a write, and after it."""

    def __init__(self, place: SinkPlace, driver: Driver, name: str, trouble: Callable[[str, str], None]) -> None:
        self._place, self._driver, self._name, self._trouble = place, driver, name, trouble
        self.inner = place.open()
        self.path = getattr(self.inner, "path", None)

    def open(self, stream: Any) -> None:
        if self.inner is not None:
            self.inner.open(stream)

    @property
    def _is_folder(self) -> bool:
        return isinstance(self.inner, FolderSink)

    def write(self, batch: int, rows: pa.Table) -> None:
        self.write_after(None, batch, rows, 0)

    def write_after(self, said: Gathering | None, batch: int, rows: pa.Table, planned_ns: int) -> Gathering | None:
        """As a folder that may gather."""
        self._place.witness.write(batch, rows)
        self._trouble(self._name, "before")
        after: Gathering | None = None
        if self._is_folder:
            after = self.inner.write_after(said, batch, rows, planned_ns)
        elif self.inner is not None:
            self.inner.write(batch, rows)
        self._trouble(self._name, "after")
        self._driver.reached(self._name)
        return after

    def put_out(self, said: Gathering | None) -> None:
        if self._is_folder:
            self.inner.put_out(said)

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()

    def abandon(self) -> bool:
        """Its process is dead: nobody closes it any more. Returns whether it may have a log open, which the kernel closes."""
        if not isinstance(self.inner, LogSink):
            return False
        holder = _OPEN.get(self.inner.path)
        self.inner._writer = None
        if holder is self.inner:
            del _OPEN[self.inner.path]
        return holder is None or holder is self.inner or holder._writer is None
