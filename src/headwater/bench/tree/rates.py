"""How fast nodes are: a relay, the root and a leaf alone, a tree that grows, and the simulator. All in processor time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.bench.common.queries import scan_query
from headwater.bench.common.report import Report, at_least, at_most
from headwater.bench.common.timing import in_turns
from headwater.bench.common.workload import SECOND, SEED, EventColumns
from headwater.bench.tree.cells import MeasuredTree
from headwater.bench.tree.stream import RATE, ROOT, SCHEMA, Shape
from headwater.node import LeafNode, NodeSettings, RelayNode, RootNode
from headwater.protocols.actions import Action, EmitRows, SendMessage
from headwater.protocols.delta import Delta
from headwater.protocols.events import BatchArrived, FlushAsked, MessageReceived, SourceOpened, Started, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions, decode, encode
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.world.machine import Machine, Maker
from headwater.simulator.world.topology import tree
from headwater.simulator.world.world import World

#: What a leaf sends here is never accepted: it must not wait for that.
UNBOUNDED = NodeSettings(steps_max=1 << 30)

REPEATS = 5
MILLION = 1_000_000
SECOND_NS = 1_000_000_000
CHILDREN = (1, 4, 16, 64)
KEYS = 10_000


@dataclass
class RateBench:
    """One run of the figures about speed; ``root_rows``: rows per second by the number of children, for the plots."""

    report: Report
    root_rows: dict[int, float] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """Of how many runs the best counts."""
        return 2 if self.report.quick else REPEATS

    def rounds(self, full: int) -> int:
        """How many seconds of children's frames are made."""
        return max(2, full // 4) if self.report.quick else full

    def best(self, *works: Callable[[], Callable[[], int]], times: int = 1) -> list[tuple[float, int]]:
        """The least processor time of each piece of work, and what it counted; they take turns.

        Each is prepared anew each time, and only what the preparation returns is timed. ``times``: what takes only
        milliseconds needs more runs by this factor.
        """
        timed = [partial(_timed, prepare) for prepare in works]
        return [min(runs) for runs in in_turns(timed, self.repeats * times)]


def _timed(prepare: Callable[[], Callable[[], int]]) -> tuple[float, int]:
    work = prepare()
    gc.collect()
    start = time.process_time()
    counted = work()
    return time.process_time() - start, counted


def relay(bench: RateBench) -> None:
    """One relay with sixteen children, each with every key in every second."""
    made = children(16, KEYS, bench.rounds(8))
    ((seconds, rows),) = bench.best(lambda: lambda: relay_merges(made))
    note = f"16 children, {KEYS:,} keys each: {rows:,} rows decoded, merged and encoded in {seconds:.2f} s"
    bench.report.add("relay_partials_rate", rows / seconds / MILLION, "M/s", at_least(1), note)


def root(bench: RateBench) -> None:
    """The root with more and more children; a window is a result row, of one second and key."""
    for count in CHILDREN:
        made = children(count, KEYS, bench.rounds(8))
        ((seconds, rows),) = bench.best(partial(_prepared_root, made))
        bench.root_rows[count] = rows / seconds
        taken = made.rows_per_round * len(made.rounds)
        note = f"{rows:,} rows of results from {taken:,} of partials: {taken / seconds / MILLION:.2f} M/s of these"
        bound = at_least(0.2) if count == 16 else None
        name = "root_windows_rate" if count == 16 else f"root_windows_rate_{count}_children"
        bench.report.add(name, rows / seconds / MILLION, "M/s", bound, note)


def _prepared_root(made: Children) -> Callable[[], int]:
    return partial(root_closes, RootNode.restore(made.root), made)


def second_batches(events: int) -> list[pa.RecordBatch]:
    """Sorted events of ten keys, a batch for each second of the usual rate."""
    data = EventColumns(events)
    # The workload has fewer events a second; here its time runs faster.
    times = data.times // (RATE // (events // data.seconds))
    table = pa.table({"time": times, "key": data.keys, "value": data.values})
    return list(table.combine_chunks().to_batches(max_chunksize=RATE))


def leaf(bench: RateBench) -> None:
    """A leaf, which gathers and sends once a second, against the plain engine on the same batches."""
    batches = second_batches(MILLION)

    def as_leaf() -> Callable[[], int]:
        top = RootNode(ROOT, [scan_query("value")], disorder=0)
        node = joined(top, "leaf-0")
        return lambda: leaf_reads(node, batches)

    def as_engine() -> Callable[[], int]:
        engine = hw.Engine([scan_query("value")], time="time", unit="us", disorder=0)
        return lambda: engine_reads(engine, batches)

    (of_leaf, events), (of_engine, _) = bench.best(as_leaf, as_engine, times=5)
    note = f"{events / of_leaf / MILLION:.0f} and {events / of_engine / MILLION:.0f} M events/s"
    bench.report.add("leaf_overhead", of_engine / of_leaf, "ratio", at_least(0.8), note)


def leaf_reads(node: LeafNode, batches: list[pa.RecordBatch]) -> int:
    """Read the batches and send after each; returns how many events there were."""
    offset = 0
    for batch in batches:
        node.handle(BatchArrived("leaf-0", offset, batch), 0)
        node.handle(TimerFired("send"), 0)
        offset += len(batch)
    return offset


def engine_reads(engine: hw.Engine, batches: list[pa.RecordBatch]) -> int:
    """Push the batches; windows close as their watermark rises."""
    for batch in batches:
        engine.push(batch)
    return sum(map(len, batches))


def growing_tree(bench: RateBench) -> None:
    """The whole tree, leaves and root, with eight leaves and with one; each leaf reads the same."""
    batches = second_batches(MILLION // (4 if bench.report.quick else 1))

    def of(leaves: int) -> Callable[[], Callable[[], int]]:
        def prepare() -> Callable[[], int]:
            made = MeasuredTree(Shape(leaves, ()).parents(), [scan_query("value")], disorder=0)
            for number in range(leaves):
                made.open_all(f"leaf-{number}", [str(number)])
            made.settle()
            return lambda: tree_reads(made, leaves, batches)

        return prepare

    (of_one, events), (of_eight, more) = bench.best(of(1), of(8))
    ratio = (of_eight / more) / (of_one / events)
    note = f"{of_eight / more * 1e9:.1f} and {of_one / events * 1e9:.1f} ns of processor time per event"
    bench.report.add("cpu_per_event_8_leaves", ratio, "ratio", at_most(1.1), note)


def tree_reads(made: MeasuredTree, leaves: int, batches: list[pa.RecordBatch]) -> int:
    """Every leaf reads the batches, a second after the other; returns how many events there were."""
    for batch in batches:
        for number in range(leaves):
            made.push(str(number), batch, settle=False)
        made.settle()
    return leaves * sum(map(len, batches))


def simulated(bench: RateBench) -> None:
    """The simulator's world: a hundred leaves below ten relays, no faults, the events of a second at once."""
    leaves, seconds = 100, 1 if bench.report.quick else 2
    batches = second_batches(seconds * RATE)
    counted: list[World] = []

    def prepare() -> Callable[[], int]:
        world = plain_world(leaves, batches)
        counted[:] = [world]
        return lambda: _run(world, leaves * seconds * RATE)

    ((used, events),) = bench.best(prepare)
    world = counted[0]
    note = f"{leaves} leaves, {events:,} events, {world.steps:,} steps, {world.network.message_count:,} messages"
    bench.report.add("simulated_events_rate", events / used / MILLION, "M/s", at_least(1), note)


def plain_world(leaves: int, batches: list[pa.RecordBatch]) -> World:
    """A world without faults in which every leaf reads the same batches, each when its second is over."""
    topology = tree(leaves, 2)
    world = World(0)
    world.cuts_batches = False
    events = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    there_ns = np.repeat(np.arange(1, len(batches) + 1) * SECOND_NS, [len(batch) for batch in batches])
    make_root = partial(RootNode, ROOT, [scan_query("value")], disorder=0)
    world.at(0, world.add, Machine(ROOT, "root", Maker(make_root, RootNode.restore, RootNode.recover)))
    for name, parent in topology.parents.items():
        kind: type[RelayNode | LeafNode] = RelayNode if name in topology.relays else LeafNode
        log = SourceLog(name, name, events, there_ns, ended_ns=(len(batches) + 1) * SECOND_NS)
        logs = () if kind is RelayNode else (log,)
        role = name.partition("-")[0]
        world.at(0, world.add, Machine(name, role, Maker(partial(kind, name, parent), kind.restore), logs))
    world.at((len(batches) + 2) * SECOND_NS, _flush, world)
    return world


def _flush(world: World) -> None:
    world.hand(world.machines[ROOT], FlushAsked())


def _run(world: World, events: int) -> int:
    if not world.run(100 * SECOND_NS, lambda: world.is_finished):
        raise RuntimeError("the simulated stream did not end")
    return events


# --- single nodes driven by hand: the frames that a child would send are made before, so that only one node is timed ---


def sent(actions: Sequence[Action]) -> list[SendMessage]:
    """What a node sends to others."""
    return [action for action in actions if isinstance(action, SendMessage)]


def joined(root: RootNode, name: str) -> LeafNode:
    """A leaf that the root has given its chain: it waits for events of one source, which has its name."""
    leaf = LeafNode(name, root.name, settings=UNBOUNDED)
    leaf.handle(Started(), 0)
    leaf.handle(SourceOpened(name, "", SCHEMA), 0)
    for hello in sent(leaf.handle(TimerFired("hello"), 0)):
        for answer in sent(root.handle(MessageReceived(name, hello.frame), 0)):
            leaf.handle(MessageReceived(root.name, answer.frame), 0)
    return leaf


@dataclass(frozen=True)
class ChildFrames:
    """The frames of all children for one second, and the answer when all of them are accepted."""

    frames: dict[str, bytes]
    answer: bytes


@dataclass(frozen=True)
class Children:
    """What leaves send, a second after the other, and a root that knows them and has heard nothing of it yet."""

    root: bytes
    rounds: list[ChildFrames]
    rows_per_round: int


def children(count: int, keys: int, rounds: int, events_per_key: int = 2) -> Children:
    """Leaves with every key in every second: average by key over a second."""
    query = hw.query("avg", hw.tumbling("1 s"), keys=["key"], avg=hw.avg("value"))
    root = RootNode(ROOT, [query], disorder=0)
    root.handle(Started(), 0)
    leaves = {f"leaf-{i}": joined(root, f"leaf-{i}") for i in range(count)}
    rng = np.random.default_rng([SEED, count, keys])
    made = []
    for second in range(rounds):
        frames = {}
        for name, leaf in leaves.items():
            batch = _second(rng, second, keys, events_per_key)
            leaf.handle(BatchArrived(name, second * len(batch), batch, (second + 1) * SECOND), 0)
            (frames[name],) = [message.frame for message in sent(leaf.handle(TimerFired("send"), 0))]
        made.append(ChildFrames(frames, _answer(frames)))
    return Children(root.snapshot(), made, count * keys)


def _second(rng: np.random.Generator, second: int, keys: int, events_per_key: int) -> pa.RecordBatch:
    count = keys * events_per_key
    times = second * SECOND + np.sort(rng.integers(0, SECOND, count))
    return pa.record_batch([times, rng.permutation(np.arange(count) % keys), rng.standard_normal(count)], schema=SCHEMA)


def _answer(frames: dict[str, bytes]) -> bytes:
    positions: dict[str, Position] = {}
    for data in frames.values():
        delta = decode(data)
        assert isinstance(delta, Delta)
        positions |= {chain: Position(stretch.epoch, stretch.end) for chain, stretch in delta.ranges.items()}
    return encode(Positions(False, positions))


def relay_merges(made: Children) -> int:
    """Let one relay take in, merge and send on everything; returns how many rows of partials it took."""
    relay = RelayNode("relay", ROOT)
    relay.handle(Started(), 0)
    count = 0
    for one in made.rounds:
        for name, frame in one.frames.items():
            relay.handle(MessageReceived(name, frame), 0)
        count += len(sent(relay.handle(TimerFired("send"), 0)))
        relay.handle(MessageReceived(ROOT, one.answer), 0)
    if count != len(made.rounds):
        raise RuntimeError(
            f"a relay sent {count} frames for {len(made.rounds)} rounds: it has not merged what it could"
        )
    return made.rows_per_round * len(made.rounds)


def root_closes(root: RootNode, made: Children) -> int:
    """Let a root take in everything; returns how many result rows came out."""
    rows = 0
    for one in made.rounds:
        for name, frame in one.frames.items():
            actions = root.handle(MessageReceived(name, frame), 0)
            rows += sum(action.rows.num_rows for action in actions if isinstance(action, EmitRows))
    return rows


QUESTIONS = (relay, root, leaf, growing_tree, simulated)
