"""Roots in reducer tasks: several roots share the keys of a stream that has too many for the driver.

Each root has a checkpoint below the stream's, which its task finds wherever it runs. All hear of the same progress, so all take
the same decisions; what the leaves are told is what the first of them says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.node import RootNode
from headwater.spark.batch.root import parts_of
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.planning import Offset
from headwater.spark.tasks import bug, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What comes out of a root's task: when the batch was planned, as a number, and tables, as Arrow streams.
TABLES = pa.schema([("kind", pa.string()), ("table", pa.binary())])


def root_place(checkpoint: StreamCheckpoint, number: int) -> StreamCheckpoint:
    return StreamCheckpoint(checkpoint.path / "roots" / f"{number:03d}")


def begin_roots(checkpoint: StreamCheckpoint, root: RootNode, roots: int) -> None:
    """All roots as they are before the first batch, and what they say."""
    for number in range(roots):
        place = root_place(checkpoint, number)
        place.prepare()
        RootHost(place).begin(root, Offset())
    checkpoint.write_queries(root.assignments.query_text)
    checkpoint.write_directive(-1, said(checkpoint, -1, roots).to_data())


def reduced(frames: DataFrame, checkpoint: StreamCheckpoint, batch: int, roots: int) -> BatchOutput:
    """The output of all roots for a batch; their states are written by their tasks."""
    by_root = frames.repartitionById(roots, "bucket")
    found = in_tasks(by_root, TABLES, root_tables, str(checkpoint.path), batch).toArrow()
    outcome = BatchOutput()
    for kind, data in zip(found["kind"].to_pylist(), found["table"]):
        if kind == "planned":
            outcome.now_ns = int(data.as_py())
            continue
        tables = outcome.rows if kind == "rows" else outcome.aside
        tables.append(table_from_bytes(data.as_buffer()))
    return outcome


def root_tables(path: str, batch: int, frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the task of one root: its rows, and behind them its state. Run again it gives the same and writes the same."""
    found = list(frames)
    buckets = {number for each in found for number in each.column("bucket").unique().to_pylist()}
    if len(buckets) != 1:
        raise bug(f"a task has frames for the roots {sorted(buckets)}")
    host = _host(path, buckets.pop())
    offset, outcome = host.run(batch, found)
    yield pa.record_batch([["planned"], [str(offset.now_ns).encode()]], schema=TABLES)
    for kind, tables in (("rows", outcome.rows), ("aside", outcome.aside)):
        for table in tables:
            for part in parts_of(table):
                yield pa.record_batch([[kind], [table_to_bytes(part)]], schema=TABLES)
    host.save_state(batch)
    host.write_directive(host.directive(offset, outcome, host.status(offset, outcome)))


def _host(path: str, number: int) -> RootHost:
    """The host of a root; that of an earlier batch if this worker has run it before: it knows whether it is up to date."""
    # By what the stream is: another may have begun in the same folder.
    return _kept_host(path, number, StreamCheckpoint(path).begun().id)


@lru_cache(maxsize=2)
def _kept_host(path: str, number: int, stream: str) -> RootHost:
    checkpoint = StreamCheckpoint(path)
    return RootHost(root_place(checkpoint, number), checkpoint)


def said(checkpoint: StreamCheckpoint, batch: int, roots: int) -> Directive:
    """The directives of all roots after a batch, as one."""
    first, *_ = each = [root_place(checkpoint, number).said(batch) for number in range(roots)]
    if any(other.assigns != first.assigns for other in each):
        raise bug(f"the roots do not agree where to go on after batch {batch}")
    text = root_place(checkpoint, 0).queries(first.queries)
    return replace(
        first,
        queries=checkpoint.write_queries(text),
        wants_batch=any(other.wants_batch for other in each),
        is_finished=all(other.is_finished for other in each),
        is_behind=any(other.is_behind for other in each),
        status=_together([other.status for other in each]),
    )


def _together(statuses: Sequence[Any]) -> dict[str, Any]:
    """The statuses of all roots as one: each has counted its own share of the keys."""
    first = dict(statuses[0])
    if not first:
        return first
    counters: dict[str, Counter[str]] = {}
    links: Counter[str] = Counter()
    for status in statuses:
        links.update(status["link_bytes"])
        for query, counts in status["counters"].items():
            counters.setdefault(query, Counter()).update(counts)
    summed = {name: sum(status[name] for status in statuses) for name in ("rows", "state_bytes", "open_windows")}
    fates = {query: dict(counts) for query, counts in counters.items()}
    return {**first, **summed, "counters": fates, "link_bytes": dict(links)}
