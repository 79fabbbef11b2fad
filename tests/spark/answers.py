"""What the reference says about files of events, and what a DataFrame says, in the same words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater import Query
from headwater.cases import HOSTS, explain_difference
from headwater.cases.hosts import result_rows
from headwater.history import Arrived, Flushed, Joined, Settings
from headwater.reference import ResultRow
from headwater.spark.leaf import LeafTask
from headwater.spark.plan import Plan
from headwater.spark.root import closed

Rows = Sequence[dict[str, Any]]


def expected(files: Mapping[str, Rows], queries: Sequence[Query], disorder: int | None = None) -> list[ResultRow]:
    """Each file is a source, a row's number its offset."""
    names = sorted(files, key=str.encode)
    history = [Joined(name, name) for name in names]
    history += [Arrived(name, i, row, name) for name in names for i, row in enumerate(files[name])]
    played = HOSTS["reference"].play(Settings(tuple(queries), disorder=disorder), [*history, Flushed()])
    return [row for _, rows in played.emitted for row in rows]


def found(frame: Any, queries: Sequence[Query]) -> list[ResultRow]:
    return result_rows(frame.toArrow(), {query.name: query for query in queries})


def without_spark(plan: Plan, queries: Sequence[Query]) -> list[ResultRow]:
    """The tasks of a plan one after the other, and the root behind them."""
    assert plan.root is not None
    plan = Plan.from_text(plan.to_text())
    frames = []
    for number, task in enumerate(plan.tasks):
        leaf = LeafTask(plan.root, f"{number:06d}", [(piece.source, piece.home) for piece in task])
        frames.extend(leaf.run(plan.feeds(number), plan.flush))
    frames.sort(key=lambda frame: frame.column("position")[0].as_py())
    named = {query.name: query for query in queries}
    return [row for table in closed(plan.root, frames, plan.flush) for row in result_rows(table, named)]


def assert_same(wanted: Sequence[ResultRow], rows: Sequence[ResultRow]) -> None:
    """The same rows in any order: a DataFrame has none."""
    text = explain_difference(wanted, rows)
    assert not text, text


def write(folder: Path, files: Mapping[str, Rows], schema: pa.Schema) -> Path:
    """Parquet files of several row groups."""
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path, row_group_size=3)
    return folder
