"""Nodes without a root: the rows of a step are the reference's, whoever ran which partition, and however it was told."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headwater.cases import explain_difference
from headwater.cases.hosts import events_batch
from headwater.language.times import FOREVER
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.partition import PartitionRunner
from headwater.node.holon.replica import Replica
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import (
    PrefixDelta,
    delta_from_bytes,
    delta_to_bytes,
    prefix_from_bytes,
    prefix_to_bytes,
)
from headwater.reference.canonical_steps import rows_of_steps
from headwater.reference.rows import ResultRow
from headwater.simulator.checks.checkers import result_rows
from holon_strategies import Partitions, cuts, partitions
from strategies import SCHEMA

Step = tuple[int, list[ResultRow]]


def table_of(given: Partitions) -> SharedTable:
    return SharedTable(0, given.settings.queries, SCHEMA, disorder=given.settings.disorder)


def replica_of(given: Partitions) -> Replica:
    return Replica([table_of(given)], {name: name for name in given.events}, StepGrid(given.every))


def expected(given: Partitions, ends: bool = True) -> list[Step]:
    return list(rows_of_steps(given.settings, given.events, given.every, ends))


def shown(given: Partitions, steps: Iterator[StepRows]) -> list[Step]:
    """What a replica says, as the reference writes it."""
    queries = {query.name: query for query in given.settings.queries}
    return [(step.time, result_rows(step.rows[0], queries) if step.rows else []) for step in steps]


def assert_same(wanted: list[Step], found: list[Step]) -> None:
    """Every step, every row, every revision, in this order."""
    for (time, rows), (_, others) in zip(wanted, found):
        text = explain_difference(rows, others)
        assert not text, f"at step {time}:\n{text}"
        assert [row[:4] for row in rows] == [row[:4] for row in others], f"the order of the rows at step {time}"
    assert [time for time, _ in wanted] == [time for time, _ in found]


def told(delta: PrefixDelta) -> PrefixDelta:
    return delta_from_bytes(delta_to_bytes(delta))


def run_all(given: Partitions, runner: PartitionRunner, upto: int, batches: list[int]) -> Iterator[PrefixDelta]:
    """Everything from where a runner stands up to an index, cut into batches, and what is open then."""
    events = given.events[runner.partition]
    for end in [*(at for at in batches if at < upto), upto]:
        if end > runner.index:
            yield from runner.take_in(runner.index, events_batch(events[runner.index : end], SCHEMA, None))
    if (rest := runner.take_open()) is not None:
        yield rest


@given(partitions(), st.data())
def test_rows_of_steps_are_those_of_the_reference(given: Partitions, data: st.DataObject) -> None:
    replica, found = replica_of(given), []
    for name, events in given.events.items():
        runner = PartitionRunner(name, table_of(given), replica.grid, replica.prefixes.chains[name])
        for delta in run_all(given, runner, len(events), list(data.draw(cuts(len(events))))):
            assert replica.apply(told(delta)) is None
            found += shown(given, replica.advance())
    assert_same(expected(given, ends=False), found)
    for name, events in given.events.items():
        assert replica.end(name, len(events))
    found += shown(given, replica.advance())
    assert_same(expected(given), found)
    assert found[-1][0] == FOREVER and replica.has_ended


@given(partitions(), st.integers(0, 2**32))
def test_loss_order_takeovers_and_worlds_change_nothing(given: Partitions, seed: int) -> None:
    """Two nodes run what they like from wherever their knowledge ends, and tell each other some of it in any order."""
    dice = random.Random(seed)
    nodes = [replica_of(given), replica_of(given)]
    found: list[list[Step]] = [[], []]
    on_the_way: list[tuple[int, PrefixDelta]] = []
    for _ in range(30):
        me = dice.randrange(2)
        replica, name = nodes[me], dice.choice(sorted(given.events))
        match dice.randrange(5):
            case 0 | 1:  # runs a partition for a while, anew from its prefix
                prefix = replica.prefixes.chains[name]
                upto = dice.randint(prefix.version.at, len(given.events[name]))
                runner = PartitionRunner(name, table_of(given), replica.grid, prefix)
                for delta in run_all(given, runner, upto, sorted(dice.choices(range(1, 20), k=2))):
                    assert replica.apply(delta) is None
                    on_the_way.append((1 - me, told(delta)))
            case 2 if on_the_way:  # a delta arrives, perhaps for the second time, perhaps after later ones
                other, delta = dice.choice(on_the_way)
                assert nodes[other].apply(delta) in (None, "gap", "overlap", "duplicate")
            case 3:  # prefixes are told
                others = nodes[1 - me].prefixes.chains
                replica.merge({chain: prefix_from_bytes(prefix_to_bytes(one)) for chain, one in others.items()})
            case 4:
                _follow(given, nodes, found, me)
        found[me] += shown(given, replica.advance())
        replica.forget(dice.choice([replica.steps.step, min(node.steps.step for node in nodes)]), replica.steps.count)
    wanted = expected(given, ends=False)
    for steps in found:
        assert_same(wanted[: len(steps)], steps)


def _follow(given: Partitions, nodes: list[Replica], found: list[list[Step]], me: int) -> None:
    """Take the world of the other node, if it is further; its rows are known there."""
    if nodes[1 - me].steps.step > nodes[me].steps.step:
        assert nodes[me].take_world(nodes[me].read_world(nodes[1 - me].world()), nodes[1 - me].kept)
        found[me] = list(found[1 - me])
