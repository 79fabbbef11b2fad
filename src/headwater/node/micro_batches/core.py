"""The engine for batches that come whole: all events of a batch have the watermark that the batches before it left.

So rows within a batch need no order, and a batch that is replayed gives the same rows. Watermarks are told from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.engine.core import Core
from headwater.engine.intake.watermarks import Source
from headwater.language.files.queries import to_json
from headwater.language.query import Query
from headwater.language.times import NEVER


class BatchCore(Core):
    """An engine whose watermarks rise between batches.

    >>> import headwater as hw
    >>> core = BatchCore([hw.query("load", hw.tumbling(10), total=hw.sum("load"))])
    >>> core.push([pa.record_batch({"time": [12, 1, 5], "load": [4.0, 1.0, 2.0]})], "a")
    >>> core.open_rows().select(["window_start", "total"]).to_pylist()
    [{'window_start': 0, 'total': 3.0}, {'window_start': 10, 'total': 4.0}]
    >>> core.raise_each({"a": 12})
    >>> core.take_rows().select(["window_start", "total"]).to_pylist()
    [{'window_start': 0, 'total': 3.0}]
    """

    @classmethod
    def beginning_at(cls, queries: list[Query], begin: int, **settings: Any) -> BatchCore:
        """An engine for queries that join a stream which has come to ``begin``."""
        core = cls(**settings)
        core._state.register(queries, begin)
        return core

    _is_paced = True

    def flush(self) -> None:
        """The end: what is due comes out whole, windows without events as far as the watermark came before."""
        self._is_paced = False
        self._emit()
        super().flush()

    def raise_each(self, marks: Mapping[str, int]) -> None:
        """The watermarks of several sources at once: windows close when all have risen."""
        for source in sorted(marks, key=str.encode):
            self._state.watermarks.raise_source(source, marks[source])
        self._emit()

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources that have joined, in that order, and how far each has come."""
        return self._state.watermarks.sources

    def take_rows(self) -> pa.Table:
        """The rows that came out since the last time."""
        return self._take()[0]

    def open_rows(self) -> pa.Table:
        """What would come out if the stream ended now: the windows that are open, as far as they are complete."""
        copy = type(self).restore(self.snapshot())
        copy.take_rows()
        copy.flush()
        return copy.take_rows()

    @property
    def query_texts(self) -> dict[str, str]:
        """Each query as text, by its name: what another set of queries is compared with."""
        return {name: to_json([entry.query]) for name, entry in self._state.registry.by_name.items()}

    def add_at(self, query: Query, begin: int) -> None:
        """Add a query whose windows begin at ``begin`` or later, which is above every time seen."""
        self.add_query(query, at=None if begin == NEVER else begin)
