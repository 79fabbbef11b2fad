"""The DataFrame of one batch without Spark, as far as the runner of a stream uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.spark.streaming.reducers import TABLES

#: Runs a task and gives what it gave; Spark starts one that failed again.
Task = Callable[[Callable[[], Iterator[pa.RecordBatch]]], list[pa.RecordBatch]]


def run_task(run: Callable[[], Iterator[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """A task that does not fail."""
    return list(run())


class LocalFrame:
    """Made when it is asked for, as Spark does it; tasks run one after the other."""

    def __init__(self, make: Callable[[], pa.Table], task: Task = run_task, parts: int = 1) -> None:
        self._make, self._task, self._parts = make, task, parts

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._make()

    def repartition(self, count: int, *columns: str) -> LocalFrame:
        return LocalFrame(self._make, self._task)

    def repartitionById(self, count: int, column: str) -> LocalFrame:  # noqa: N802
        return LocalFrame(self._make, self._task, count)

    def mapInArrow(self, function: Any, schema: Any) -> LocalFrame:  # noqa: N802
        def mapped() -> pa.Table:
            table = self._make()
            if self._parts == 1:
                return pa.Table.from_batches(self._task(lambda: function(table.to_batches())))
            shares = [table.filter(pc.equal(table["bucket"], number)) for number in range(self._parts)]
            found = [self._task(lambda share=share: function(share.to_batches())) for share in shares]  # type: ignore[misc]
            return pa.Table.from_batches([batch for some in found for batch in some], TABLES)

        return LocalFrame(mapped, self._task)
