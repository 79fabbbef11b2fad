"""Result rows as a user takes them: one table of all queries, or one query's own columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import QueryError
from headwater.language.notebooks.html import html_table
from headwater.language.query import Query
from headwater.local.display import shown_rows, text_table

Counters = Mapping[str, Mapping[str, int]]


class Results:
    """Rows of closed windows. ``table`` has all queries; ``results["name"]`` one query with its own columns.

    Rows of one step are sorted by window end, window start, order of registration and key; steps follow one another. Whatever
    reads Arrow's C stream takes them as they are: ``pl.DataFrame(results)``, ``duckdb.sql("from results")``.
    """

    def __init__(
        self, table: pa.Table, queries: Mapping[str, Query], counters: Callable[[], Any], side_output: pa.Table
    ) -> None:
        self.table = table
        #: Events that are in no result, each with the reason and its place of birth.
        self.side_output = side_output
        self._queries = dict(queries)
        self._count = counters

    @cached_property
    def counters(self) -> Counters:
        """What became of the events, per query, as counted when this is first asked for.

        in = filtered + outside + member + late + dropped + malformed.
        """
        counted: Counters = self._count()
        return counted

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
        # Of one call: in batch there is nothing to replace.
        columns = query.own_columns(may_revise="replaces" in self.table.column_names)
        return self.table.filter(pc.equal(self.table.column("query").cast(pa.string()), name)).select(columns)

    def to_pandas(self) -> Any:
        """The whole table as a pandas DataFrame (pandas must be installed)."""
        return self.table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The whole table, for every library that speaks Arrow."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"{text_table(self.table)}\n{self._summary()}" if self.num_rows else self._summary()

    def _repr_html_(self) -> str:
        return html_table(self.table.column_names, shown_rows(self.table), self._summary())

    def _summary(self) -> str:
        aside = f"; {self.side_output.num_rows:,} set aside" if self.side_output.num_rows else ""
        return f"{self.num_rows:,} rows of {', '.join(self._queries) or 'no query'}{aside}"

    def __getstate__(self) -> dict[str, Any]:
        """A copy elsewhere has no engine to ask."""
        counters = self.counters
        return {**self.__dict__, "counters": counters, "_count": dict}
