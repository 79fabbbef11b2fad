"""A machine: where one node runs, with its clock, its timers, the logs it can read, and what survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.node import Node
from headwater.protocols.actions import Action
from headwater.protocols.events import Event
from headwater.simulator.workloads.streams import LogCursor, SourceLog

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Maker:
    """How a machine makes its node: anew, from a snapshot, or (the root) from its checkpoint and records."""

    fresh: Callable[[], Node]
    restored: Callable[[bytes], Node]
    recovered: Callable[[bytes, Sequence[bytes]], tuple[Node, list[Action]]] | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """Every machine has its own: it starts somewhere and runs a little too fast or too slowly, but never backwards.

    >>> clock = Clock(offset_ns=7, drift_ppm=500_000)
    >>> clock.now(100), clock.real_delay(150)
    (157, 100)
    """

    offset_ns: int = 0
    drift_ppm: int = 0

    def now(self, time_ns: int) -> int:
        """What it shows at a moment of the world's time."""
        return self.offset_ns + time_ns + time_ns * self.drift_ppm // MILLION

    def real_delay(self, delay_ns: int) -> int:
        """How long it takes until it shows so much more."""
        return delay_ns if not self.drift_ppm else -(-delay_ns * MILLION // (MILLION + self.drift_ppm))


@dataclass
class Machine:
    """One node and its surroundings. The world moves it; nothing here acts by itself."""

    name: str
    role: str  # leaf, relay or root
    maker: Maker
    logs: tuple[SourceLog, ...] = ()
    clock: Clock = field(default_factory=Clock)

    node: Node | None = None
    #: Another machine that has its sources; it may not know yet. Once it knows it is retired, for good.
    successor: Machine | None = None
    is_retired: bool = False
    #: Goes up at each start, so that what was meant for an earlier life is known.
    life: int = 0
    #: Until when it does nothing, and what has come meanwhile.
    paused_until_ns: int = 0
    backlog: list[Event] = field(default_factory=list)
    #: How long it takes for each event, while it is slow, and until when it is busy.
    slowness_ns: int = 0
    busy_until_ns: int = 0
    #: After how many actions of its next long enough list it will fall over, and whether its memory survives.
    stumble: tuple[int, bool] | None = None

    timers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, LogCursor] = field(default_factory=dict)
    is_reading_paused: bool = False
    #: The next moment at which it will look into its logs, if one is set.
    look_ns: int | None = None

    #: What survives a crash: the bytes of a leaf's or relay's memory, or a root's checkpoint and records.
    memory: bytes | None = None
    checkpoint: bytes | None = None
    records: list[bytes] = field(default_factory=list)

    #: Faults that happened here and count as soon as the node is spoken to again.
    unread_faults: list[str] = field(default_factory=list)

    @property
    def is_replaced(self) -> bool:
        """Whether another has its place. If it spoke last it may have the place back: then the other one is retired."""
        return self.successor is not None and not self.successor.is_retired

    @property
    def is_up(self) -> bool:
        return self.node is not None

    def forget_life(self) -> None:
        """What ends with the process: timers, readers, everything that waited."""
        self.node = None
        self.timers.clear()
        self.readers.clear()
        self.backlog.clear()
        self.is_reading_paused = False
        self.look_ns = None
        self.paused_until_ns = self.busy_until_ns = self.slowness_ns = 0
        self.stumble = None

    def revive(self) -> list[Action]:
        """A node in the place of the one that crashed; returns what it asks for before anything else happens."""
        self.life += 1
        if self.checkpoint is not None:
            assert self.maker.recovered is not None, f"{self.name} is no root but has a checkpoint"
            self.node, actions = self.maker.recovered(self.checkpoint, list(self.records))
            return actions
        self.node = self.maker.fresh() if self.memory is None else self.maker.restored(self.memory)
        self.memory = None
        return []
