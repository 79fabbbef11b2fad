"""The last windows of each query, as a page shows them: the last revision of each, in the order of their ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.language.query import Query
from headwater.page.board import WindowTable

#: Rows of one query that are kept, and the number of queries of which some are.
ROWS_KEPT = 240
QUERIES_KEPT = 24
#: Characters of a value that is no number.
TEXT_MAX = 80
#: The largest integer that every browser holds exactly.
INTEGER_MAX = 1 << 53
BOUNDS = ("window_start", "window_end")
POSITIONS = ("position_start", "position_end")


class LastWindows:
    """Takes result rows, and gives what is left to see of them. Rows are copied, and as few as are kept.

    >>> import headwater.language.aggregations as agg, headwater.language.windows as win
    >>> from headwater.language.query import query
    >>> queries = {"n": query("n", win.tumbling(10), n=agg.count())}
    >>> rows = {"query": ["n", "n"], "window_start": [0, 10], "window_end": [10, 20], "n": [3, 4]}
    >>> last = LastWindows()
    >>> last.take(pa.table({**rows, "event_count": [3, 4], "revision": [0, 0]}), queries)
    >>> (table,) = last.tables(0)
    >>> table.columns, table.rows
    ((('window_start', 'tick'), ('window_end', 'tick'), ('n', 'value')), ((0, 10, 3), (10, 20, 4)))
    """

    def __init__(self, rows_kept: int = ROWS_KEPT, queries_kept: int = QUERIES_KEPT) -> None:
        self._rows_kept, self._queries_kept = rows_kept, queries_kept
        self._lock = threading.Lock()
        self._version = 0
        #: Of each query: the query, its last rows, and when these have changed.
        self._kept: dict[str, tuple[Query, pa.Table, int]] = {}

    def take(self, rows: pa.Table, queries: Mapping[str, Query]) -> None:
        """Result rows of these queries, in the order in which they came out."""
        shown = list(queries)[: self._queries_kept]
        found = {name: _own(mine, queries[name]) for name, mine in last_of_each(rows, self._rows_kept) if name in shown}
        with self._lock:
            self._kept = {name: kept for name, kept in self._kept.items() if _is_same(kept[0], queries.get(name))}
            for name, mine in found.items():
                known = self._kept.get(name)
                if known is not None and known[1].schema == mine.schema:
                    mine = pa.concat_tables([known[1], mine])
                    mine = mine.slice(max(0, len(mine) - self._rows_kept)).combine_chunks()
                self._version += 1
                self._kept[name] = queries[name], mine, self._version

    def tables(self, version: int) -> list[WindowTable]:
        """The windows of each query whose rows have changed after this version, in the order of queries."""
        with self._lock:
            changed = [kept for kept in self._kept.values() if kept[2] > version]
        return [_as_seen(query, rows, changed_at) for query, rows, changed_at in changed]


def _is_same(query: Query, other: Query | None) -> bool:
    """Whether this is still the query: when another one comes, all are read anew. Conditions cannot be compared by `==`."""
    return query is other or repr(query) == repr(other)


def last_of_each(rows: pa.Table, count: int) -> Iterator[tuple[str, pa.Table]]:
    """Of each query that has rows: its name and the last ``count`` of them.

    >>> rows = pa.table({"query": ["b", "a", "b", "b"], "n": [1, 2, 3, 4]})
    >>> {name: mine["n"].to_pylist() for name, mine in last_of_each(rows, 2)}
    {'b': [3, 4], 'a': [2]}
    """
    if not len(rows):
        return
    # One pass however many queries there are; a stable sort keeps the order of a query's rows.
    names = rows.column("query").cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    codes = np.asarray(names.indices)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names.dictionary)))
    begin = 0
    for name, end in zip(names.dictionary.to_pylist(), ends.tolist()):
        yield name, rows.take(pa.array(order[max(begin, end - count) : end]))
        begin = end


def _own(rows: pa.Table, query: Query) -> pa.Table:
    """The query's own columns, as far as the rows have them."""
    return rows.select([name for name in query.own_columns() if name in rows.column_names])


def _as_seen(query: Query, rows: pa.Table, version: int) -> WindowTable:
    counts = all(name in rows.column_names for name in POSITIONS)
    place = POSITIONS if counts else BOUNDS
    values = [alias for alias, _ in query.aggregates]
    names = [name for name in (*place, *query.keys, *values) if name in rows.column_names]
    kinds = tuple((name, _kind(name, rows.schema.field(name).type, query)) for name in names)
    columns = [_plain(rows.column(name), dict(kinds)[name]) for name in names]
    keyed = [name for name in (*place, *query.keys, "node") if name in rows.column_names]
    kept = _last_revisions(rows, place, keyed)
    seen = [tuple(column[row] for column in columns) for row in kept]
    return WindowTable(query.name, kinds, tuple(sorted(seen, key=_by_place)), version)


def _kind(name: str, type_: pa.DataType, query: Query) -> str:
    if name in BOUNDS:
        return "time" if pa.types.is_timestamp(type_) else "tick"
    if name in POSITIONS:
        return "position"
    return "key" if name in query.keys else "value"


def _by_place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rows in the order of their ends, then of their starts; the sort is stable."""
    start, end = row[:2]
    return (math.inf if end is None else end, math.inf if start is None else start)


def _last_revisions(rows: pa.Table, place: Sequence[str], keyed: Sequence[str]) -> list[int]:
    """The rows that still hold: a later revision takes the place of an earlier one, and of the windows that it names."""
    windows = list(zip(*(_with_ticks(rows.column(name)).to_pylist() for name in keyed)))
    replaced: list[Any] = [None] * len(windows)
    if "replaces" in rows.column_names:
        replaced = _with_ticks(rows.column("replaces")).to_pylist()
    holding: dict[tuple[Any, ...], int] = {}
    for row, (window, gone) in enumerate(zip(windows, replaced)):
        for other in gone or ():
            holding.pop((*(other[name] for name in place), *window[len(place) :]), None)
        # What holds now stands behind what held before.
        holding.pop(window, None)
        holding[window] = row
    return list(holding.values())


def _with_ticks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same with integers for timestamps: Python has no date for every one of them."""
    return column.cast(_tick_type(column.type))


def _tick_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_list(type_):
        return pa.list_(_tick_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _tick_type(field.type)) for field in type_])
    return type_


def _plain(column: pa.ChunkedArray, kind: str) -> list[Any]:
    """Values as JSON holds them."""
    if kind == "time":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.string())  # Python has no date for every timestamp
    return [plain(value) for value in column.to_pylist()]


def plain(value: Any) -> Any:
    """A value as every browser reads it: what is no number, text or truth becomes text, and so does what JSON cannot say.

    >>> plain(1.5), plain(float("nan")), plain(2**60), plain([1, 2]), plain(None)
    (1.5, 'nan', '1152921504606846976', '[1, 2]', None)
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= INTEGER_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
