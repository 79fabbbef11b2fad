"""Hosts of cases: each plays a history step by step, and finishes partials that come from several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headwater.language.aggregations import Aggregation
from headwater.language.time_columns import time_column
from headwater.language.times import duration
from headwater.reference import history as steps
from headwater.reference.aggregates import value_of
from headwater.reference.rows import ReferenceStream, ResultRow, counters, story
from headwater.simulator.checks.checkers import result_rows

Place = tuple[str, str, int]  # query, source, offset


@dataclass(frozen=True, slots=True)
class Played:
    """What a host made of a history: the rows of each step, by its index, the events dropped as late, the counters."""

    emitted: list[tuple[int, list[ResultRow]]]
    dropped: frozenset[Place]
    counters: dict[str, dict[str, int]]


class Host(Protocol):
    """What runs the cases; `kinds` are those it can run."""

    kinds: frozenset[str]

    def play(
        self, settings: steps.StreamSettings, history: Sequence[steps.Step], schema: pa.Schema | None = None
    ) -> Played:
        """Play a history step by step; without a schema the rows' values give the types."""

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        """The aggregate of all parts together, each the values that one node has of its column."""

    def sessions(self, bounds: Sequence[tuple[int, int]], gap: int) -> list[list[int]]:
        """Which of these local sessions [first, last + gap), sorted by start, are one: lists of indices."""


class ReferenceHost:
    """The reference: slow and obvious."""

    kinds = frozenset(("stream", "merge"))

    def play(
        self, settings: steps.StreamSettings, history: Sequence[steps.Step], schema: pa.Schema | None = None
    ) -> Played:
        """Ask the reference."""
        stream = ReferenceStream(settings)
        for step in history:
            stream.take(step)
        dropped = {
            (entry.query.name, event.source.decode(), event.offset)
            for entry in stream.entries
            for event in entry.events
            if stream.fate(entry, event) == "dropped"
        }
        return Played(list(story(settings, history)), frozenset(dropped), counters(settings, history))

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        """All values in one bag."""
        return value_of(aggregation, [{aggregation.column or "": value} for part in parts for value in part])

    def sessions(self, bounds: Sequence[tuple[int, int]], gap: int) -> list[list[int]]:
        """Chain while the next one begins within the reach of all before; to touch is enough."""
        chains: list[list[int]] = []
        for index, (start, _) in enumerate(bounds):
            if chains and start <= max(bounds[other][1] for other in chains[-1]):
                chains[-1].append(index)
            else:
                chains.append([index])
        return chains


class EngineHost:
    """The engine, in any of its modes, driven as a user would drive it: batches in, watermarks up, results out."""

    kinds = frozenset(("stream", "merge"))

    def __init__(self, mode: str = "desis") -> None:
        self._mode = mode
        self._ahead_max: int | None = None

    def play(
        self, settings: steps.StreamSettings, history: Sequence[steps.Step], schema: pa.Schema | None = None
    ) -> Played:
        """Push neighbouring arrivals of one source as a batch, then take every other step and its results."""
        from headwater.local.engine import Engine

        disorder = None if settings.disorder is None else duration(f"{settings.disorder} us")
        engine: Any = Engine(list(settings.queries), time=settings.time, disorder=disorder, mode=self._mode)
        queries = {query.name: query for query in settings.queries}
        schema = schema or arrow_schema(history, settings.time)
        self._ahead_max = settings.ahead_max
        emitted = []
        for index, step, arrivals in batches(history):
            engine = self.changed(engine, index)
            if arrivals:
                self.push(engine, arrivals, schema)
                continue
            if isinstance(step, steps.Added):
                queries[step.query.name] = step.query
            _drive(engine, step)
            # The reference knows ticks; times that are read come out as timestamps.
            table = engine.results().table if time_column(settings.time).is_plain else engine._take()[0]
            rows = result_rows(table, queries)
            if rows:
                emitted.append((index, rows))
        return Played(emitted, dropped_places(engine.side_output()), engine.counters())

    def changed(self, engine: Any, index: int) -> Any:
        """The engine that takes step ``index``: a test may put another in its place."""
        return engine

    def push(self, engine: Any, arrivals: Sequence[steps.Arrived], schema: pa.Schema) -> None:
        """Let the engine take in events of one source: a test may cut them into other batches."""
        first = arrivals[0]
        table = events_batch(arrivals, schema, self._ahead_max)
        engine.push(table, source=first.source, offset=first.offset, node=first.node)

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        """Lift each part into a partial of its own, let it travel as bytes, combine, lower."""
        from headwater.engine.intake.chunk import Chunk
        from headwater.engine.intake.columns import read_values
        from headwater.engine.operators.partials import lift
        from headwater.engine.results.aggregates import lower, operators_of

        values = pa.array([value for part in parts for value in part])
        rows = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
        numbers = np.arange(len(values), dtype=np.int64)
        chunk = Chunk(numbers, numbers, np.zeros(len(values), np.int32), [""], {"value": read_values(values)})
        lifted = lift(operators_of(aggregation, values.type), chunk, rows, len(parts))
        everything = np.array([0], np.int64), np.array([len(parts)], np.int64)
        combined = {
            op: type(column).from_bytes(column.to_bytes()).combine_ranges(*everything) for op, column in lifted.items()
        }
        return lower(aggregation, combined, values.type)[0].as_py()

    def sessions(self, bounds: Sequence[tuple[int, int]], gap: int) -> list[list[int]]:
        """The engine's own chaining."""
        from headwater.engine.windows.sessions import chain

        first = np.array([start for start, _ in bounds], np.int64)
        last = np.array([end - gap for _, end in bounds], np.int64)
        edges = [*chain(first, last, gap).tolist(), len(bounds)]
        return [list(range(low, high)) for low, high in pairwise(edges)]


