"""Sinks: where result rows go. A sink gets each batch at least once, and knows by its number whether it has it already.

Folders, segment logs and memory hold each row exactly once, whatever is run again. Console and callables see a batch again after
a crash, with the same number. Kafka is in `kafka_sink`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.places import is_format_name, is_table_name, local_path
from headwater.logs import Log, files

#: Rows of one batch that a console shows.
ROWS_SHOWN = 20
#: Where else rows can go.
_ELSEWHERE = (
    "give a folder that this machine sees as files, a function of (rows, batch), KafkaSink(...), or take "
    "hw.aggregate(...).writeStream, which writes wherever Spark does"
)


class Sink(Protocol):
    """Takes the rows of one batch; ``batch`` numbers go up, and the last may be given again."""

    def write(self, batch: int, rows: pa.Table) -> None: ...
    def close(self) -> None:
        """Nothing is open between batches, unless a sink says otherwise."""
        return


class FolderSink(Sink):
    """A Parquet file for each batch that has rows: ``batch-000000000007.parquet``. Written at once or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = local_path("sink", path, _ELSEWHERE).absolute()
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, batch: int, rows: pa.Table) -> None:
        from pyarrow import parquet

        if not len(rows):
            return
        target = pa.BufferOutputStream()
        parquet.write_table(rows, target)
        files.replace(self.path / f"batch-{batch:012d}.parquet", target.getvalue().to_pybytes())
        files.sync_directory(self.path)


class LogSink(Sink):
    """A segment log of one partition. Each row has its batch in the column ``batch``, by which a repeated batch is known."""

    def __init__(self, path: str | Path) -> None:
        self.path = local_path("sink", path, _ELSEWHERE).absolute()
        self._log = Log.create(self.path, partition_count=1)

    def write(self, batch: int, rows: pa.Table) -> None:
        if not len(rows):
            return
        numbered = rows.append_column("batch", pa.array([batch] * len(rows), pa.int64()))
        with self._log.writer(0) as writer:
            at = self._begin_of(batch, writer.end)
            # Rows that are there already are compared and passed over, the rest is appended.
            for part in numbered.combine_chunks().to_batches():
                writer.append(part, at)
                at += len(part)

    def _begin_of(self, batch: int, end: int) -> int:
        """Where the rows of a batch begin: batches go up in the log, and its last rows may be of this one."""
        reader = self._log.reader(0)
        reader.refresh()
        low, high = reader.start, end
        while low < high:
            middle = (low + high) // 2
            (stored,) = reader.read(middle, middle + 1)
            if stored.batch.column("batch")[0].as_py() < batch:
                low = middle + 1
            else:
                high = middle
        return low


class MemorySink(Sink):
    """Rows in this process, for tests and notebooks: ``sink.table()``."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        if len(rows):
            self._batches[batch] = rows

    def table(self) -> pa.Table:
        """All rows so far, batch after batch."""
        tables = [self._batches[batch] for batch in sorted(self._batches)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


class ConsoleSink(Sink):
    """Rows of each batch on standard output, the first of many."""

    def write(self, batch: int, rows: pa.Table) -> None:
        if len(rows):
            more = f" (the first {ROWS_SHOWN})" if len(rows) > ROWS_SHOWN else ""
            print(f"batch {batch}: {len(rows)} rows{more}", file=sys.stdout)
            print(rows.slice(0, ROWS_SHOWN).to_pandas().to_string(index=False), file=sys.stdout, flush=True)


class CallableSink(Sink):
    """Hands each batch to a function of (rows, batch)."""

    def __init__(self, function: Callable[[pa.Table, int], Any]) -> None:
        self._function = function

    def write(self, batch: int, rows: pa.Table) -> None:
        self._function(rows, batch)


def sink_of(given: Any, name: str = "sink") -> Sink:
    """The sink for "memory", "console", a folder, a function of (rows, batch), or a sink itself."""
    if given == "memory":
        return MemorySink()
    if given == "console":
        return ConsoleSink()
    if hasattr(given, "write") and hasattr(given, "close"):
        sink: Sink = given
        return sink
    if isinstance(given, str | Path):
        return FolderSink(_sink_folder(given, name))
    if callable(given):
        return CallableSink(given)
    raise DataError(f"{name} is {given!r}: give a folder, 'memory', 'console', a function of (rows, batch), or a sink")


def _sink_folder(given: str | Path, name: str) -> Path:
    """The folder that is meant: what looks like a table's or a format's name would make one that nobody looks for."""
    if is_table_name(given):
        looks = "this looks like the name of a table, and rows are not written to tables"
    elif is_format_name(given):
        looks = "this is the name of a format, and a folder is written as Parquet"
    else:
        return local_path(name, given, _ELSEWHERE)
    raise DataError(f"{name} is {given!r}: {looks}; {_ELSEWHERE}; if a folder of this name is meant, give './{given}'")
