"""A machine: where one node runs, with its clock, its timers, the logs it can read, and what survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headwater.errors import FormatError
from headwater.logs.errors import DamageError
from headwater.protocols.actions import Action
from headwater.protocols.events import Event
from headwater.simulator.workloads.streams import LogCursor, SourceLog
from headwater.simulator.world.storage import Storage

MILLION = 1_000_000


class WorldNode(Protocol):
    """A node of any kind: what happens to it and what it asks for is a matter of its kind."""

    def handle(self, event: Any, now_ns: int) -> list[Any]: ...

    def snapshot(self) -> bytes: ...

    def check(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Maker:
    """How a machine makes its node: anew, from a snapshot, or from its checkpoint and records."""

    fresh: Callable[[], WorldNode]
    restored: Callable[[bytes], WorldNode]
    recovered: Callable[[bytes, Sequence[bytes]], tuple[WorldNode, list[Action]]] | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """Every machine has its own: it starts somewhere, runs a little too fast or too slowly, and may leap; it goes back only
    while its machine is down.

    >>> clock = Clock(offset_ns=7, drift_ppm=500_000)
    >>> clock.now(100), clock.real_delay(150), clock.showing(0, 100).now(102)
    (157, 100, 3)
    """

    offset_ns: int = 0
    drift_ppm: int = 0

    def now(self, time_ns: int) -> int:
        """What it shows at a moment of the world's time."""
        return self.offset_ns + time_ns + time_ns * self.drift_ppm // MILLION

    def showing(self, now_ns: int, time_ns: int) -> Clock:
        """The same clock, set: it shows ``now_ns`` at a moment of the world's time."""
        return replace(self, offset_ns=self.offset_ns + now_ns - self.now(time_ns))

    def real_delay(self, delay_ns: int) -> int:
        """How much of the world's time passes while it shows ``delay_ns`` more."""
        return delay_ns if not self.drift_ppm else -(-delay_ns * MILLION // (MILLION + self.drift_ppm))


@dataclass
class Machine:
    """One node and its surroundings. The world moves it; nothing here acts by itself."""

    name: str
    role: str  # leaf, relay, root, or member where there is no root
    maker: Maker
    logs: tuple[SourceLog, ...] = ()
    clock: Clock = field(default_factory=Clock)
    #: Where in the tree it stands: the name of the machine that stood there first.
    place: str = ""

    node: WorldNode | None = None
    #: What its node was last told of the time.
    now_ns: int = 0
    #: Another machine that has its sources; it may not know yet. Once it knows it is retired, for good.
    successor: Machine | None = None
    is_retired: bool = False
    #: Whether it broke, and nobody will start it again.
    is_gone: bool = False
    #: Goes up at each start, so that what was meant for an earlier life is known.
    life: int = 0
    #: Until when it does nothing, and what has come meanwhile.
    paused_until_ns: int = 0
    backlog: list[Event] = field(default_factory=list)
    #: An event and what its node asked for, which waits for the disk.
    unfinished: tuple[Event | None, list[Action]] | None = None
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

    #: What survives a crash.
    storage: Storage = field(default_factory=Storage)

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
        """Forget what ends with the process: timers, readers, everything that waited."""
        self.node = None
        self.timers.clear()
        self.readers.clear()
        self.backlog.clear()
        self.unfinished = None
        self.is_reading_paused = False
        self.look_ns = None
        self.paused_until_ns = self.busy_until_ns = self.slowness_ns = 0
        self.stumble = None

    def revive(self) -> list[Action]:
        """A node in the place of the one that crashed; returns what it asks for before anything else happens."""
        self.life += 1
        if self.maker.recovered is not None:
            return self._recover(self.maker.recovered)
        memory = self.storage.recall()
        try:
            self.node = self.maker.fresh() if memory is None else self.maker.restored(memory)
        except FormatError:  # what cannot be read any more is as good as nothing
            self.node = self.maker.fresh()
        return []

    def _recover(self, recovered: Callable[[bytes, Sequence[bytes]], tuple[WorldNode, list[Action]]]) -> list[Action]:
        """A root as its disk has it; if records are damaged it says so, and whoever runs it has a copy."""
        try:
            return self._recover_once(recovered)
        except DamageError:
            self.unread_faults.append("flip")
            self.storage.disk.restore()
            return self._recover_once(recovered)

    def _recover_once(
        self, recovered: Callable[[bytes, Sequence[bytes]], tuple[WorldNode, list[Action]]]
    ) -> list[Action]:
        """A root of its last checkpoint that can be read, and of all records behind it."""
        damage: FormatError | None = None
        for checkpoint, records in self.storage.lives():
            try:
                self.node, actions = recovered(checkpoint, records)
            except FormatError as error:
                damage = error
            else:
                return actions
        if damage is not None:
            raise damage
        self.node = self.maker.fresh()
        return []
