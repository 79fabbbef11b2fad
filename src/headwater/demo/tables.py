"""Result rows as tables that fit eighty columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import headwater as hw
from headwater.generator import SECOND

ROWS_SHOWN = 4
PLAIN: dict[str, Any] = {
    "box": SIMPLE_HEAD,
    "padding": (0, 1, 0, 0),
    "pad_edge": False,
    "show_edge": False,
    "title_justify": "left",
}
HEADINGS = {
    "window_start": "from",
    "window_end": "to",
    "position_start": "from",
    "position_end": "to",
    "event_count": "events",
    "revision": "rev",
    "first_time": "first",
    "last_time": "last",
}


def show_query(query: hw.Query, meaning: str, rows: pa.Table, console: Console) -> None:
    """Print what a query asks, and its last rows."""
    revisions = rows.column("revision").to_pylist() if "revision" in rows.column_names else []
    revised = sum(revision > 0 for revision in revisions)
    note = f", {revised:,} of them revisions for late events" if revised else ""
    console.print(
        f"\n[bold cyan]{query.name}[/bold cyan]: {meaning}\n[dim]{rows.num_rows:,} rows{note}; the last ones:[/dim]"
    )
    # A count window has positions instead of bounds.
    hidden = {"query", "replaces", *(("window_start", "window_end") if query.window.measure == "count" else ())}
    shown = [name for name in rows.column_names if name not in hidden]
    table = Table(*(HEADINGS.get(name, name) for name in shown), **PLAIN)
    for row in rows.slice(max(0, rows.num_rows - ROWS_SHOWN)).to_pylist():
        table.add_row(*(readable(name, row[name]) for name in shown))
    console.print(table)


def readable(column: str, value: object) -> str:
    """Times as clock times, positions and other integers with separators, floats with a few digits."""
    if column in ("first_time", "last_time", "window_start", "window_end") and isinstance(value, int):
        return datetime.fromtimestamp(value / SECOND, UTC).strftime("%H:%M:%S.%f")[:-5]
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
