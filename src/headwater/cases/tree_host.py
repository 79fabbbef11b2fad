"""A tree of nodes as a host of cases: leaves slice, relays merge, the root emits; the rows are those of one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.cases.differences import explain_difference
from headwater.cases.hosts import EngineHost, Played, arrow_schema, batch_of, batches, dropped_places, events_batch
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import lift
from headwater.engine.results.aggregates import lower, operators_of
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import RowsPart
from headwater.errors import HeadwaterError
from headwater.language.aggregations import Aggregation
from headwater.node import LeafNode
from headwater.node.relay import merged
from headwater.protocols.events import FlushAsked, IdleAsked, QueryAdded, QueryRemoved, ReturnAsked
from headwater.reference import history as steps
from headwater.reference.rows import ResultRow, row_order
from headwater.simulator.checks.checkers import result_rows
from headwater.simulator.instant import InstantTree

ROOT = "root"
#: A source that is there only to carry a watermark that came before any source, and falls idle at once.
EARLY = "\0early"

#: From sources to the tree: for each node the one above it, and for each source its leaf.
Arrangement = Callable[[Sequence[str]], tuple[dict[str, str], dict[str, str]]]


def as_one(sources: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Everything on one leaf."""
    return {"leaf": ROOT}, dict.fromkeys(sources, "leaf")


