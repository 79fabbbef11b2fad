"""Typical mistakes of new users: what they write, and the message they get. docs/messages.md is made of them.

Each is a program over ``events``, a table of one house's readings, its DataFrame ``df``, the session ``spark`` and the folder
``place``, in which ``place/events`` holds the same events as Parquet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headwater as hw

OUT = Path(__file__).resolve().parents[2] / "docs" / "messages.md"
HEAD = """# Typical mistakes, and what headwater says

Each of these programs was run and its message taken down; `tests/spark/test_messages_page.py` runs them again and compares
(`REWRITE=1` writes the page anew). `events` is a table with the columns `at` (timestamps), `ts` (Unix seconds as floats), `house`
and `load`; `df` is a DataFrame of it, `spark` the session, and `place` a folder below which the same events lie as
Parquet. Nothing runs before a call is right as a whole.
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Mistake:
    """``title``: what went wrong, in the words of whoever did it."""

    title: str
    program: str


def m(title: str, program: str) -> Mistake:
    return Mistake(title, program.strip())


MISTAKES = [
    # --- queries ---
    m("A column that is not there", 'hw.run(events, hw.query("q", hw.tumbling("1 min"), s=hw.sum("lod")), time="at")'),
    m(
        "A key that is not there",
        'hw.run(events, hw.query("q", hw.tumbling("1 min"), keys=["hous"], n=hw.count()), time="at")',
    ),
    m("A duration with a unit that does not exist", 'hw.query("q", hw.tumbling("10 sek"), n=hw.count())'),
    m("A window of no size", 'hw.query("q", hw.tumbling("0 s"), n=hw.count())'),
    m("A slide of zero", 'hw.query("q", hw.sliding("1 min", "0 s"), n=hw.count())'),
    m(
        "A number as a duration over timestamps",
        'hw.run(events, hw.query("q", hw.tumbling(10), n=hw.count()), time="at")',
    ),
    m("A quantile in percent", 'hw.query("q", hw.tumbling("1 min"), p99=hw.quantile("load", 99))'),
    m("Python's `and` between conditions", '(hw.col("load") > 1) and (hw.col("load") < 6)'),
    m("`by` instead of `keys`", 'hw.query("q", hw.tumbling("1 min"), by=["house"], n=hw.count())'),
    m("A query without aggregates", 'hw.query("q", hw.tumbling("1 min"))'),
    m("The sum of text", 'hw.run(events, hw.query("q", hw.tumbling("1 min"), s=hw.sum("house")), time="at")'),
    m(
        "Two queries of one name",
        """
q = hw.query("q", hw.tumbling("1 min"), n=hw.count())
hw.run(events, [q, q], time="at")
""",
    ),
    m("A negative lateness", 'hw.query("q", hw.tumbling("1 min"), n=hw.count(), lateness="-5 s")'),
    # --- times ---
    m("Another column of times than there is", 'hw.run(events, hw.query("q", hw.tumbling("1 min"), n=hw.count()))'),
    m("Unix seconds as floats", 'hw.run(events, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="ts")'),
    m("A column of text as time", 'hw.run(events, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="house")'),
    # --- doors ---
    m("A path given to `hw.run`", 'hw.run("events/", hw.query("q", hw.tumbling("1 min"), n=hw.count()))'),
    m(
        "A table given to `hw.aggregate`",
        'hw.aggregate(events, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="at")',
    ),
    m(
        "A DataFrame given to `hw.read`",
        'hw.read(spark, df, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="at")',
    ),
    m("The session forgotten", 'hw.read("events/", hw.query("q", hw.tumbling("1 min"), n=hw.count()))'),
    m(
        "A folder that is not there",
        'hw.read(spark, place / "event", hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="at")',
    ),
    m(
        "A bucket instead of a folder",
        'hw.read(spark, "s3://bucket/events", hw.query("q", hw.tumbling("1 min"), n=hw.count()))',
    ),
    m(
        "`disorder` for a batch DataFrame",
        'hw.aggregate(df, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="at", disorder="5 s")',
    ),
    m(
        "A streaming DataFrame of which nobody says how late events may be",
        """
stream = spark.readStream.format("rate").load()
hw.aggregate(stream, hw.query("q", hw.tumbling("1 min"), n=hw.count()), time="timestamp")
""",
    ),
    m(
        "An own aggregate of a notebook's cell",
        """
spread = hw.aggregate_of("spread", lambda v: v.max() - v.min(), max, float, 0.0)
hw.read(spark, place / "events", hw.query("q", hw.tumbling("1 min"), s=hw.apply(spread, "load")), time="at")
""",
    ),
    # --- streams ---
    m("A file given to `hw.stream`", 'stream(place / "events" / "1.parquet", queries)'),
    m("A new stream without queries", 'stream(place / "events")'),
    m("A bucket as a sink", 'stream(place / "events", queries, sink="s3://bucket/windows")'),
    m("The name of a table as a sink", 'stream(place / "events", queries, sink="main.iot.windows")'),
    m("The name of a format as a sink", 'stream(place / "events", queries, sink="parquet")'),
    m("A sink for a query that there is not", 'stream(place / "events", queries, sink={"qq": "memory"})'),
    m("A trigger that Spark would not understand", 'stream(place / "events", queries, trigger="every minute")'),
    m(
        "A bucket for the checkpoint",
        'hw.stream(spark, place / "events", queries, checkpoint="s3://bucket/checkpoint", time="at")',
    ),
    m("A port for the page as text", 'stream(place / "events", queries, page="8080")'),
    m("A number as `idle`", 'stream(place / "events", queries, idle=30)'),
]
#: What programs of streams leave out here, so that each shows what matters.
QUERIES = [hw.query("q", hw.tumbling("1 min"), n=hw.count())]


def events() -> pa.Table:
    at = [START + timedelta(seconds=number) for number in range(120)]
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "ts": [each.timestamp() for each in at],
            "house": ["a", "b"] * 60,
            "load": [float(number % 7) for number in range(120)],
        }
    )


def prepare(place: Path) -> pa.Table:
    """The folder that programs speak of; the events in it."""
    made = events()
    (place / "events").mkdir()
    pq.write_table(made, place / "events" / "1.parquet")
    return made


def message(mistake: Mistake, spark: Any, place: Path, made: pa.Table, df: Any) -> str:
    """What a program says that is wrong."""

    def stream(source: Any, queries: Any = None, **given: Any) -> Any:
        return hw.stream(spark, source, queries, checkpoint=place / "checkpoint", time="at", **given)

    names = {"hw": hw, "spark": spark, "place": place, "events": made, "df": df, "stream": stream, "queries": QUERIES}
    try:
        exec(mistake.program, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace(f"{place}/", "").replace(str(place), ".")
    raise AssertionError(f"{mistake.title}: nobody minded")


def page(spark: Any, place: Path) -> str:
    made = prepare(place)
    df = spark.createDataFrame(made.to_pandas())
    parts = [HEAD]
    for mistake in MISTAKES:
        said = message(mistake, spark, place, made, df)
        program = re.sub(r"\bstream\((place[^,)]*)", r"hw.stream(spark, \1", mistake.program)
        program = program if program == mistake.program else program[:-1] + ', checkpoint=..., time="at")'
        parts.append(f"## {mistake.title}\n\n```text\n{program}\n```\n\n> {said}\n".replace("\n    ", " "))
    return "\n".join(parts)
