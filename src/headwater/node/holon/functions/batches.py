"""Batches as users' functions see them: a thin view of an Arrow record batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.engine.intake.predicates import mask
from headwater.errors import DataError, QueryError, shown
from headwater.language.expressions import Expr, condition_or_given


class EventBatch:
    """Some events of a partition, all of one step; each has a time.

    >>> import headwater as hw
    >>> batch = EventBatch(pa.record_batch({"time": [1, 2, 3], "price": [10, 20, 30]}))
    >>> dear = batch.where(hw.col("price") > 10)
    >>> len(dear), dear.with_column("double", [40, 60]).column("double").to_pylist()
    (2, [40, 60])
    """

    __slots__ = ("arrow",)

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.arrow = batch

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def where(self, condition: Any) -> EventBatch:
        """Only the events for which the condition is true."""
        expr = condition_or_given(condition)
        if not isinstance(expr, Expr):
            raise QueryError(f"where is {shown(condition)}: give a condition, such as hw.col('kind') == 'bid'")
        names = expr.columns()
        missing = sorted(names - set(self.arrow.schema.names))
        if missing:
            raise DataError(f"column {missing[0]!r} is missing; the batch has {', '.join(self.arrow.schema.names)}")
        columns = {name: self.arrow.column(name) for name in names}
        return EventBatch(self.arrow.filter(pa.array(mask(expr, columns, len(self)))))

    def column(self, name: str) -> pa.Array:
        """A column of the events."""
        if name not in self.arrow.schema.names:
            raise DataError(f"column {name!r} is missing; the batch has {', '.join(self.arrow.schema.names)}")
        return self.arrow.column(name)

    def with_column(self, name: str, values: Any) -> EventBatch:
        """The events with one column more, or another in its place."""
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        array = array if isinstance(array, pa.Array) else pa.array(array)
        if len(array) != len(self):
            raise DataError(f"column {name!r} has {len(array)} values; the batch has {len(self)} events")
        place = self.arrow.schema.get_field_index(name)
        if place >= 0:
            return EventBatch(self.arrow.set_column(place, name, array))
        return EventBatch(self.arrow.append_column(name, array))
