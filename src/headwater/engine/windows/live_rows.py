"""Windows that are still open, shown as they stand: each when it has changed since it was last shown.

Such rows have the revision `OPEN`. When the bounds of a window that was shown no longer hold, because a session has grown
or two have become one, the row that has its events says so in ``replaces``, whether that row is open or closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

#: The revision of a row that is not final.
OPEN = -1

Row = dict[str, Any]
#: The key columns of each query.
Keys = Mapping[str, Sequence[str]]


def with_open_rows(closed: pa.Table, opened: pa.Table, shown: pa.Table | None, keys: Keys) -> tuple[pa.Table, pa.Table]:
    """The rows to show now, and all windows that are open now; ``shown``: those that were open the last time.

    >>> def table(*rows):
    ...     names = ("query", "window_start", "window_end", "event_count", "revision", "replaces")
    ...     return pa.Table.from_pylist([dict(zip(names, row)) for row in rows], schema=SCHEMA)
    >>> from headwater.engine.results.output import REPLACES
    >>> SCHEMA = pa.schema([("query", pa.string()), *((n, pa.int64()) for n in (
    ...     "window_start", "window_end", "event_count", "revision")), ("replaces", REPLACES)])
    >>> before, now = table(("s", 0, 15, 1, 0, None)), table(("s", 0, 20, 2, 0, None))
    >>> rows, _ = with_open_rows(table(), now, before, {"s": ()})
    >>> rows.select(["window_end", "revision", "replaces"]).to_pylist()
    [{'window_end': 20, 'revision': -1, 'replaces': [{'window_start': 0, 'window_end': 15, 'revision': -1}]}]
    >>> len(with_open_rows(table(), now, now, {"s": ()})[0])
    0
    """
    before = [] if shown is None else shown.to_pylist()
    if not len(opened) and not before:
        return closed, opened
    now, final = opened.to_pylist(), closed.to_pylist()
    known = {_place(row, keys): _content(row) for row in before}
    holding = {_place(row, keys) for row in (*now, *final)}
    gone: dict[Any, list[Row]] = {}
    for row in before:
        if _place(row, keys) not in holding:
            gone.setdefault(_owner(row, keys), []).append(row)
    fresh = [row | {"revision": OPEN} for row in now if known.get(_place(row, keys)) != _content(row)]
    said = [_replacing(row, gone.get(_owner(row, keys), [])) for row in (*final, *fresh)]
    return pa.Table.from_pylist(said, schema=opened.schema), opened


def _owner(row: Row, keys: Keys) -> Any:
    """What windows belong to that cannot overlap: a query, a key and, in scope node, a node."""
    return row["query"], row.get("node"), repr([row[key] for key in keys[row["query"]]])


def _place(row: Row, keys: Keys) -> Any:
    return *_owner(row, keys), row["window_start"], row["window_end"]


def _content(row: Row) -> str:
    # As text: NaN is NaN there, and 1 is not 1.0.
    return repr({name: value for name, value in row.items() if name != "revision"})


def _replacing(row: Row, gone: list[Row]) -> Row:
    """The row, with the windows in ``gone`` that it overlaps added to what it replaces."""
    start, end = row["window_start"], max(row["window_end"], row["window_start"] + 1)
    instead = [
        {"window_start": one["window_start"], "window_end": one["window_end"], "revision": OPEN}
        for one in gone
        if one["window_start"] < end and start < max(one["window_end"], one["window_start"] + 1)
    ]
    return row | {"replaces": [*(row["replaces"] or []), *instead] or None}
