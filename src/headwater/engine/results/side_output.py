"""The side output: events that are in no result because they are too late for a query, or malformed."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
TOO_LATE = "too late"


class SideOutput:
    """Rows of the side output: query (null: all of them), reason, place of birth, and the event as it came."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self._shown = 0  # how many of the tables were shown, and not taken

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
            _repeat(TOO_LATE, len(chunk)),
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
        tables, self.tables, self._shown = self.tables, [], 0
        return pa.concat_tables(tables) if tables else NOTHING

    def show(self) -> pa.Table:
        """What was added since the last time, without taking it."""
        tables, self._shown = self.tables[self._shown :], len(self.tables)
        return pa.concat_tables(tables) if tables else NOTHING


def malformed_warning(tables: Iterable[pa.Table]) -> str | None:
    """The warning that events of these side outputs are malformed, with the place and the reason of the first; None: none is.

    >>> row = {"query": None, "reason": "time is null", "source": "a", "offset": 7, "event": "{}"}
    >>> malformed_warning([pa.Table.from_pylist([row], schema=SCHEMA)])
    "1 malformed event was set aside; source 'a', offset 7: time is null"
    """
    first, places = "", set()
    for table in tables:
        if len(table):
            found = table.filter(pc.not_equal(table.column("reason"), TOO_LATE)).select(["source", "offset", "reason"])
            for row in found.to_pylist():
                first = first or f"source {row['source']!r}, offset {row['offset']}: {row['reason']}"
                # One event may be malformed for several queries.
                places.add((row["source"], row["offset"]))
    if not places:
        return None
    count = len(places)
    return (
        f"{count} malformed events were set aside; the first is {first}"
        if count > 1
        else f"1 malformed event was set aside; {first}"
    )


def _repeat(text: str | None, size: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(size, np.int64)))
