"""A small tree of leaves, relays and a root over a network that loses, doubles and overtakes: what protocols are tested with.

What a delta adds is a list of events by name, so that anyone can see whether each was counted once. Everything that travels is
encoded and decoded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.protocols.advances import Advance
from headwater.protocols.delta import ChainRange, Delta, combine
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.messages import Positions, decode, encode
from headwater.protocols.tree.outbox import Outbox
from headwater.protocols.tree.relaying import Holding


def part(events: Iterable[str]) -> bytes:
    return json.dumps(sorted(events)).encode()


def events_of(delta: Delta) -> list[str]:
    return [event for one in delta.parts for event in json.loads(bytes(one))]


def merge(lists: Sequence[Sequence[bytes]]) -> list[bytes]:
    return [part(event for parts in lists for one in parts for event in json.loads(bytes(one)))]


def step(chain: str, epoch: int, at: int, events: Sequence[str]) -> Delta:
    """What a leaf sends: one step of its chain."""
    return Delta({chain: ChainRange(epoch, at, at + 1)}, {chain: Advance.of([0], [len(events)], [1])}, [part(events)])


@dataclass
class Link:
    """A frame under way."""

    sender: str
    target: str
    frame: bytes


@dataclass
class Leaf:
    """The owner of a chain, or one that still believes to be it."""

    name: str
    parent: str
    chain: str
    epoch: int
    outbox: Outbox
    #: The next event of the chain's log.
    offset: int
    stopped: bool = False


@dataclass
class Relay:
    name: str
    parent: str
    holding: Holding = field(default_factory=Holding)


@dataclass
class Root:
    """Accepts, counts, and never forgets."""

    ledger: Ledger = field(default_factory=Ledger)
    events: Counter[str] = field(default_factory=Counter)
    offsets: Counter[str] = field(default_factory=Counter)

    def receive(self, delta: Delta) -> list[Positions]:
        accepted = not self.ledger.objections(delta.ranges)
        if accepted:
            self.ledger.accept(delta)
            self.events.update(events_of(delta))
            for chain, advance in delta.advances.items():
                self.offsets[chain] += int(advance.counts.sum())
        # Where the root stands is accepted for good in any case: an acceptance that got lost is told again.
        stands = self.ledger.of(delta.ranges)
        return [Positions(False, stands)] + ([] if accepted else [Positions(True, stands)])


class Tree:
    """Leaves a and b below one relay, that and leaf c below another, and this below the root."""

    ROOT = "root"

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.bytes_max = bytes_max
        self.root = Root()
        self.relays = {"low": Relay("low", "high"), "high": Relay("high", self.ROOT)}
        self.leaves: dict[str, Leaf] = {}
        self.under_way: list[Link] = []
        self.logs: dict[str, list[str]] = {}
        for chain, parent in (("a", "low"), ("b", "low"), ("c", "high")):
            self.logs[chain] = []
            self.root.ledger.positions[chain] = Position(0, 0)
            self.take_over(chain, parent)

    # --- what may happen ---

    def take_over(self, chain: str, parent: str) -> None:
        """A new owner goes on where the root stands, under the next epoch; the old one is not told."""
        before = self.root.ledger.positions[chain]
        epoch = before.epoch + 1
        self.root.ledger.positions[chain] = Position(epoch, before.at)
        name = f"{chain}-{epoch}"
        self.leaves[name] = Leaf(name, parent, chain, epoch, Outbox(before.at), self.root.offsets[chain])

    def owner(self, chain: str) -> Leaf:
        return self.leaves[f"{chain}-{self.root.ledger.positions[chain].epoch}"]

    def happen(self, chain: str, count: int) -> None:
        """The source of a chain has so many more events."""
        log = self.logs[chain]
        log += [f"{chain}{len(log) + i}" for i in range(count)]

    def read(self, leaf: Leaf) -> None:
        """A leaf reads everything new of its source and sends it."""
        events = self.logs[leaf.chain][leaf.offset :]
        if leaf.stopped or not events:
            return
        leaf.offset += len(events)
        frame = encode(step(leaf.chain, leaf.epoch, leaf.outbox.end, events))
        leaf.outbox.add(frame)
        self._send(leaf.name, leaf.parent, frame)

    def send_again(self, leaf: Leaf, at: int = 0) -> None:
        if not leaf.stopped:
            for frame in leaf.outbox.frames_from(at):
                self._send(leaf.name, leaf.parent, frame)

    def pass_on(self, relay: Relay) -> None:
        """A relay sends one combination of what it has not sent yet."""
        if deltas := relay.holding.next_to_send(self.bytes_max):
            self._send(relay.name, relay.parent, encode(combine(deltas, merge)))

    def forget(self, relay: Relay) -> None:
        relay.holding = Holding()

    def deliver(self, link: Link) -> None:
        message = decode(link.frame)
        assert isinstance(message, Delta | Positions)
        if isinstance(message, Delta):
            self._up(link, message)
        elif link.target in self.relays:
            self._down(self.relays[link.target], message)
        else:
            self._answered(self.leaves[link.target], message)

    # --- what nodes do ---

    def _send(self, sender: str, target: str, frame: bytes) -> None:
        self.under_way.append(Link(sender, target, frame))

    def _up(self, link: Link, delta: Delta) -> None:
        if link.target == self.ROOT:
            for answer in self.root.receive(delta):
                self._send(self.ROOT, link.sender, encode(answer))
            return
        holding = self.relays[link.target].holding
        if not holding.take(delta, len(link.frame)):
            self._send(link.target, link.sender, encode(Positions(False, holding.safe_of(delta.ranges))))
            self._send(link.target, link.sender, encode(Positions(True, holding.ledger.of(delta.ranges))))

    def _down(self, relay: Relay, message: Positions) -> None:
        if message.resend:
            message = Positions(True, relay.holding.rejected(message.chains))
        else:
            relay.holding.accepted(message.chains)
        children: list[Leaf | Relay] = [*self.leaves.values(), *self.relays.values()]
        for child in children:
            if child.parent == relay.name:
                self._send(relay.name, child.name, encode(message))

    def _answered(self, leaf: Leaf, message: Positions) -> None:
        position = message.chains.get(leaf.chain)
        if position is None:
            return
        leaf.stopped = leaf.stopped or position.epoch > leaf.epoch
        if position.epoch != leaf.epoch:
            return
        if message.resend:
            self.send_again(leaf, position.at)
        else:
            leaf.outbox.accepted(position.at)

    # --- the end ---

    def heal(self, rounds: int) -> int:
        """From now on everything gets through, in order; the number of rounds of timers until nobody holds anything."""
        for number in range(rounds):
            if self._done():
                return number
            for leaf in list(self.leaves.values()):
                self.read(leaf)
                self.send_again(leaf)
            self._deliver_all()
            for relay in self.relays.values():
                relay.holding.send_again()
                self._pass_on_all(relay)
                self._deliver_all()
        raise AssertionError(f"not done after {rounds} rounds: {self.root.ledger}, {self.leaves}, {self.relays}")

    def _deliver_all(self) -> None:
        for _ in range(10_000):
            if not self.under_way:
                return
            self.deliver(self.under_way.pop(0))
        raise AssertionError("messages beget messages without end")

    def _pass_on_all(self, relay: Relay) -> None:
        while any(not one.sent for one in relay.holding.held):
            self.pass_on(relay)

    def _done(self) -> bool:
        owners = [self.owner(chain) for chain in self.logs]
        return (
            not any(leaf.outbox.frames or leaf.offset < len(self.logs[leaf.chain]) for leaf in owners)
            and not any(relay.holding.held for relay in self.relays.values())
            and not self.under_way
        )

    def check_safe(self) -> None:
        """The root has counted exactly the first events of each chain, each once, as far as it stands."""
        assert self.root.events == Counter(
            event for chain, log in self.logs.items() for event in log[: self.root.offsets[chain]]
        )

    def check_complete(self) -> None:
        assert self.root.events == Counter(event for log in self.logs.values() for event in log)
