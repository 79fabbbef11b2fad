"""A node without a root: (event, now) in, actions out. It decides everything itself, from what it reads and what others tell.

A node runs the units that it owns, tells what it makes of them, executes the steps that everybody can execute, and writes the
rows of the chains that it runs. Whatever is lost, doubled, late or done twice changes when rows come, and never which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import DataError, FormatError
from headwater.node.holon.duties.checkpoints import Checkpoints
from headwater.node.holon.duties.deciding import Deciding
from headwater.node.holon.duties.gossip import Gossip, WorldPieces, pieces_of
from headwater.node.holon.duties.invariants import Invariants
from headwater.node.holon.duties.knowledge import Knowledge
from headwater.node.holon.duties.owning import Backlog, Owning
from headwater.node.holon.duties.running import Running
from headwater.node.holon.happenings import (
    EntryDecided,
    HolonAction,
    HolonEvent,
    InputSeen,
    PeerGone,
    PeerJoined,
    RowsAppended,
    RowsSynced,
)
from headwater.node.holon.settings import HolonSettings
from headwater.node.holon.shared_program import ProgramPlan, SharedProgram
from headwater.node.holon.stages import ONCE
from headwater.protocols.actions import Finished, Noted, SendMessage, SetTimer
from headwater.protocols.events import BatchArrived, FlushAsked, MessageReceived, Started, TimerFired
from headwater.protocols.peers.decisions import DecisionError, DecisionLog, LogEntry, entry_from_bytes
from headwater.protocols.peers.gossip_messages import (
    Digest,
    EntryTold,
    PeerMessage,
    PrefixTold,
    WorldPiece,
    heard,
    told,
)
from headwater.protocols.peers.ownership import PartitionOwner
from headwater.protocols.windowed_crdt import PrefixDelta

BEAT = "beat"
#: So many entries of the decision log are told at once to one who lacks them.
ENTRIES_AT_ONCE = 64


class HolonNode:
    """One life of a node. ``checkpoint``: what it wrote in a life before; several, from several nodes, are merged.

    >>> import headwater as hw, pyarrow as pa
    >>> from headwater.node.holon.tables import SharedTable
    >>> from headwater.protocols.steps import StepGrid
    >>> table = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
    >>> node = HolonNode("a", ProgramPlan(("p",), StepGrid(10), (table,)), HolonSettings())
    >>> node.handle(Started(), 0)
    [SetTimer(name='beat', delay_ns=100000000)]
    >>> node.handle(TimerFired("beat"), 100_000_000), node.handle(TimerFired("beat"), 200_000_000)
    ([SetTimer(name='beat', delay_ns=100000000)], [SetTimer(name='beat', delay_ns=100000000), ReadFrom(source='p', offset=0)])
    >>> node.handle(BatchArrived("p", 0, pa.record_batch({"time": [1, 5, 12]})), 200_000_001)[0].rows.column("n").to_pylist()
    [2]
    """

    def __init__(
        self,
        name: str,
        plan: ProgramPlan,
        settings: HolonSettings | None = None,
        checkpoint: bytes | Sequence[bytes] | None = None,
    ) -> None:
        self.name, self.plan = name, plan
        self.settings = settings or HolonSettings()
        self.incarnation, self.is_finished = 0, False
        self.program = SharedProgram(plan, by_entries=self.settings.idle_ns is not None)
        self.known = Knowledge(self.program)
        self.running = Running(self.known)
        self.owning = Owning(name, plan.units, self.settings)
        self.deciding = Deciding(plan.partitions, self.settings)
        self.gossip = Gossip({chain: unit for unit, chains in plan.units.items() for chain in chains}, self.settings)
        self._checkpoints = Checkpoints(self.settings.checkpoint_ns)
        self._backlogs = {partition: Backlog() for partition in plan.partitions}
        self._worlds: dict[str, WorldPieces] = {}
        self._beat = 0
        self._invariants = Invariants(self.known, self.settings.idle_ns is not None)
        for data in [checkpoint] if isinstance(checkpoint, bytes) else checkpoint or ():
            self._restore(data)

    # --- what a life leaves to the next ---

    def snapshot(self) -> bytes:
        """Everything that a later life can use."""
        owners = {unit: [owner.version, owner.node] for unit, owner in self.owning.table.owners.items()}
        log = self.deciding.log.to_bytes()
        return to_bytes({"incarnation": self.incarnation, "known": self.known.state(), "owners": owners, "log": log})

    def _restore(self, data: bytes) -> None:
        state = from_bytes(data)
        if self.known.take_state(state["known"]) is None:
            raise DataError(
                f"node {self.name!r}: a checkpoint of another program than generation {self.plan.generation}"
            )
        self.incarnation = max(self.incarnation, state["incarnation"])
        self.owning.told({unit: PartitionOwner(version, node) for unit, (version, node) in state["owners"].items()})
        self._learn(DecisionLog.from_bytes(state["log"]).entries_after(-1))

    # --- the door ---

    def handle(self, event: HolonEvent, now_ns: int) -> list[HolonAction]:
        """Take in what happened; returns what is to be done, in this order."""
        actions = list(self._on(event, now_ns))
        actions += self._settle(now_ns)
        return actions

    def _on(self, event: HolonEvent, now_ns: int) -> Iterator[HolonAction]:
        match event:
            case Started():
                # Higher than in all former lives, also in those of which nothing is left.
                self.incarnation = max(self.incarnation + 1, now_ns)
                self.owning.started(now_ns)
                self._checkpoints.started(now_ns)
                yield SetTimer(BEAT, self.settings.beat_ns)
            case TimerFired(name) if name == BEAT:
                yield from self._on_beat(now_ns)
            case MessageReceived(sender, frame):
                yield from self._on_frame(sender, frame, now_ns)
            case BatchArrived(source, offset, batch):
                yield from self.running.take_in(source, offset, batch)
            case InputSeen():
                self._on_input(event, now_ns)
            case RowsAppended(chain, end):
                self.known.rows.appended(chain, end)
            case RowsSynced(ends):
                self.known.rows.synced(ends)
            case EntryDecided(number, entry):
                yield from self._on_entry(number, entry_from_bytes(entry))
            case PeerJoined(peer):
                self.owning.joined(peer, now_ns)
            case PeerGone(peer):
                yield from self._on_loss(self.owning.refused(peer, now_ns))
            case FlushAsked():
                self.deciding.flush_asked()

    def _settle(self, now_ns: int) -> Iterator[HolonAction]:
        """Do all that can be done now: run what is ours, execute, confirm, tell what others wait for, propose."""
        yield from self.running.run(self.owning.mine())
        while True:
            yield from self.running.realign()
            fresh = list(self.running.confirm())
            for delta in fresh:
                self.gossip.made(delta)
            before = self._point
            yield from self.running.advance()
            if not fresh and before == self._point and not self.known.rows.has_ready:
                break
        yield from self._propose(now_ns)
        if self.gossip.is_urgent:
            yield from self._tell_all()
            yield from self._tell_digest(now_ns)
        if (checkpoint := self._checkpoints.release(self.known.rows.durable)) is not None:
            yield checkpoint
        if not self.is_finished and self.program.has_ended:
            self.is_finished = True
            yield Finished()

    @property
    def _point(self) -> tuple[object, ...]:
        """How far steps and decisions are."""
        return self.known.executed, self.program.decided.position

    # --- beats ---

    def _on_beat(self, now_ns: int) -> Iterator[HolonAction]:
        yield SetTimer(BEAT, self.settings.beat_ns)
        yield from self.running.take_open(self.settings.open_ns // self.settings.beat_ns)
        yield from self._on_loss(self.owning.beat(now_ns))
        for delta in self.running.confirm():
            self.gossip.made(delta)
        yield from self._tell_all()
        yield from self._tell_digest(now_ns)
        self.gossip.beat(self.known.places(), self.program.decided.known)
        executed = [view.digest.executed for peer, view in self.gossip.views.items() if peer in self.owning.living]
        self.known.forget(executed, self.settings.parts_held_max)
        self.deciding.forget(self.program.decided.position)
        self._checkpoints.beat(now_ns, lambda: (self.snapshot(), self.known.needed()))

    def _on_loss(self, suspected: Sequence[str]) -> Iterator[HolonAction]:
        """Rows that somebody wrote who is gone are there, unless the power went."""
        if suspected:
            yield Noted("suspected", {"peers": list(suspected)})
            yield from self.running.begin_unsafe_anew()

    def _lags(self, now_ns: int) -> dict[str, int]:
        return {p: self._backlogs[p].lag_ns(index, now_ns) for p, index in self.running.indexes().items()}

    def _tell_digest(self, now_ns: int) -> Iterator[HolonAction]:
        self._beat += 1
        lags = self._lags(now_ns)
        self.owning.lags(self.name, lags, now_ns)
        digest = Digest(
            self.name,
            self.incarnation,
            self._beat,
            self.plan.generation,
            self.known.executed,
            self.known.places(),
            {unit: owner for unit, owner in self.owning.table.owners.items() if owner.version},
            lags,
            self.known.rows.durable,
            self.program.decided.known,
        )
        yield from self._broadcast([digest])

    def _tell_all(self) -> Iterator[HolonAction]:
        yield from self._broadcast(self.gossip.take_outbox())

    def _broadcast(self, messages: Iterable[PeerMessage]) -> Iterator[HolonAction]:
        for frame in [told(message) for message in messages]:
            for peer in self.owning.peers:
                yield SendMessage(peer, frame)

    # --- what peers tell ---

    def _on_frame(self, sender: str, frame: bytes | memoryview, now_ns: int) -> Iterator[HolonAction]:
        try:
            message = heard(frame)
        except FormatError as error:
            yield Noted("damaged frame", {"peer": sender, "why": str(error)})
            return
        match message:
            case Digest():
                yield from self._on_digest(sender, message, now_ns)
            case PrefixDelta():
                objection = self.known.take(message)
                if objection is None:
                    self.gossip.learned(message)
                elif objection == "unreadable":
                    yield Noted("unreadable part", {"peer": sender, "chain": message.chain})
            case PrefixTold(chain, prefix):
                objection = self.known.take_prefix(chain, prefix)
                if objection is None:
                    self.gossip.leaped(chain)
                elif objection == "unreadable":
                    yield Noted("unreadable part", {"peer": sender, "chain": chain})
            case WorldPiece():
                yield from self._on_piece(sender, message)
            case EntryTold(generation, number, entry) if generation == self.plan.generation:
                if number <= self.deciding.log.next_number + ENTRIES_AT_ONCE and self.program.decided.can_be(entry):
                    yield from self._on_told_entry(sender, number, entry)

    def _on_digest(self, sender: str, digest: Digest, now_ns: int) -> Iterator[HolonAction]:
        if digest.generation != self.plan.generation or len(digest.executed) != len(self.program.levels):
            yield Noted("foreign digest", {"peer": sender, "generation": digest.generation})
            return
        is_new_life = self.gossip.heard(sender, digest)
        if is_new_life is None:
            return
        self.owning.heard(sender, now_ns)
        self.owning.told(digest.owners)
        self.owning.lags(sender, {p: lag for p, lag in digest.lags.items() if p in self._backlogs}, now_ns)
        self.known.rows.synced(digest.durable)
        if is_new_life:
            yield from self.running.begin_unsafe_anew()
        yield from self._answer(sender, digest)

    def _answer(self, peer: str, digest: Digest) -> Iterator[HolonAction]:
        """Tell a peer what it lacks."""
        chains, levels = self.known.chains(), self.program.levels
        bases = [max((prefix.base for prefix in one.prefixes.chains.values()), default=0) for one in levels]
        messages: list[PeerMessage] = []
        rank = self.owning.rank
        if self.gossip.lacks_world(peer, bases, rank):
            messages += pieces_of(self.plan.generation, levels[0].steps.count, self.known.state())
        executed = {chain: digest.executed[self.known.level(chain)] for chain in chains}
        messages += self.gossip.missing(peer, self.owning.rank_for, chains, executed)
        if self.gossip.lacks_entries(peer, rank):
            entries = self.deciding.log.entries_after(digest.decisions - 1)
            messages += [EntryTold(self.plan.generation, *entry) for entry in entries[:ENTRIES_AT_ONCE]]
        for message in messages:
            yield SendMessage(peer, told(message))

    def _on_piece(self, sender: str, piece: WorldPiece) -> Iterator[HolonAction]:
        if piece.generation != self.plan.generation or sender not in self.owning.peers:
            return
        whole = self._worlds.setdefault(sender, WorldPieces()).add(piece)
        if whole is None:
            return
        del self._worlds[sender]
        try:
            changed = self.known.take_state(whole)
        except FormatError as error:
            yield Noted("damaged world", {"peer": sender, "why": str(error)})
            return
        for chain in changed or ():
            self.gossip.leaped(chain)

    # --- decisions ---

    def _on_input(self, event: InputSeen, now_ns: int) -> None:
        ends = {partition: end for partition, end in event.ends.items() if partition in self._backlogs}
        for partition, end in ends.items():
            self._backlogs[partition].seen(end, now_ns)
        self.deciding.looked(ends, now_ns)

    def _on_entry(self, number: int, entry: LogEntry) -> Iterator[HolonAction]:
        if self._learn([(number, entry)]):
            yield from self._broadcast([EntryTold(self.plan.generation, number, entry)])

    def _on_told_entry(self, sender: str, number: int, entry: LogEntry) -> Iterator[HolonAction]:
        try:
            self._learn([(number, entry)])
        except DecisionError as error:
            yield Noted("another entry", {"peer": sender, "why": str(error)})

    def _learn(self, entries: Iterable[tuple[int, LogEntry]]) -> bool:
        """Entries of the decision log; returns whether one is the answer to what was proposed here."""
        is_answer = [self.deciding.learn(number, entry) for number, entry in entries]
        decided, log = self.program.decided, self.deciding.log
        for number, entry in log.entries_after(decided.known - 1):
            if number >= log.next_number:
                break
            decided.learn(number, entry)
        return any(is_answer)

    def _propose(self, now_ns: int) -> Iterator[HolonAction]:
        entry = self.deciding.ending()
        if entry is None and self.settings.idle_ns is not None:
            entry = self.program.decided.returning(self.deciding.quiet.ends)
            entry = self._closing(now_ns, self.settings.idle_ns) if entry is None else entry
        if entry is not None and (decide := self.deciding.propose(entry, now_ns)) is not None:
            yield decide

    def _closing(self, now_ns: int, idle_ns: int) -> LogEntry | None:
        entry = self.program.decided.closing(self.deciding.quiet.silent(idle_ns), self.running.indexes())
        if entry is None or not self.deciding.may_close(entry.step, self.owning.turn(ONCE), now_ns):
            return None
        return entry

    # --- between events ---

    def check(self) -> None:
        """What has to hold between two events."""
        self._invariants.check()
