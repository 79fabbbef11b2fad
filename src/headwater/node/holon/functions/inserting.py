"""What a function inserts into a state: events of its own, with the times that it gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.node.holon.executed_steps import written_part
from headwater.node.holon.functions.batches import EventBatch
from headwater.node.holon.functions.rows_in import row_of
from headwater.node.holon.tables import SharedTable
from headwater.protocols.windowed_crdt import Reach


class Inserts:
    """The events that were inserted into one table from one chain. ``state``: how users call it.

    Its watermark is told at steps only: how batches are cut, and so when something is inserted, cannot matter.
    """

    def __init__(self, table: SharedTable, state: str, chain: str, home: str, offset: int, reach: Reach) -> None:
        self.table, self.state = table, state
        self._chain = chain
        self._half = table.leaf_half(chain, home, offset, reach.watermark, reach.latest)
        self._waiting: list[dict[str, Any]] = []
        #: How many events were inserted so far.
        self.offset = offset

    def insert(self, element: Any, time: Any, key: Any) -> None:
        """One event, or a batch of them; their times are in a column, or ``time`` for all."""
        if isinstance(element, EventBatch | pa.RecordBatch | pa.Table):
            if key is not None:
                raise DataError(f"state {self.state!r}: keys of a batch are in its columns; leave key out")
            for batch in _batches(element):
                self._take(self._columns(batch, time))
        else:
            self._waiting.append(row_of(self.table, self.state, element, time, key))

    def settle(self) -> None:
        """Take in what was inserted one by one."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                batch = pa.RecordBatch.from_pylist(waiting, self.table.schema)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise DataError(f"state {self.state!r}: what was inserted is of another type: {error}") from error
            self._take(batch)

    def close(self, watermark: int) -> None:
        """Nothing older than this is on time from now on."""
        self.settle()
        self._half.end(self._chain, watermark)

    def take_parts(self) -> list[bytes]:
        """What was inserted since the last time, as parts."""
        self.settle()
        _, parts = self._half.take()
        return [written_part(self.table.number, part) for part in parts]

    def _take(self, batch: pa.RecordBatch) -> None:
        self._half.take_in(self._chain, self.offset, batch, None)
        self.offset += len(batch)

    def _columns(self, batch: pa.RecordBatch, time: Any) -> pa.RecordBatch:
        arrays = []
        for field in self.table.schema:
            name = time if field.name == self.table.time and isinstance(time, str) else field.name
            if field.name == self.table.time and time is not None and not isinstance(time, str):
                arrays.append(pa.repeat(pa.scalar(time, field.type), len(batch)))
                continue
            if name not in batch.schema.names:
                there = ", ".join(batch.schema.names)
                raise DataError(f"state {self.state!r} needs the column {name!r}; what is inserted has {there}")
            try:
                arrays.append(batch.column(name).cast(field.type))
            except pa.ArrowException as error:
                raise DataError(f"state {self.state!r}, column {name!r}: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.table.schema)


def _batches(element: EventBatch | pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    if isinstance(element, EventBatch):
        return [element.arrow]
    if isinstance(element, pa.Table):
        batches: list[pa.RecordBatch] = element.to_batches()
        return batches
    return [element]
