"""``make demo``: window queries of every kind over a few million smart-home events, pushed batch by batch as they arrive.

Six queries that other systems would run as six jobs share one pass here: overlapping averages, sessions, an exact
99th percentile, count windows, windows between markers and an aggregate of one's own.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import headwater as hw
from headwater.generator import RATE, SECOND, SmartHome

EVENTS = 3_000_000
ROWS_SHOWN = 4
#: The engine waits so long for late events; the generator delays a few beyond it.
DISORDER = "5 s"
#: Tables that fit eighty columns.
_PLAIN: dict[str, Any] = {
    "box": SIMPLE_HEAD,
    "padding": (0, 1, 0, 0),
    "pad_edge": False,
    "show_edge": False,
    "title_justify": "left",
}
_HEADINGS = {
    "window_start": "from",
    "window_end": "to",
    "event_count": "events",
    "revision": "rev",
    "first_time": "first",
    "last_time": "last",
}
COUNTERS = ("in", "filtered", "outside", "member", "late", "dropped", "malformed")


def _peak_lift(values: np.ndarray) -> list[float]:
    return [float(values.max()), float(values.sum()), len(values)] if len(values) else [0.0, 0.0, 0]


def _peak_combine(left: list[float], right: list[float]) -> list[float]:
    return [max(left[0], right[0]), left[1] + right[1], left[2] + right[2]]


def _peak_lower(partial: list[float]) -> float | None:
    highest, total, count = partial
    return highest * count / total if total else None


#: How far the highest load stands above the mean: an aggregate of one's own in three small functions.
peak_factor = hw.aggregate_of("peak_factor", _peak_lift, _peak_combine, _peak_lower, identity=[0.0, 0.0, 0])


def queries() -> dict[hw.Query, str]:
    """The demo's queries, each with a line that says what it asks."""
    appliance = hw.between(hw.col("activity") == "start", hw.col("activity") == "end", max_duration="10 min")
    return {
        hw.query(
            "average",
            hw.sliding("1 min", "10 s"),
            keys=["house"],
            lateness="30 s",
            avg=hw.avg("load"),
            max=hw.max("load"),
        ): "average and highest load of the last minute, every 10 s, by house; 30 s of lateness allowed",
        hw.query(
            "active",
            hw.session("15 s"),
            keys=["house"],
            where=hw.col("plug") == 0,
            readings=hw.count(),
            load=hw.sum("load"),
        ): "when the first plug of a house was active: sessions that end after 15 s of silence",
        hw.query(
            "tail", hw.tumbling("5 min"), median=hw.median("load"), p99=hw.quantile("load", 0.99)
        ): "exact median and 99th percentile of all loads, every 5 minutes",
        hw.query(
            "batch", hw.count_tumbling(500_000), sensors=hw.count_distinct("sensor"), total=hw.sum("load")
        ): "every 500,000 events: how many sensors sent them, and their exact sum",
        hw.query(
            "appliance", appliance, keys=["house"], used=hw.avg("load"), range=hw.value_range("load")
        ): "from an appliance's start marker to its end marker, at most 10 minutes, by house",
        hw.query(
            "peak",
            hw.tumbling("5 min"),
            keys=["house"],
            where=hw.col("load").is_not_null(),
            peak=hw.apply(peak_factor, "load"),
        ): "an aggregate of one's own: highest load / mean load",
    }


def run(events: int = EVENTS, seed: int = 7, console: Console | None = None) -> None:
    """Generate about ``events`` events, push them through the queries and show what came out."""
    console = console or Console()
    asked = queries()
    home = SmartHome(seconds=max(1, round(events / RATE)), seed=seed)
    console.print("Generating the events, and compiling the kernels if this is their first run ...")
    batches = list(home.batches())
    _warm_up(list(asked))
    engine = hw.Engine(list(asked), time="time", unit="us", disorder=DISORDER)
    found: dict[str, list[pa.Table]] = {query.name: [] for query in asked}
    busy = _push(engine, batches, found, console)
    for query, meaning in asked.items():
        _show_query(query, meaning, pa.concat_tables(found[query.name]), console)
    _show_counters(engine, console)
    total = sum(batch.num_rows for batch in batches)
    rows = sum(table.num_rows for tables in found.values() for table in tables)
    console.print(f"\n[bold]{total:,} events, {len(asked)} queries, {rows:,} result rows[/bold] in {busy:.2f} s")
    console.print(f"[bold]{total / busy / 1e6:.1f} M events/s[/bold] on one core, all queries together")


def _warm_up(asked: list[hw.Query]) -> None:
    """Let a throwaway engine see a few events: kernels are compiled once per machine and loaded once per process."""
    engine = hw.Engine(asked, time="time", unit="us", disorder=DISORDER)
    for batch in SmartHome(seconds=60, rate=200).batches(4_000):
        engine.push(batch)
    engine.flush()


def _push(
    engine: hw.Engine, batches: list[pa.RecordBatch], found: dict[str, list[pa.Table]], console: Console
) -> float:
    """Push every batch, take what is ready after each, and return the seconds that the engine was busy."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    busy = 0.0
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Pushing batches", total=len(batches) + 1)
        for batch in [*batches, None]:
            start = time.perf_counter()
            if batch is None:
                engine.flush()
            else:
                engine.push(batch)
            results = engine.results()
            busy += time.perf_counter() - start
            for name, tables in found.items():
                tables.append(results[name])
            progress.advance(task)
    return busy


def _show_query(query: hw.Query, meaning: str, rows: pa.Table, console: Console) -> None:
    revised = sum(revision > 0 for revision in rows.column("revision").to_pylist())
    note = f", {revised:,} of them revisions for late events" if revised else ""
    console.print(
        f"\n[bold cyan]{query.name}[/bold cyan]: {meaning}\n[dim]{rows.num_rows:,} rows{note}; the last ones:[/dim]"
    )
    shown = [name for name in rows.column_names if name not in ("query", "replaces")]
    table = Table(*(_HEADINGS.get(name, name) for name in shown), **_PLAIN)
    for row in rows.slice(max(0, rows.num_rows - ROWS_SHOWN)).to_pylist():
        table.add_row(*(_readable(name, row[name], query) for name in shown))
    console.print(table)


def _show_counters(engine: hw.Engine, console: Console) -> None:
    table = Table("query", title="\nWhere every event went (the parts add up to `in`)", **_PLAIN)
    for counter in COUNTERS:
        table.add_column(counter, justify="right")
    for name, counts in engine.counters().items():
        table.add_row(name, *(f"{counts[counter]:,}" for counter in COUNTERS))
    console.print(table)


def _readable(column: str, value: object, query: hw.Query) -> str:
    """Times as clock times, positions and other integers with separators, floats with a few digits."""
    is_time = column in ("first_time", "last_time") or column.startswith("window_") and query.window.measure == "time"
    if is_time and isinstance(value, int):
        return datetime.fromtimestamp(value / SECOND, UTC).strftime("%H:%M:%S.%f")[:-5]
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
