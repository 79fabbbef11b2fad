"""Micro-batches of rows, what the reference says about them, and what roots for batches say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater import Query
from headwater.cases import HOSTS
from headwater.cases.hosts import Played, result_rows
from headwater.node.micro_batches.frames import BatchSettings, EventGroup, frames, group_name
from headwater.node.micro_batches.root import BatchRoot
from headwater.reference.history import Arrived, Emit, Flushed, Idle, Joined, Returned, Step, StreamSettings
from headwater.reference.rows import ResultRow
from headwater.spark.batch.partition_leaves import depends_on_order
from strategies import SCHEMA

Rows = Sequence[dict[str, Any]]
#: The column of rows that names their source, and is no column of events.
SOURCE = "source"


@dataclass
class MicroBatch:
    """Rows of all sources, when they came, and whether the stream ends with them."""

    rows: Rows
    now_ms: int = 0
    is_last: bool = False


def in_order(events: Rows) -> list[dict[str, Any]]:
    """Rows as Spark sorts them by all columns: nulls first, NaN last, text as bytes. Those without a time come first."""

    def key(value: Any) -> Any:
        if value is None:
            return (0,)
        if isinstance(value, str):
            return 1, value.encode()
        return (2, 0) if value != value else (1, value)

    return sorted(events, key=lambda row: [key(row[name]) for name in SCHEMA.names])


def history_of(batches: Sequence[MicroBatch], idle_ms: int | None = None) -> list[Step]:
    """The same as the reference hears it: new sources first, then each one's rows in order, then decisions."""
    steps: list[Step] = []
    heard: dict[str, int] = {}
    idle: set[str] = set()
    offsets: dict[str, int] = {}
    for batch in batches:
        names = sorted({row.get(SOURCE, "") for row in batch.rows}, key=str.encode)
        for name in names:
            if name not in heard:
                steps.append(Joined(name, name))
            elif name in idle:
                steps.append(Returned(name))
                idle.discard(name)
            heard[name] = batch.now_ms
        for name in names:
            for row in in_order([row for row in batch.rows if row.get(SOURCE, "") == name]):
                event = {column: row[column] for column in SCHEMA.names}
                steps.append(Arrived(name, offsets.get(name, 0), event, name))
                offsets[name] = offsets.get(name, 0) + 1
        steps.append(Emit())
        if batch.is_last:
            steps.append(Flushed())
        elif idle_ms is not None:
            for name in sorted(heard, key=str.encode):
                if name not in idle and heard[name] <= batch.now_ms - idle_ms and len(heard) - len(idle) > 1:
                    idle.add(name)
                    steps.append(Idle(name))
    return steps


def reference(
    batches: Sequence[MicroBatch], queries: Sequence[Query], disorder: int | None, idle_ms: int | None = None
) -> Played:
    return HOSTS["reference"].play(StreamSettings(tuple(queries), disorder=disorder), history_of(batches, idle_ms))


def groups_of(queries: Sequence[Query]) -> tuple[EventGroup, ...]:
    found: dict[str, list[Query]] = {}
    for query in queries:
        found.setdefault(group_name(query), []).append(query)
    made = []
    for name, own in found.items():
        columns = sorted({"time"}.union(*(query.columns() for query in own)))
        ties = tuple(column for column in SCHEMA.names if column != "time")
        made.append(EventGroup(name, tuple(own), tuple(columns), ties if any(map(depends_on_order, own)) else None))
    return tuple(made)


class Buckets:
    """All roots of a stream; before each batch they are made anew from their snapshots."""

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.roots = [BatchRoot(settings) for _ in range(settings.buckets)]
        self.counters: dict[str, dict[str, int]] = {}
        self.aside: list[dict[str, Any]] = []

    def take(self, batch: MicroBatch, partitions: int) -> list[ResultRow]:
        sent: list[list[Any]] = [[] for _ in self.roots]
        shares = [batch.rows[number::partitions] for number in range(partitions)]
        for number, rows in enumerate(shares):
            columns = [{name: row[name] for name in SCHEMA.names} for row in rows]
            events = pa.RecordBatch.from_pylist(columns, schema=SCHEMA)
            sources = pa.array([row.get(SOURCE, "") for row in rows], pa.string())
            ends = pa.array([False] * len(rows) + [True] * (batch.is_last and number == 0), pa.bool_())
            if len(ends) > len(rows):
                events = pa.Table.from_batches([events, events.slice(0, 0)])
                extra = pa.Table.from_pylist([dict.fromkeys(SCHEMA.names)], schema=SCHEMA)
                events = pa.concat_tables([events, extra]).combine_chunks().to_batches()[0]
                sources = pa.concat_arrays([sources, pa.array(["the end"])])
            settings = self.settings
            told = {"time": settings.time, "unit": settings.unit, "sources": sources, "last": ends}
            for bucket, frame in frames(events, settings.groups, settings.buckets, **told):
                sent[bucket].append(type(frame).from_bytes(frame.to_bytes()))
        rows = []
        for number, frames_of_bucket in enumerate(sent):
            root = BatchRoot.restore(self.roots[number].snapshot(), self.settings)
            self.roots[number] = root
            rows += self._heard(root.take(frames_of_bucket, batch.now_ms))
        return rows

    def _heard(self, outcome: Any) -> list[ResultRow]:
        queries = {query.name: query for group in self.settings.groups for query in group.queries}
        for account in outcome.accounts:
            total = self.counters.setdefault(account["query"], {})
            for name, count in account.items():
                if name != "query":
                    total[name] = total.get(name, 0) + count
        self.aside += [row for table in outcome.aside for row in table.to_pylist()]
        return [row for table in outcome.rows for row in result_rows(table, queries)]

    def change(self, queries: Sequence[Query]) -> None:
        self.settings = replace(self.settings, groups=groups_of(queries))
