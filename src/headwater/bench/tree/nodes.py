"""Single nodes driven by hand: the frames that a child would send are made before, so that only one node is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.bench.common.workload import SECOND, SEED
from headwater.bench.tree.stream import SCHEMA
from headwater.node import LeafNode, NodeSettings, RelayNode, RootNode
from headwater.protocols.actions import Action, EmitRows, SendMessage
from headwater.protocols.delta import Delta
from headwater.protocols.events import BatchArrived, MessageReceived, SourceOpened, Started, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions, decode, encode

#: Nobody accepts what a leaf sends here: it must not wait for that.
UNBOUNDED = NodeSettings(steps_max=1 << 30)
ROOT = "root"


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
