"""Nodes without a root: whatever happens to them, each chain of output is the reference's, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cases import explain_difference
from headwater.cases.hosts import events_batch
from headwater.node.holon.node import HolonNode
from headwater.node.holon.settings import HolonSettings
from headwater.node.holon.shared_program import ProgramPlan
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.reference.canonical_steps import rows_of_steps
from headwater.simulator.checks.checkers import result_rows
from holon_strategies import Partitions, partitions
from node.holon.small_world import SharedStores, SmallWorld
from strategies import SCHEMA

CHAIN = "*/1"


def stores_of(given: Partitions) -> SharedStores:
    """The stores of a job, all events in the logs."""
    queries = {query.name: query for query in given.settings.queries}

    def row_of(rows: pa.Table) -> Sequence[object]:
        return result_rows(rows, queries)

    logs = {name: [events_batch(events, SCHEMA, None)] for name, events in given.events.items()}
    return SharedStores(logs, row_of, there=dict.fromkeys(logs, 0))


def world_of(
    given: Partitions, seed: int, settings: HolonSettings | None = None, loss: float = 0, ticks_max: int = 0
) -> SmallWorld:
    table = SharedTable(0, given.settings.queries, SCHEMA, disorder=given.settings.disorder)
    plan = ProgramPlan(tuple(given.events), StepGrid(given.every), (table,))

    def make(name: str, checkpoint: object) -> HolonNode:
        return HolonNode(name, plan, settings or HolonSettings(), checkpoint)

    return SmallWorld(stores_of(given), make, seed, loss, ticks_max)


def let_come(world: SmallWorld, given: Partitions) -> None:
    """Some more events are there."""
    for name, events in given.events.items():
        there = world.stores.there[name]
        world.stores.there[name] = min(len(events), there + world.dice.randint(0, 3))


def finish(world: SmallWorld, given: Partitions) -> None:
    """All events are there, and the job is flushed: everything comes out."""
    world.stores.there = {name: len(events) for name, events in given.events.items()}
    world.flush()
    world.settle()


def assert_right(world: SmallWorld, given: Partitions) -> None:
    wanted = [row for _, rows in rows_of_steps(given.settings, given.events, given.every) for row in rows]
    found = world.stores.rows(CHAIN)
    assert not (text := explain_difference(wanted, found)), text
    assert [row[:4] for row in wanted] == [row[:4] for row in found]


@given(partitions(), st.integers(0, 2**32))
def test_rows_of_nodes_are_those_of_the_reference(given: Partitions, seed: int) -> None:
    world = world_of(given, seed)
    for name in ("a", "b", "c")[: world.dice.randint(1, 3)]:
        world.start(name)
    for _ in range(10):
        let_come(world, given)
        world.run(2)
    finish(world, given)
    assert_right(world, given)
