"""The side output: events that are in no result because they are too late for a query, or malformed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.intake.arrivals import as_it_came
from headwater.engine.windows.late import Dropped

SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("time", pa.int64()),
        ("watermark", pa.int64()),
        ("event", pa.string()),  # JSON
    ]
)
#: Made once: most steps have nothing to set aside.
NOTHING = SCHEMA.empty_table()


class SideOutput:
    """Rows of the side output: query (null: all of them), reason, place of birth, and the event as it came."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def malformed(
        self,
        batch: pa.RecordBatch,
        rows: list[int],
        reasons: list[str],
        source: str,
        offsets: Int64Array,
        query: str | None = None,
    ) -> None:
        """Add events that a query cannot use; without one, that none can."""
        size = len(rows)
        none = pa.nulls(size, pa.int64())
        columns = [_repeat(query, size), pa.array(reasons), _repeat(source, size), pa.array(offsets), none, none]
        self._add(columns, batch.take(pa.array(rows)))

    def dropped(self, batch: pa.RecordBatch, offsets: Int64Array, dropped: Dropped, query: str, source: str) -> None:
        """Add events that were too late for a query; ``offsets`` are those of the batch, ascending."""
        chunk = dropped.chunk
        rows = np.searchsorted(offsets, chunk.offsets)
        columns = [
            _repeat(query, len(chunk)),
            _repeat("too late", len(chunk)),
            _repeat(source, len(chunk)),
            pa.array(chunk.offsets),
            pa.array(chunk.times),
            pa.array(dropped.watermarks),
        ]
        self._add(columns, batch.take(pa.array(rows)))

    def _add(self, columns: list[pa.Array], events: pa.RecordBatch) -> None:
        # As text: batches of a stream differ in their columns, and that is often just what is wrong with them.
        # Timestamps as their number: Python has no date for all of them.
        columns_of_event = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in events.columns]
        plain = pa.record_batch(columns_of_event, names=events.schema.names).to_pylist()
        texts = [json.dumps(as_it_came(event), default=str, ensure_ascii=False) for event in plain]
        self.tables.append(pa.Table.from_arrays([*columns, pa.array(texts, pa.string())], schema=SCHEMA))

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def take(self) -> pa.Table:
        tables, self.tables = self.tables, []
        return pa.concat_tables(tables) if tables else NOTHING


def _repeat(text: str | None, size: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(size, np.int64)))
