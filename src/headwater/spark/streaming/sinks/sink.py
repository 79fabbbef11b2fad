"""What a sink is, and those that keep nothing on disk: memory, the console, a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from headwater.spark.streaming.sinks.timeline import Claimant

#: Rows of one batch that a console shows.
ROWS_SHOWN = 20
#: Where else rows can go.
ELSEWHERE = (
    "give a folder that this machine sees as files, a function of (rows, batch), KafkaSink(...), hw.postgres(...), "
    "hw.to_table(...), or hw.foreach_batch(...), which writes wherever Spark does"
)


class Sink(Protocol):
    """Takes the rows of one batch; ``batch`` numbers go up, and the last may be given again."""

    def open(self, stream: Claimant) -> None:
        """Called before the first batch: whose rows it gets. What cannot be written to is refused here."""
        return

    def write(self, batch: int, rows: pa.Table) -> None: ...
    def close(self) -> None:
        """Nothing is open between batches, unless a sink says otherwise."""
        return


@runtime_checkable
class GatheringSink(Protocol):
    """A sink that may let rows wait."""

    def write_at(self, batch: int, rows: pa.Table, planned_ns: int) -> int | None:
        """Write the rows of a batch that was planned then, or let them wait; when those that wait are due, None if none do."""


def write_to(sink: Sink, batch: int, rows: pa.Table, planned_ns: int) -> int | None:
    """Give a sink the rows of a batch; when the next batch is due for it, if rows wait there."""
    if isinstance(sink, GatheringSink):
        return sink.write_at(batch, rows, planned_ns)
    sink.write(batch, rows)
    return None


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
