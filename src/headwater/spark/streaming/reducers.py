"""Roots in reducer tasks: several roots share the keys of a stream that has too many for the driver.

Each root has states below the stream's checkpoint, which its task finds wherever it runs; what it says after a batch travels with
its rows. All hear of the same progress, so all take the same decisions; what the leaves are told is what the first of them says,
and the driver's directive names the states of all. A state that it does not name is litter: a task of a driver that was replaced
may write as long as it likes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.node import RootNode
from headwater.protocols.actions import Noted
from headwater.spark.batch.root import parts_of
from headwater.spark.shuffles import by_number
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.planning import Offset
from headwater.spark.tasks import bug, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What comes out of a root's task: the offset of the batch as JSON, tables ("rows", "aside") as Arrow streams, and at last, as
#: JSON, what it says.
TABLES = pa.schema([("root", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
PLANNED, SAID, NOTED = "planned", "said", "noted"
#: The notes that people are told of; those on deltas are long.
TOLD = ("decided", "query added", "query removed", "flushed")


def begin_roots(checkpoint: StreamCheckpoint, owner: int, root: RootNode, roots: int) -> Directive:
    """All roots as they are before the first batch: what they say."""
    return joint([RootHost(checkpoint, owner, number, roots).begin(root, Offset()) for number in range(roots)])


def reduced(
    frames: DataFrame, checkpoint: StreamCheckpoint, owner: int, batch: int, roots: int
) -> tuple[BatchOutput, list[Directive]]:
    """The output of all roots for a batch, and what each says; their states are written by their tasks."""
    by_root = by_number(frames, roots, "bucket")
    found = in_tasks(by_root, TABLES, root_tables, str(checkpoint.path), owner, batch, roots).toArrow()
    outcome = BatchOutput()
    said: dict[int, Directive] = {}
    for number, kind, data in zip(found["root"].to_pylist(), found["kind"].to_pylist(), found["data"]):
        if kind == SAID:
            said[number] = Directive.from_data(json.loads(data.as_py()))
        elif kind == PLANNED:
            outcome.offset = Offset.from_data(json.loads(data.as_py()))
        elif kind == NOTED:
            outcome.notes = [Noted(what, detail) for what, detail in json.loads(data.as_py())]
        else:
            tables = outcome.rows if kind == "rows" else outcome.aside
            tables.append(table_from_bytes(data.as_buffer()))
    if sorted(said) != list(range(roots)):
        raise bug(f"of {roots} roots these have done batch {batch}: {sorted(said)}")
    return outcome, [said[number] for number in range(roots)]


def root_tables(
    path: str, owner: int, batch: int, roots: int, frames: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In the task of one root: its rows, and behind them its state. Run again it gives the same and writes the same."""
    found = list(frames)
    buckets = {number for each in found for number in each.column("bucket").unique().to_pylist()}
    if len(buckets) != 1:
        raise bug(f"a task has frames for the roots {sorted(buckets)}")
    (number,) = buckets
    # By what the stream is: another may have begun in the same folder.
    host = _kept_host(path, owner, number, roots, StreamCheckpoint(path).begun().id)
    offset, outcome = host.run(batch, found)
    yield _row(number, PLANNED, json.dumps(offset.to_data()).encode())
    for kind, tables in (("rows", outcome.rows), ("aside", outcome.aside)):
        for table in tables:
            for part in parts_of(table):
                yield _row(number, kind, table_to_bytes(part))
    if number == 0:  # all roots decide the same
        noted = [(note.what, note.detail) for note in outcome.notes if note.what in TOLD]
        yield _row(number, NOTED, json.dumps(noted).encode())
    host.save_state(batch)
    said = host.directive(offset, outcome, host.status(offset, outcome))
    yield _row(number, SAID, json.dumps(said.to_data()).encode())


def _row(number: int, kind: str, data: bytes) -> pa.RecordBatch:
    return pa.record_batch([[number], [kind], [data]], schema=TABLES)


@lru_cache(maxsize=2)
def _kept_host(path: str, owner: int, number: int, roots: int, stream: str) -> RootHost:
    """The host of a root; that of an earlier batch if this worker has run it before: it knows which state it has."""
    return RootHost(StreamCheckpoint(path), owner, number, roots)


def joint(each: Sequence[Directive]) -> Directive:
    """The directives of all roots after a batch, as one."""
    first = each[0]
    if any(other.assigns != first.assigns for other in each):
        raise bug(f"the roots do not agree where to go on after batch {first.batch}")
    return replace(
        first,
        wants_batch=any(other.wants_batch for other in each),
        is_finished=all(other.is_finished for other in each),
        is_behind=any(other.is_behind for other in each),
        status=_together([other.status for other in each]),
        states=tuple(state for other in each for state in other.states),
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
