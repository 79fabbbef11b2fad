"""Result rows as a user takes them: one table of all queries, or one query's own columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.language.windows import CountWindow


class Results:
    """Rows of closed windows. ``table`` has all queries; ``results["name"]`` one query with its own columns.

    Rows of one step are sorted by window end, window start, order of registration and key; steps follow one another.
    """

    def __init__(self, table: pa.Table, queries: Mapping[str, Query]) -> None:
        self.table = table
        self._queries = dict(queries)

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries, for small results."""
        for batch in self.table.to_batches():
            yield from batch.to_pylist()

    def __getitem__(self, name: str) -> pa.Table:
        query = self._queries.get(name)
        if query is None:
            known = ", ".join(repr(known) for known in self._queries)
            raise QueryError(f"results have no query {name!r}; there is {known or 'none'}")
        columns = ["window_start", "window_end", *query.keys, *(alias for alias, _ in query.aggregates)]
        columns += ["event_count", "revision", "replaces"]
        if query.scope == "node":
            columns.append("node")
        if isinstance(query.window, CountWindow):
            columns += ["first_time", "last_time"]
        return self.table.filter(pc.equal(self.table.column("query").cast(pa.string()), name)).select(columns)

    def to_pandas(self) -> Any:
        """The whole table as a pandas DataFrame (pandas must be installed)."""
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return f"Results({self.num_rows} rows of {', '.join(self._queries) or 'no query'})"
