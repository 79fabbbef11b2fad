"""The demo in this process: a few million events pushed batch by batch as they arrive.

Six queries that other systems would run as six jobs share one pass here: overlapping averages, sessions, an exact
99th percentile, count windows, windows between markers and an aggregate of one's own.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import headwater as hw
from headwater.demo.html_page import write_page
from headwater.demo.queries import queries
from headwater.demo.tables import PLAIN, show_query
from headwater.generator import RATE, SmartHome

EVENTS = 3_000_000
#: The engine waits so long for late events; the generator delays a few beyond it.
DISORDER = "5 s"
COUNTERS = ("in", "filtered", "outside", "member", "late", "dropped", "malformed")


def run(events: int = EVENTS, seed: int = 7, console: Console | None = None, page: Path | None = None) -> None:
    """Generate about ``events`` events, push them through the queries and show what came out, also as an HTML ``page``."""
    console = console or Console(highlight=False)
    asked = queries()
    home = SmartHome(seconds=max(1, round(events / RATE)), seed=seed)
    console.print("Generating the events, and compiling the kernels if this is their first run ...")
    batches = list(home.batches())
    _warm_up(list(asked))
    engine = hw.Engine(list(asked), time="time", unit="us", disorder=DISORDER)
    found: dict[str, list[pa.Table]] = {query.name: [] for query in asked}
    busy = _push(engine, batches, found, console)
    tables = {name: pa.concat_tables(some) for name, some in found.items()}
    for query, meaning in asked.items():
        show_query(query, meaning, tables[query.name], console)
    _show_counters(engine, console)
    total = sum(batch.num_rows for batch in batches)
    rows = sum(table.num_rows for table in tables.values())
    summary = f"{total:,} events, {len(asked)} queries, {rows:,} result rows"
    console.print(f"\n[bold]{summary}[/bold] in {busy:.2f} s")
    console.print(f"[bold]{total / busy / 1e6:.1f} M events/s[/bold] on one core, all queries together")
    if page is not None:
        write_page(page, asked, tables, f"{summary} in {busy:.2f} s, in one process")
        console.print(f"The windows, drawn, are in [bold]{page.absolute().as_uri()}[/bold]", soft_wrap=True)


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


def _show_counters(engine: hw.Engine, console: Console) -> None:
    table = Table("query", title="\nWhere every event went (the parts add up to `in`)", **PLAIN)
    for counter in COUNTERS:
        table.add_column(counter, justify="right")
    for name, counts in engine.counters().items():
        table.add_row(name, *(f"{counts[counter]:,}" for counter in COUNTERS))
    console.print(table)
