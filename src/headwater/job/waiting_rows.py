"""Rows that wait in this process until their file is worth writing: `every` of a folder, where no checkpoint holds them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headwater.spark.streaming.sinks.folder import GATHERED_BYTES_MAX


class WaitingRows:
    """In front of a sink; whoever closes it has all rows in the sink. ``clock``: nanoseconds.

    >>> from headwater.spark.streaming.sinks import MemorySink
    >>> waiting = WaitingRows(sink := MemorySink(), every_ns=10, clock=iter([0, 5, 12]).__next__)
    >>> for batch in range(3):
    ...     waiting.write(batch, pa.table({"n": [batch]}))
    >>> sink.table().column("n").to_pylist()
    [0, 1, 2]
    """

    def __init__(self, sink: Any, every_ns: int | None = None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._sink, self._clock = sink, clock
        self._every_ns = getattr(sink, "every_ns", 0) if every_ns is None else every_ns
        if self._every_ns and hasattr(sink, "every_ns"):
            sink.every_ns = 0  # what is written here is due
        self._rows: list[pa.Table] = []
        self._since_ns, self._batch = 0, -1

    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch with those that wait, or let them wait."""
        now_ns = self._clock()
        if len(rows):
            self._since_ns = self._since_ns if self._rows else now_ns
            self._rows.append(rows)
            self._batch = batch
        is_large = sum(rows.nbytes for rows in self._rows) > GATHERED_BYTES_MAX
        if self._rows and (now_ns - self._since_ns >= self._every_ns or is_large):
            self._put()

    def close(self) -> None:
        """What waits is written, and the sink closed."""
        try:
            self._put()
        finally:
            self._sink.close()

    def _put(self) -> None:
        if self._rows:
            self._sink.write(self._batch, pa.concat_tables(self._rows, promote_options="permissive"))
            self._rows = []
