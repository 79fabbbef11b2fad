"""The network: every link delays, and may lose, double and reorder what it carries; partitions cut links for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from headwater.simulator.checks.counts import Counts

Link = tuple[str, str]
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Quality:
    """How good links are: a delay of at least ``delay_ns`` and, on average, ``jitter_ns`` more; the others are probabilities."""

    delay_ns: int = MS // 2
    jitter_ns: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    #: Of messages that may be overtaken.
    reordering: float = 0.0


@dataclass
class _Traffic:
    """What went over one direction of a link."""

    sent_count: int = 0
    last_arrival_ns: int = 0
    highest_delivered: int = -1


@dataclass
class Network:
    """Decides when, and whether, a message arrives. ``at`` lets something happen at a time; ``deliver`` hands a message over.

    ``deliver(sender, target, frame)`` returns whether the target was up and took it.
    """

    dice: Random
    counts: Counts
    at: Callable[..., None]
    deliver: Callable[[str, str, bytes], bool]
    quality: Quality = Quality()
    #: Links that differ from the others.
    qualities: dict[Link, Quality] = field(default_factory=dict)
    #: Until when nothing passes: both directions of a link, or one that is cut by itself.
    cut: dict[Link, int] = field(default_factory=dict)
    one_way: dict[Link, int] = field(default_factory=dict)
    message_count: int = 0
    byte_count: int = 0
    #: Whether a machine is up: a message counts as lost only if it would have been taken.
    is_there: Callable[[str], bool] = lambda _name: True
    _traffic: dict[Link, _Traffic] = field(default_factory=dict)

    def send(self, sender: str, target: str, frame: bytes, now_ns: int) -> None:
        """A node sends a frame to a neighbour."""
        self.message_count += 1
        self.byte_count += len(frame)
        link = (sender, target)
        quality = self.qualities.get(link, self.quality)
        traffic = self._traffic.get(link)
        if traffic is None:
            traffic = self._traffic[link] = _Traffic()
        number = traffic.sent_count
        traffic.sent_count += 1
        arrival_ns = self._arrival(quality, traffic, now_ns)
        if self.cut.get(link, 0) > now_ns:
            self.at(arrival_ns, self._missed, target, "partition")
            return
        if self.one_way and self.one_way.get(link, 0) > now_ns:
            self.at(arrival_ns, self._missed, target, "one-way")
            return
        if quality.loss and self.dice.random() < quality.loss:
            self.at(arrival_ns, self._missed, target, "loss")
            return
        self.at(arrival_ns, self._arrive, link, traffic, number, frame, quality.jitter_ns > 0)
        if quality.duplication and self.dice.random() < quality.duplication:
            again_ns = arrival_ns + self.dice.randrange(1, 20 * MS)
            self.at(again_ns, self._arrive_again, link, frame)

    def partition(self, links: list[Link], until_ns: int) -> None:
        """Nothing passes these links, in either direction, until then."""
        for one, other in links:
            for link in ((one, other), (other, one)):
                self.cut[link] = max(until_ns, self.cut.get(link, 0))

    def cut_one_way(self, link: Link, until_ns: int) -> None:
        """Nothing passes from the first to the second until then, but everything does the other way."""
        self.one_way[link] = max(until_ns, self.one_way.get(link, 0))

    def heal(self) -> None:
        """Good links everywhere from now on."""
        self.cut.clear()
        self.one_way.clear()
        self.qualities.clear()
        self.quality = Quality()

    def _arrival(self, quality: Quality, traffic: _Traffic, now_ns: int) -> int:
        arrival_ns = now_ns + quality.delay_ns
        if quality.jitter_ns:
            arrival_ns += int(self.dice.expovariate(1.0) * quality.jitter_ns)
        if quality.reordering and self.dice.random() < quality.reordering:
            return arrival_ns + self.dice.randrange(1, 30 * MS)  # and those behind it may pass
        # A link is a queue: a message arrives after all that were sent before it.
        arrival_ns = max(arrival_ns, traffic.last_arrival_ns)
        traffic.last_arrival_ns = arrival_ns
        return arrival_ns

    def _arrive(self, link: Link, traffic: _Traffic, number: int, frame: bytes, is_delayed: bool) -> None:
        if not self.deliver(*link, frame):
            return
        if is_delayed:
            self.counts["fault: delay"] += 1
        if number < traffic.highest_delivered:
            self.counts["fault: reordering"] += 1
        else:
            traffic.highest_delivered = number

    def _arrive_again(self, link: Link, frame: bytes) -> None:
        if self.deliver(*link, frame):
            self.counts["fault: duplication"] += 1

    def _missed(self, target: str, fault: str) -> None:
        if self.is_there(target):
            self.counts[f"fault: {fault}"] += 1
