"""The rows that methods of users yield."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, shown

_FORM = "yield rows as dicts: yield {'window_end': w.end, 'bids': total}"


def listed_rows(made: Any) -> list[dict[str, Any]]:
    """What a method gave, as a list of rows.

    >>> listed_rows(None), listed_rows({"n": 1}), listed_rows(row for row in [{"n": 2}])
    ([], [{'n': 1}], [{'n': 2}])
    """
    if made is None:
        return []
    if isinstance(made, Mapping):
        return [dict(made)]
    if isinstance(made, pa.Table | pa.RecordBatch):
        rows: list[dict[str, Any]] = made.to_pylist()
        return rows
    if not isinstance(made, Iterable) or isinstance(made, str | bytes):
        raise DataError(f"a method gave {shown(made)}: {_FORM}")
    rows = list(made)
    for row in rows:
        if not isinstance(row, Mapping):
            raise DataError(f"a method yielded {shown(row)}: {_FORM}")
    return rows


def rows_table(rows: list[dict[str, Any]], name: str) -> pa.Table:
    """Rows as a table, with all columns that any of them has."""
    names = list(dict.fromkeys(column for row in rows for column in row))
    try:
        return pa.table({column: pa.array([row.get(column) for row in rows]) for column in names})
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(f"{name} yielded rows whose values have no common type: {error}") from error