HOSTS: dict[str, Host] = {"reference": ReferenceHost(), "engine": EngineHost()}


def events_batch(arrivals: Sequence[steps.Arrived], schema: pa.Schema, ahead_max: int | None) -> pa.RecordBatch:
    """The events, with when they arrived if some tell it."""
    from headwater.engine.intake.arrival_columns import with_arrivals, with_limits

    batch = batch_of([arrival.row for arrival in arrivals], schema)
    if all(arrival.arrival is None for arrival in arrivals):
        return batch
    stamps = pa.array([arrival.arrival for arrival in arrivals], pa.int64())
    return with_limits(with_arrivals(batch, stamps), ahead_max, "us")


def arrow_schema(history: Sequence[steps.Step], time: str) -> pa.Schema:
    """One schema for all rows of a history: the time as int64, the others as Arrow infers them from all values."""
    columns: dict[str, list[Any]] = {time: []}
    for step in history:
        if isinstance(step, steps.Arrived):
            for name, value in step.row.items():
                columns.setdefault(name, []).append(value)
    types = {name: pa.array(values).type for name, values in columns.items() if name != time}
    return pa.schema({time: pa.int64()} | types)


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch; values of a wrong type are texts beside their columns.

    >>> batch_of([{"load": None, "\\0load": "many"}], pa.schema({"load": pa.int64()})).to_pylist()
    [{'load': None, '\\x00load': 'many'}]
    """
    wrong = sorted({name for row in rows for name in row if name.startswith(steps.UNREAD)})
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema([*schema, *((name, pa.string()) for name in wrong)]))


def batches(history: Sequence[steps.Step]) -> list[tuple[int, steps.Step, list[steps.Arrived]]]:
    """Neighbouring arrivals of one source, of consecutive offsets, together; every other step alone."""

    def batch(numbered: tuple[int, steps.Step]) -> object:
        index, step = numbered
        return (step.source, step.node, step.offset - index) if isinstance(step, steps.Arrived) else index

    groups = [list(group) for _, group in groupby(enumerate(history), key=batch)]
    return [(*group[-1], [step for _, step in group if isinstance(step, steps.Arrived)]) for group in groups]


def _drive(engine: Any, step: steps.Step) -> None:
    match step:
        case steps.Advanced(source, watermark):
            engine.advance(watermark, source=source)
        case steps.Joined(source, node):
            engine.join(source, node=node)
        case steps.Idle(source):
            engine.idle(source)
        case steps.Returned(source):
            engine.resume(source)
        case steps.Added(query, at):
            engine.add_query(query, at=at)
        case steps.Removed(name, drain):
            engine.remove_query(name, drain=drain)
        case steps.Flushed():
            engine.flush()
        case steps.Emit() | steps.Arrived():
            pass


def dropped_places(side_output: pa.Table) -> frozenset[Place]:
    # Malformed events are there too.
    rows = side_output.select(["query", "reason", "source", "offset"]).to_pylist()
    return frozenset((row["query"], row["source"], row["offset"]) for row in rows if row["reason"] == "too late")
