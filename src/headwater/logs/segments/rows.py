"""What a log asks of a batch: the span of its times, and whether it holds the same rows as another."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import DataError, shown
from headwater.language.times import FOREVER, NEVER


def time_span(batch: pa.RecordBatch, column: str | None) -> tuple[int, int]:
    """The earliest and the latest time in ``column``; (FOREVER, NEVER), an empty span, where there is none.

    >>> time_span(pa.record_batch({"time": [5, None, 3]}), "time")
    (3, 5)
    """
    if column is None:
        return FOREVER, NEVER
    if column not in batch.schema.names:
        raise DataError(f"the log indexes the column {shown(column)}, which is not among {shown(batch.schema.names)}")
    times = batch.column(column)
    if not (pa.types.is_integer(times.type) or pa.types.is_timestamp(times.type)):
        raise DataError(f"the log indexes the column {shown(column)} as times, but its type is {times.type}")
    plain = times.view(pa.int64()) if pa.types.is_timestamp(times.type) else times
    if len(plain) and not plain.null_count:
        # Not Arrow's function where NumPy's will do: for a small batch it takes longer than writing it.
        values = plain.to_numpy()
        return min(int(values.min()), FOREVER), min(int(values.max()), FOREVER)
    span = pc.min_max(plain).as_py()
    if span["min"] is None:
        return FOREVER, NEVER
    # An unsigned time may lie beyond int64; such an event is malformed, but the log still keeps it.
    return min(span["min"], FOREVER), min(span["max"], FOREVER)


def first_difference(left: pa.RecordBatch, right: pa.RecordBatch) -> str | None:
    """What differs between two batches of one length, for a message; None if they hold the same rows.

    Unlike Arrow's own comparison, NaN equals NaN: rows that are appended again are the same rows.

    >>> first_difference(pa.record_batch({"x": [float("nan")]}), pa.record_batch({"x": [float("nan")]})) is None
    True
    >>> first_difference(pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [1, 3]}))
    "column 'x', row 1 of the batch"
    """
    if not left.schema.equals(right.schema):
        return "the schema"
    for name, one, other in zip(left.schema.names, left.columns, right.columns):
        if not one.equals(other):
            pairs = zip(one.to_pylist(), other.to_pylist())
            # By repr: equal for NaN, also inside lists and structs.
            row = next((row for row, (a, b) in enumerate(pairs) if a != b and repr(a) != repr(b)), None)
            if row is not None:
                return f"column {name!r}, row {row} of the batch"
    return None