def apart(sources: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Each source on a leaf of its own."""
    leaves = {source: f"leaf-{i}" for i, source in enumerate(sources)}
    return dict.fromkeys(leaves.values(), ROOT), leaves


def in_random_tree(seed: int) -> Arrangement:
    """Sources spread over some leaves, below any number of relays."""

    def arrange(sources: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        random = Random(seed)
        relays = [f"relay-{i}" for i in range(random.randint(1, 4))]
        parents = {relay: random.choice([ROOT, *relays[:i]]) for i, relay in enumerate(relays)}
        count = random.randint(1, max(len(sources), 1))
        leaves = [f"leaf-{i}" for i in range(count)]
        parents |= {leaf: random.choice([ROOT, *relays]) for leaf in leaves}
        # A relay without children would be taken for a leaf.
        used = set(parents.values())
        while unused := [relay for relay in relays if relay in parents and relay not in used]:
            for relay in unused:
                del parents[relay]
            used = set(parents.values())
        return parents, {source: random.choice(leaves) for source in sources}

    return arrange


class TreeHost(EngineHost):
    """Plays histories on a tree that is arranged as asked; ``ways``: further settings of the `InstantTree`."""

    def __init__(self, arrangement: Arrangement, **ways: Any) -> None:
        super().__init__()
        self._arrangement = arrangement
        self._ways = ways

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        """Each part leaves its leaf as bytes, a relay merges them, and the root lowers what arrives."""
        values = pa.array([value for part in parts for value in part])
        ops = operators_of(aggregation, values.type)
        frames = [part_frame(ops, pa.array(part, values.type)) for part in parts]
        return finished(aggregation, frames, values.type)

    def play(
        self, settings: steps.StreamSettings, history: Sequence[steps.Step], schema: pa.Schema | None = None
    ) -> Played:
        schema = schema or arrow_schema(history, settings.time)
        sources = sorted(
            {
                step.source
                for step in history
                if isinstance(step, steps.Arrived | steps.Joined | steps.Idle | steps.Returned)
            }
        )
        named = {step.source for step in history if isinstance(step, steps.Advanced) and step.source is not None}
        parents, leaves = self._arrangement(sorted({*sources, *named, EARLY}))
        options: dict[str, Any] = {"time": settings.time, "disorder": settings.disorder, "schema": schema}
        tree = InstantTree(parents, settings.queries, **self._ways, **options)
        homes = {
            step.source: step.node
            for step in reversed(history)
            if isinstance(step, steps.Arrived | steps.Joined) and step.node
        }
        player = Player(tree, leaves, homes, schema, settings.ahead_max)
        queries = {query.name: query for query in settings.queries}
        emitted = []
        for index, step, arrivals in batches(history):
            if arrivals:
                player.push(arrivals)
                continue
            if isinstance(step, steps.Added):
                queries[step.query.name] = step.query
            player.drive(step)
            rows = in_order(result_rows(tree.take_rows(), queries), list(queries))
            if rows:
                emitted.append((index, rows))
        aside = tree.take_aside()
        dropped = frozenset() if aside is None else dropped_places(aside)
        places = frozenset((query, source, player.offsets[source][offset]) for query, source, offset in dropped)
        return Played(emitted, places, tree.root.counters())


class Player:
    """Lets the steps of a history happen to a tree."""

    def __init__(
        self,
        tree: InstantTree,
        leaves: dict[str, str],
        homes: dict[str, str],
        schema: pa.Schema,
        ahead_max: int | None = None,
    ) -> None:
        self._tree = tree
        self._leaves = leaves
        self._homes = homes
        self._schema = schema
        self._ahead_max = ahead_max
        #: For each source the offsets that the history gives: it may leave some out, a log does not.
        self.offsets: dict[str, list[int]] = {}

    def push(self, arrivals: Sequence[steps.Arrived]) -> None:
        first = arrivals[0]
        self._open(first.source)
        known = self.offsets.setdefault(first.source, [])
        fresh = [arrival for arrival in arrivals if not known or arrival.offset > known[-1]]
        known.extend(arrival.offset for arrival in fresh)
        self._tree.push(first.source, events_batch(fresh, self._schema, self._ahead_max))

    def _open(self, source: str) -> None:
        if source not in self._tree.sources:
            self._tree.open(self._leaves[source], source, self._homes.get(source, ""), self._schema)

    def drive(self, step: steps.Step) -> None:
        """Let a step happen that is no arrival."""
        tree = self._tree
        match step:
            case steps.Advanced(None, watermark):
                if not set(tree.sources) - {EARLY}:
                    self._open(EARLY)
                    tree.tell_root(ReturnAsked(EARLY))
                    self._advance(EARLY, watermark)
                    tree.tell_root(IdleAsked(EARLY))
                # The furthest first: then the watermark of all rises once, with the last source, as in one engine.
                live = [source for source in tree.sources if source != EARLY]
                for source in sorted(live, key=self._watermark, reverse=True):
                    self._advance(source, watermark)
            case steps.Advanced(str(source), watermark):
                self._open(source)
                self._advance(source, watermark)
            case steps.Joined(source):
                self._open(source)
            case steps.Idle(source):
                self._open(source)
                tree.tell_root(IdleAsked(source))
            case steps.Returned(source):
                self._open(source)
                tree.tell_root(ReturnAsked(source))
            case steps.Added(query, at):
                tree.tell_root(QueryAdded(query, at))
            case steps.Removed(name, drain):
                tree.tell_root(QueryRemoved(name, drain))
            case steps.Flushed():
                tree.tell_root(FlushAsked())

    def _watermark(self, source: str) -> int:
        leaf = self._tree.nodes[self._leaves[source]]
        assert isinstance(leaf, LeafNode)
        return leaf.watermark(source)

    def _advance(self, source: str, watermark: int) -> None:
        self._tree.push(source, batch_of([], self._schema), watermark)


def part_frame(ops: Sequence[Op], values: pa.Array) -> bytes:
    """All values of one node, as one slice of one key, in the form that travels."""
    places = np.arange(len(values), dtype=np.int64)
    chunk = Chunk(places, places, np.zeros(len(values), np.int32), [""], {"value": read_values(values)})
    here = np.zeros(1, np.int64)
    return part_to_bytes(RowsPart(0, [], here, here, lift(ops, chunk, np.zeros(len(values), np.int32), 1)))


def finished(aggregation: Aggregation, frames: Sequence[bytes], type_: pa.DataType) -> Any:
    """The aggregate of the parts of several nodes, whose values are of this type."""
    (part,) = map(part_from_bytes, merged([[frame] for frame in frames]))
    assert isinstance(part, RowsPart)
    return lower(aggregation, part.partials, type_)[0].as_py()


def in_order(rows: list[ResultRow], names: list[str]) -> list[ResultRow]:
    """Rows of one step that left one after the other, in the order in which one machine gives them."""
    place = {name: i for i, name in enumerate(names)}
    return sorted(rows, key=lambda row: row_order(row, place))


class EveryTree(EngineHost):
    """Plays a history on all arrangements: they must agree to the last row, step by step."""

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        return TreeHost(apart).finish(aggregation, parts)

    def play(
        self, settings: steps.StreamSettings, history: Sequence[steps.Step], schema: pa.Schema | None = None
    ) -> Played:
        first, *others = ARRANGEMENTS
        played = TreeHost(ARRANGEMENTS[first]).play(settings, history, schema)
        for name in others:
            other = TreeHost(ARRANGEMENTS[name]).play(settings, history, schema)
            if repr(other) != repr(played):
                text = explain_difference(_all_rows(played), _all_rows(other))
                raise DisagreementError(
                    f"{first} and {name} disagree:\n{text or 'steps, counters or late events differ'}"
                )
        return played


class DisagreementError(HeadwaterError):
    """Two arrangements of the same sources gave different rows."""


def _all_rows(played: Played) -> list[ResultRow]:
    return [row for _, rows in played.emitted for row in rows]


#: Disco's reading (a leaf for each node that a case names) first.
ARRANGEMENTS: dict[str, Arrangement] = {"each source on its own": apart, "everything on one node": as_one} | {
    f"random tree {seed}": in_random_tree(seed) for seed in range(3)
}
