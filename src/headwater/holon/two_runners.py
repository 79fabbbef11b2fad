"""Is a function deterministic? Two nodes run it over the same partitions, in batches and at moments that a seed draws."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError, shown
from headwater.holon.run import input_of, tables_of
from headwater.language.functions.program import program_of
from headwater.node.holon.functions.plans import plan_of
from headwater.node.holon.shared_program import ProgramPlan, SharedProgram
from headwater.node.holon.stages import Output
from headwater.protocols.peers.decisions import PartitionEnded
from headwater.protocols.windowed_crdt import Prefix

#: A run that does nothing new for so many turns stands still.
TURNS_IDLE_MAX = 200


class NotDeterministicError(HeadwaterError, AssertionError):
    """Two runners gave different rows for one index of a chain."""


def check_function(
    thing: Any,
    tables: Mapping[str, Any],
    *,
    time: str = "time",
    unit: str = "us",
    disorder: object = 0,
    every: int | None = None,
    seeds: int = 20,
) -> None:
    """Run a program ``seeds`` times on two nodes that steal partitions from each other, and compare every row.

    What a function gives may depend on its events and on windows that are final, and on nothing else: not on how batches are cut,
    on when windows become final, on clocks, on the order of sets. The first row that does is raised as `NotDeterministicError`.

    >>> import headwater as hw
    >>> class Sizes(hw.ProcessingFunction):
    ...     def events(self, batch):
    ...         yield {"events": len(batch)}
    >>> check_function(Sizes, {"a": pa.table({"time": [1, 2, 3, 4, 5]})}, every=100)
    Traceback (most recent call last):
    headwater.holon.two_runners.NotDeterministicError: chain 'a/0', row 1: one runner gave {'events': 3}, another
        {'events': 1} (seed 1): a function must not depend on how batches are cut, or on anything but events and final windows;
        cut = 4096 in the class cuts them at fixed places
    """
    program = program_of(thing)
    arrow = tables_of(tables)
    plan = plan_of(program, arrow, input_of(arrow, time, unit, disorder, every, False))
    batches = {name: table.combine_chunks() for name, table in arrow.items()}
    known: dict[str, list[str]] = {}
    for seed in range(seeds):
        TwoRunners(plan, batches, Random(seed), known, seed).play()


class TwoRunners:
    """Two nodes that tell each other some of what they know. ``known``: by chain the rows that were given so far, as text."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, pa.Table], dice: Random, known: dict[str, list[str]], seed: int
    ) -> None:
        self._nodes = [SharedProgram(plan), SharedProgram(plan)]
        self._tables = tables
        self._dice = dice
        self._known = known
        self._seed = seed

    def play(self) -> None:
        """Until both nodes have all there is."""
        idle, before = 0, self._standing()
        while not all(node.has_ended for node in self._nodes):
            self._turn()
            now = self._standing()
            idle, before = (idle + 1 if now == before else 0), now
            if idle > TURNS_IDLE_MAX:
                raise NotDeterministicError(
                    "nothing goes on any more: a handler waits for a window that is never final (or for its own)"
                )

    def _standing(self) -> list[Any]:
        return [[prefix.version for prefix in _known_of(node).values()] for node in self._nodes]

    def _turn(self) -> None:
        node = self._dice.choice(self._nodes)
        other = self._nodes[1 - self._nodes.index(node)]
        match self._dice.randrange(6):
            case 0 | 1 | 2:
                self._read(node, self._dice.choice(sorted(self._tables)))
            case 3:  # a unit is begun anew from what is known of it, as by a thief
                node.begin(self._dice.choice(sorted(node.plan.units)))
            case 4:
                node.merge(_known_of(other))
            case 5:
                if self._dice.random() < 0.5 and node.take_world(other.world()):
                    node.running.clear()
                    node.merge(_known_of(other))
        if self._dice.random() < 0.1:
            node.decided.learn(0, PartitionEnded({name: len(table) for name, table in self._tables.items()}))
        for output in node.advance():
            self._take(node, output)

    def _read(self, node: SharedProgram, partition: str) -> None:
        """Some events of a partition, from where the node knows it to be."""
        prefix = node.prefix(partition)
        assert prefix is not None
        start, size = prefix.version.at, len(self._tables[partition])
        if start >= size:
            return
        node.begin(partition)
        end = min(size, start + 1 + int(self._dice.expovariate(1.0) * size / 3))
        middle = self._dice.randint(start, end)
        for begin, stop in ((start, middle), (middle, end)):
            for batch in self._tables[partition].slice(begin, stop - begin).to_batches():
                for output in node.take_in(partition, node.next_index(partition), batch):
                    self._take(node, output)
        if (rest := node.take_open(partition)) is not None:
            self._take(node, rest)

    def _take(self, node: SharedProgram, output: Output) -> None:
        if output.rows is not None:
            self._compare(output.chain, output.index, output.rows)
        node.confirm(output)

    def _compare(self, chain: str, first: int, rows: pa.Table) -> None:
        known = self._known.setdefault(chain, [])
        for index, row in enumerate(rows.to_pylist(), start=first):
            text = shown(row)
            if index < len(known) and known[index] != text:
                raise NotDeterministicError(
                    f"chain {chain!r}, row {index}: one runner gave {known[index]}, another {text} (seed {self._seed}):"
                    " a function must not depend on how batches are cut, or on anything but events and final windows;"
                    " cut = 4096 in the class cuts them at fixed places"
                )
            if index == len(known):
                known.append(text)


def _known_of(node: SharedProgram) -> dict[str, Prefix]:
    """What a node knows of all chains."""
    return {chain: prefix for level in node.levels for chain, prefix in level.prefixes.chains.items()}
