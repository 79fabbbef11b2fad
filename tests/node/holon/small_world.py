"""A world for a few nodes without a root: logs, output, decisions and checkpoints in memory, and frames in whatever order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.node.holon.happenings import (
    AppendRows,
    Decide,
    EntryDecided,
    HolonAction,
    HolonEvent,
    InputSeen,
    PeerJoined,
    RowsAppended,
    RowsSynced,
    StopReading,
)
from headwater.node.holon.node import HolonNode
from headwater.protocols.actions import Checkpoint, Finished, Noted, ReadFrom, SendMessage, SetTimer
from headwater.protocols.events import BatchArrived, FlushAsked, MessageReceived, Started, TimerFired

MS = 1_000_000
#: So long a tick is: hosts look at the input, and frames arrive.
TICK_NS = 25 * MS


@dataclass
class SharedStores:
    """What all nodes share. ``row_of``: makes a row comparable."""

    input: dict[str, list[pa.RecordBatch]]
    row_of: Callable[[pa.Table], Sequence[object]]
    #: How many events of each partition are there by now.
    there: dict[str, int] = field(default_factory=dict)
    output: dict[str, dict[int, object]] = field(default_factory=dict)
    #: By chain, up to which row it is safe.
    synced: dict[str, int] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    checkpoints: dict[str, bytes] = field(default_factory=dict)

    def append(self, action: AppendRows) -> None:
        """An index holds one row for ever."""
        chain = self.output.setdefault(action.chain, {})
        for index, row in enumerate(self.row_of(action.rows), start=action.index):
            assert repr(chain.setdefault(index, row)) == repr(row), (
                f"{action.chain} {index}: {chain[index]}, then {row}"
            )

    def decide(self, action: Decide) -> EntryDecided:
        """The first entry with a number counts."""
        assert action.number <= len(self.log), "an entry is proposed behind a gap"
        if action.number == len(self.log):
            self.log.append(action.entry)
        return EntryDecided(action.number, self.log[action.number])

    def sync(self) -> None:
        """All rows without a gap are safe."""
        for chain, rows in self.output.items():
            end = self.synced.get(chain, 0)
            while end in rows:
                end += 1
            self.synced[chain] = end

    def lose_power(self) -> None:
        """All that was not synced is gone."""
        for chain, rows in self.output.items():
            self.output[chain] = {index: row for index, row in rows.items() if index < self.synced.get(chain, 0)}

    def rows(self, chain: str) -> list[object]:
        """A chain of output, which has no gaps."""
        found = self.output.get(chain, {})
        assert sorted(found) == list(range(len(found))), f"{chain} has gaps: {sorted(found)}"
        return [found[index] for index in range(len(found))]


class SmallHost:
    """One life of a node."""

    def __init__(self, world: SmallWorld, node: HolonNode) -> None:
        self.world, self.node = world, node
        self.timers: dict[str, int] = {}
        self.reading: dict[str, int] = {}
        self.seen = 0
        self.finished = False
        self.notes: list[Noted] = []

    def happen(self, event: HolonEvent) -> None:
        self.do(self.node.handle(event, self.world.now_ns))
        self.node.check()

    def do(self, actions: Sequence[HolonAction]) -> None:
        world = self.world
        for action in actions:
            match action:
                case SendMessage(target, frame):
                    world.send(self.node.name, target, frame)
                case SetTimer(name, delay_ns):
                    self.timers[name] = world.now_ns + delay_ns
                case ReadFrom(partition, offset):
                    self.reading[partition] = offset
                case StopReading(partition):
                    self.reading.pop(partition, None)
                case AppendRows():
                    world.stores.append(action)
                    end = action.index + len(action.rows)
                    world.later(self, RowsAppended(action.chain, end))
                case Decide():
                    world.later(self, world.stores.decide(action))
                case Checkpoint(data):
                    world.stores.checkpoints[self.node.name] = data
                case Finished():
                    self.finished = True
                case Noted():
                    self.notes.append(action)

    def look(self) -> None:
        """What a host does by itself: it looks at the input and at the log, reads, and lets timers run out."""
        stores = self.world.stores
        while self.seen < len(stores.log):
            self.seen += 1
            self.happen(EntryDecided(self.seen - 1, stores.log[self.seen - 1]))
        self.happen(InputSeen(dict(stores.there)))
        for partition in sorted(self.reading):
            start = self.reading[partition]
            end = min(stores.there[partition], start + self.world.dice.randint(1, 6))
            if end > start:
                self.reading[partition] = end
                whole = stores.input[partition][0]
                self.happen(BatchArrived(partition, start, whole.slice(start, end - start)))
        for name, at in sorted(self.timers.items()):
            if at <= self.world.now_ns:
                del self.timers[name]
                self.happen(TimerFired(name))


class SmallWorld:
    """Nodes, what is between them, and the time. ``loss``, ``double``: shares of frames; a frame takes up to ``ticks_max``."""

    def __init__(
        self,
        stores: SharedStores,
        make: Callable[[str, object], HolonNode],
        seed: int,
        loss: float = 0,
        ticks_max: int = 0,
    ) -> None:
        self.stores, self._make, self.dice = stores, make, random.Random(seed)
        self.loss, self.ticks_max = loss, ticks_max
        self.now_ns = 0
        self.hosts: dict[str, SmallHost] = {}
        self.paused: set[str] = set()
        self.cut_off: set[str] = set()
        self._frames: list[tuple[int, str, str, bytes]] = []
        self._later: list[tuple[SmallHost, HolonEvent]] = []

    # --- nodes ---

    def start(self, name: str, checkpoint: object = None) -> None:
        """A node begins a life."""
        host = self.hosts[name] = SmallHost(self, self._make(name, checkpoint))
        host.happen(Started())
        for other in sorted(self.hosts.keys() - {name}):
            host.happen(PeerJoined(other))
            if other not in self.paused:
                self.hosts[other].happen(PeerJoined(name))

    def kill(self, name: str) -> None:
        """Its process is gone, and frames to it with it."""
        self.hosts.pop(name, None)
        self.paused.discard(name)

    def flush(self) -> None:
        for host in self.living:
            host.happen(FlushAsked())

    @property
    def living(self) -> list[SmallHost]:
        return [self.hosts[name] for name in sorted(self.hosts) if name not in self.paused]

    # --- what is on the way ---

    def send(self, sender: str, target: str, frame: bytes) -> None:
        if (sender in self.cut_off) != (target in self.cut_off):
            return
        for _ in range(self.dice.choice([1, 1, 1, 2]) if self.loss else 1):
            if self.dice.random() >= self.loss:
                due = self.now_ns + TICK_NS * self.dice.randint(0, self.ticks_max)
                self._frames.append((due, sender, target, frame))

    def later(self, host: SmallHost, event: HolonEvent) -> None:
        self._later.append((host, event))

    def tick(self) -> None:
        """A little time passes."""
        self.now_ns += TICK_NS
        for host in self.living:
            host.look()
        self._deliver()
        if self.now_ns % (500 * MS) == 0:
            self.stores.sync()
            for host in self.living:
                host.happen(RowsSynced(dict(self.stores.synced)))

    def _deliver(self) -> None:
        later, self._later = self._later, []
        for host, event in later:
            if host in self.living:
                host.happen(event)
            elif host in self.hosts.values():
                self._later.append((host, event))
        due = [one for one in self._frames if one[0] <= self.now_ns]
        self._frames = [one for one in self._frames if one[0] > self.now_ns]
        if self.ticks_max:
            self.dice.shuffle(due)
        for _, sender, target, frame in due:
            if target in self.paused:
                self._frames.append((self.now_ns + TICK_NS, sender, target, frame))
            elif target in self.hosts:
                self.hosts[target].happen(MessageReceived(sender, frame))

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()

    def settle(self, ticks_max: int = 800) -> None:
        """Until all nodes have finished."""
        for _ in range(ticks_max):
            if self.hosts and all(host.finished for host in self.living):
                return
            self.tick()
        raise AssertionError(f"not finished: {[host.node.program.prefix('*/1') for host in self.living]}")
