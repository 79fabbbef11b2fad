"""A table for people: its first and last rows as texts, for a notebook, and side by side for a terminal."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: Rows of a longer table that are shown, half of them from its end, and characters of one cell.
ROWS_SHOWN = 20
CELL_WIDTH = 32
GAP = "…"


def text_table(table: pa.Table) -> str:
    """Columns side by side, numbers at the right.

    >>> print(text_table(pa.table({"house": ["a", "b"], "load": [1.5, None]})))
    house  load
    a       1.5
    b
    """
    cells = [table.column_names, *shown_rows(table)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_number = [pa.types.is_integer(type_) or pa.types.is_floating(type_) for type_ in table.schema.types]
    lines = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def shown_rows(table: pa.Table) -> list[list[str]]:
    """The cells of the first and last rows, with a row of dots where some are left out."""
    count = table.num_rows
    if count <= ROWS_SHOWN:
        return _cells(table)
    half = ROWS_SHOWN // 2
    return [*_cells(table.slice(0, half)), [GAP] * table.num_columns, *_cells(table.slice(count - half))]


def _cells(table: pa.Table) -> list[list[str]]:
    # Arrow's own text: Python has no date for every timestamp.
    columns = [_plain(column) for column in table.columns]
    return [[_text(value) for value in row] for row in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    plain: list[Any] = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return plain


def _text(value: Any) -> str:
    """
    >>> _text(None), _text(1 / 3), _text("a" * 40), _text([{"revision": 0}])
    ('', '0.333333', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', '[{revision: 0}]')
    """
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else _nested(value)
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + GAP


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_nested(inner)}' for name, inner in value.items())}}}"
    return str(value) if isinstance(value, str | int | float | Decimal | date | datetime) else repr(value)
