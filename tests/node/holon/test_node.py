"""Nodes without a root: whatever happens to them, each chain of output is the reference's, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cases import explain_difference
from headwater.cases.hosts import events_batch
from headwater.node.holon.node import HolonNode
from headwater.node.holon.settings import HolonSettings
from headwater.node.holon.shared_program import ProgramPlan, StagePlan
from headwater.node.holon.stages import QueryStage
from headwater.node.holon.tables import SharedTable
from headwater.protocols.peers.decisions import (
    LogEntry,
    PartitionEnded,
    PartitionReturned,
    StepClosed,
    entry_from_bytes,
)
from headwater.protocols.steps import StepGrid
from headwater.reference.canonical_steps import (
    ClosedWithout,
    EndsAt,
    GoesOn,
    SteppingDecision,
    rows_of_decided_steps,
    rows_of_steps,
)
from headwater.reference.rows import ResultRow
from headwater.simulator.checks.checkers import result_rows
from holon_strategies import Partitions, partitions
from node.holon.small_world import SharedStores, SmallWorld
from strategies import SCHEMA


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
    stages = (StagePlan(QueryStage, QueryStage),) if seed % 4 == 0 else (StagePlan(once=QueryStage),)
    plan = ProgramPlan(tuple(given.events), StepGrid(given.every), (table,), stages)

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
    assert_rows(world, [row for _, rows in rows_of_steps(given.settings, given.events, given.every) for row in rows])


def assert_rows(world: SmallWorld, wanted: list[ResultRow]) -> None:
    """Every chain of output holds these rows: all stages here give what comes out of the queries."""
    plan = next(iter(world.hosts.values())).node.plan
    for chain in [chain for level in range(1, len(plan.stages) + 1) for chain in plan.chains(level)]:
        found = world.stores.rows(chain)
        assert not (text := explain_difference(wanted, found)), f"{chain}: {text}"
        assert [row[:4] for row in wanted] == [row[:4] for row in found], chain


def decision_of(entry: LogEntry, every: int) -> SteppingDecision:
    """An entry of the decision log, as the reference writes it."""
    match entry:
        case StepClosed(step, out):
            return ClosedWithout(step * every, out)
        case PartitionReturned(partition):
            return GoesOn(partition)
        case PartitionEnded(ends):
            return EndsAt(ends)
    raise AssertionError(f"nobody decides {entry}")


def assert_decided(world: SmallWorld, given: Partitions) -> None:
    """The output is the reference's by the decisions that are in the log."""
    decisions = [decision_of(entry_from_bytes(entry), given.every) for entry in world.stores.log]
    steps = rows_of_decided_steps(given.settings, given.events, given.every, decisions)
    assert_rows(world, [row for _, rows in steps for row in rows])


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


@settings(max_examples=30)
@given(partitions(), st.integers(0, 2**32))
def test_loss_order_and_crashes_change_nothing(given: Partitions, seed: int) -> None:
    """Frames are lost, doubled, overtaken; nodes die at any moment and come back with a checkpoint, without, or never."""
    world = world_of(given, seed, loss=world_loss(seed), ticks_max=4)
    names = ["a", "b", "c", "d"][: 2 + seed % 3]
    for name in names:
        world.start(name)
    for _ in range(40):
        let_come(world, given)
        world.run(world.dice.randint(1, 3))
        disturb(world, names)
    heal(world, names)
    finish(world, given)
    assert_right(world, given)


def world_loss(seed: int) -> float:
    return [0.0, 0.1, 0.3][seed % 3]


def disturb(world: SmallWorld, names: list[str]) -> None:
    """Something happens to the nodes, or nothing."""
    name = world.dice.choice(names)
    match world.dice.randint(0, 12):
        case 0:
            world.kill(name)
        case 1:
            world.kill(name)
            world.stores.checkpoints.pop(name, None)
        case 2 if name not in world.hosts:
            world.start(name, world.stores.checkpoints.get(name))
        case 3 if name not in world.hosts:
            world.start(name, list(world.stores.checkpoints.values()))
        case 4 if name in world.hosts:
            world.paused.add(name)
        case 5:
            world.paused.discard(name)
        case 6:
            world.cut_off ^= {name}
        case 7:
            world.stores.lose_power()
            for one in names:
                world.kill(one)


def heal(world: SmallWorld, names: list[str]) -> None:
    """All nodes are there, and reach each other."""
    world.paused.clear()
    world.cut_off.clear()
    for name in names:
        if name not in world.hosts:
            world.start(name, world.stores.checkpoints.get(name))


@given(partitions(), st.integers(0, 2**32))
def test_rows_that_a_loss_of_power_took_are_made_again_by_others(given: Partitions, seed: int) -> None:
    """One machine loses its power: rows that were not synced are gone, though others have heard what they stand for."""
    world = world_of(given, seed)
    for name in "abc":
        world.start(name)
    for _ in range(30):
        let_come(world, given)
        world.run(1)
        if world.dice.random() < 0.1:
            name = world.dice.choice("abc")
            world.stores.lose_power()
            world.kill(name)
            world.start(name, world.stores.checkpoints.get(name))
    finish(world, given)
    world.run(10)
    assert_right(world, given)


IDLE = HolonSettings(idle_ns=400_000_000)


def let_some_come(world: SmallWorld, given: Partitions) -> None:
    """Some partitions are silent for a while."""
    names = [name for name in given.events if world.dice.random() < 0.6]
    for name in names:
        there = world.stores.there[name]
        world.stores.there[name] = min(len(given.events[name]), there + world.dice.randint(0, 2))


@given(partitions(), st.integers(0, 2**32))
def test_idle_partitions_return_with_everything_that_is_not_late(given: Partitions, seed: int) -> None:
    world = world_of(given, seed, IDLE)
    for name in "abc":
        world.start(name)
    for _ in range(15):
        let_some_come(world, given)
        world.run(world.dice.choice([1, 3, 30]))
    finish(world, given)
    assert_decided(world, given)


@settings(max_examples=30)
@given(partitions(), st.integers(0, 2**32))
def test_decisions_hold_whatever_happens(given: Partitions, seed: int) -> None:
    """Partitions fall idle and return while frames are lost, and nodes die, pause, and come back."""
    world = world_of(given, seed, IDLE, loss=world_loss(seed), ticks_max=4)
    names = ["a", "b", "c", "d"][: 2 + seed % 3]
    for name in names:
        world.start(name)
    for _ in range(25):
        let_some_come(world, given)
        world.run(world.dice.choice([1, 3, 20]))
        disturb(world, names)
    heal(world, names)
    finish(world, given)
    assert_decided(world, given)
