"""What the reference says about files of events, and what a DataFrame says, in the same words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater import Query
from headwater.cases import HOSTS, explain_difference
from headwater.cases.hosts import result_rows
from headwater.reference.history import Arrived, Flushed, Joined, StreamSettings
from headwater.reference.rows import ResultRow
from headwater.spark.batch.leaf import LeafTask
from headwater.spark.batch.plan import ReadPlan
from headwater.spark.batch.root import closed, merged

Rows = Sequence[dict[str, Any]]


def expected(
    files: Mapping[str, Rows],
    queries: Sequence[Query],
    disorder: int | None = None,
    homes: Mapping[str, str] | None = None,
) -> list[ResultRow]:
    """Each file is a source, a row's number its offset; it is at home in its folder, or where ``homes`` says."""
    names = sorted(files, key=str.encode)
    known = {name: name.rpartition("/")[0] or "." for name in names} | dict(homes or {})
    history = [Joined(name, known[name]) for name in names]
    history += [Arrived(name, i, row, known[name]) for name in names for i, row in enumerate(files[name])]
    played = HOSTS["reference"].play(StreamSettings(tuple(queries), disorder=disorder), [*history, Flushed()])
    return [row for _, rows in played.emitted for row in rows]


def first_letter(name: str) -> str:
    """The source of a file: those that begin alike belong together, wherever they lie."""
    return name[0]


def found(frame: Any, queries: Sequence[Query]) -> list[ResultRow]:
    return result_rows(frame.toArrow(), {query.name: query for query in queries})


def without_spark(plan: ReadPlan, queries: Sequence[Query], roots: int = 1, relays: int = 0) -> list[ResultRow]:
    """The tasks of a plan one after the other, relays that so many of them share, and the roots behind."""
    assert plan.root is not None
    plan = ReadPlan.from_text(plan.to_text())
    frames = []
    for number, task in enumerate(plan.tasks):
        leaf = LeafTask(plan.root, number, [(piece.source, piece.home) for piece in task], roots)
        frames.extend(leaf.run(plan.feeds(number), plan.flush))
    sent = pa.Table.from_batches(frames)
    if relays:
        numbers = pc.divide(sent["chain"].cast(pa.int32()), relays)
        sent = pa.Table.from_batches(merged(shuffled(sent.set_column(0, "relay", numbers)).to_batches()))
    return closed_rows(plan.root, sent.to_batches(), queries, roots, plan.flush)


def shuffled(frames: pa.Table) -> pa.Table:
    """Frames in any order, as Spark may bring them; the same one each time."""
    return frames.take(pa.array(np.random.default_rng(len(frames)).permutation(len(frames))))


def closed_rows(
    root: bytes, frames: Sequence[pa.RecordBatch], queries: Sequence[Query], roots: int, flush: bool = True
) -> list[ResultRow]:
    """What all roots make of the frames of all leaves."""
    sent = shuffled(pa.Table.from_batches(frames))
    named = {query.name: query for query in queries}
    found = []
    for number in range(roots):
        own = sent.filter(pc.equal(sent["bucket"], number)).to_batches()
        found += [row for table in closed(root, own, flush) for row in result_rows(table, named)]
    return found


def told(plan: ReadPlan, output: str) -> list[dict[str, Any]]:
    """What the tasks of a plan and one root tell beside results: "accounts", or the events set "aside"."""
    assert plan.root is not None
    plan = ReadPlan.from_text(plan.to_text())
    frames = []
    for number, task in enumerate(plan.tasks):
        leaf = LeafTask(plan.root, number, [(piece.source, piece.home) for piece in task])
        frames.extend(leaf.run(plan.feeds(number), plan.flush))
    sent = pa.Table.from_batches(frames).sort_by([("position", "ascending"), ("chain", "ascending")])
    return [row for table in closed(plan.root, sent.to_batches(), plan.flush, output) for row in table.to_pylist()]


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
