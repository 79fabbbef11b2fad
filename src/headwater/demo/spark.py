"""The demo on Spark, on this machine: events of several streets are aggregated in the tasks that make them, by one job.

Only what the answers need leaves a task; the result rows are left in a folder.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

import headwater as hw
from headwater.bench.spark.crossing import CrossedBytes, crossing
from headwater.demo.houses import EVENT_BYTES, HOUSES, streets
from headwater.demo.html_page import page_of, write_page
from headwater.demo.queries import queries
from headwater.demo.tables import show_query
from headwater.errors import DataError
from headwater.language.places import local_path
from headwater.spark.progress import watch
from headwater.spark.read import read
from headwater.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = 8_000_000
#: Events per second and street.
RATE = 1_000
#: In a batch job leaves cannot be told where to cut, so all events would travel for it: see the demo in one process.
LEFT_OUT = ("appliance",)


def run(out: Path, events: int = EVENTS, seed: int = 7, console: Console | None = None) -> None:
    """Generate about ``events`` events in Spark's tasks, answer the queries, show the rows and leave them in ``out``."""
    console = console or Console(highlight=False)
    asked = {query: meaning for query, meaning in queries().items() if query.name not in LEFT_OUT}
    sources = streets(events, seed, RATE)
    out = local_path("--out", out, "give a folder of this machine")
    _check_folder(out)
    console.print("Starting Spark on this machine ...")
    with local_session("headwater demo") as spark:
        console.print(
            f"{len(sources)} streets of {HOUSES} houses are {len(sources)} partitions; "
            f"{len(asked)} queries are one job. The first run also compiles kernels."
        )
        start = time.perf_counter()
        rows = read(spark, sources, list(asked), tasks=len(sources))
        watch(spark, events, len(sources))
        crossed = crossing(spark, lambda: _save(rows, out))
        seconds = time.perf_counter() - start
    found = _load(out, list(asked))
    for query, meaning in asked.items():
        show_query(query, meaning, found[query.name], console)
    summary = _show_totals(found, crossed, seconds, console)
    console.print(f"Result rows are in [bold]{out}[/bold], as Parquet, one folder per query.")
    page = page_of(out)
    write_page(page, asked, found, summary)
    console.print(f"The windows, drawn, are in [bold]{page.absolute().as_uri()}[/bold]", soft_wrap=True)


def _check_folder(out: Path) -> None:
    """Refuse a folder with anything that is not of an earlier demo: the demo replaces what is there."""
    names = [path.name for path in sorted(out.iterdir())] if out.exists() else []
    foreign = [name for name in names if not name.startswith("query=") and name not in ("_SUCCESS", "._SUCCESS.crc")]
    if foreign:
        raise DataError(f"{out} holds {foreign[0]!r}, which is not of this demo: name another folder with --out")


def _save(rows: DataFrame, out: Path) -> None:
    rows.write.mode("overwrite").partitionBy("query").parquet(str(out))


def _load(out: Path, asked: list[hw.Query]) -> dict[str, pa.Table]:
    """The rows of each query with its own columns, in order."""
    table = pq.read_table(out)
    found = {}
    for query in asked:
        own = query.own_columns(may_revise=False)
        rows = table.filter(pc.field("query") == query.name).select([name for name in own if name != "revision"])
        order = ("window_end", "window_start", *(name for name in ("position_end", "position_start") if name in own))
        found[query.name] = rows.sort_by([(name, "ascending") for name in order])
    return found


def _show_totals(found: dict[str, pa.Table], crossed: CrossedBytes, seconds: float, console: Console) -> str:
    """Print them; returns them in one line."""
    # Every event is in six of the overlapping minutes.
    count = (pc.sum(found["average"].column("event_count")).as_py() or 0) // 6
    rows = sum(table.num_rows for table in found.values())
    raw, sent = count * EVENT_BYTES, crossed.shuffle
    what = f"{count:,} events, {len(found)} queries, {rows:,} result rows"
    stayed = f"{_size(raw)} of events stayed where they were born"
    travelled = f"{_size(sent)} travelled instead, {sent / max(raw, 1):.1%} of them"
    console.print(
        f"\n[bold]{what}[/bold] in {seconds:.1f} s, {count / seconds / 1e6:.1f} M events/s, generating them included"
    )
    console.print(f"[bold]{stayed}[/bold]; {travelled}")
    return f"{what} in {seconds:.1f} s on Spark. {stayed}; {travelled}."


def _size(nbytes: int) -> str:
    """A readable size.

    >>> _size(1_234_567), _size(999)
    ('1.2 MB', '999 B')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"
