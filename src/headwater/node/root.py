"""The root: accepts deltas, decides about sources, says where to cut, closes windows and gives rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwater.engine.wire.part_bytes import part_from_bytes
from headwater.errors import FormatError
from headwater.language.files.queries import to_json
from headwater.language.schemas import check_schemas
from headwater.node.records import event_of, record_of
from headwater.node.root_windows import RootWindows
from headwater.protocols.actions import (
    Action,
    Checkpoint,
    EmitAside,
    EmitRows,
    Finished,
    Noted,
    Record,
    SendMessage,
    SetTimer,
)
from headwater.protocols.advances import Advances, Moves
from headwater.protocols.delta import CUT_SUFFIX, Delta
from headwater.protocols.events import (
    Event,
    FlushAsked,
    IdleAsked,
    MessageReceived,
    QueryAdded,
    QueryRemoved,
    ReturnAsked,
    Started,
    TimerFired,
)
from headwater.protocols.frames import FrameError
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Flush, Hello, Positions, Rates, Refuse, decode, encode

THE_END = "the stream has ended; what comes now is in no window"
#: Observers are told how far each source came, unless so many moved at once.
SOURCES_NOTED_MAX = 1000


class RootNode(RootWindows):
    """Accepts what its children send and answers the queries.

    Everything it knows is a function of the events that were recorded: a root that is lost is made again from its last
    checkpoint and the records behind it, and repeats the same steps. It tells nobody of an acceptance before it is recorded.
    """

    # --- the one door ---

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """What happens, and what is to be done about it."""
        self._changed = False
        actions = self._react(event, now_ns)
        if not self._changed or not self.settings.is_recorded:
            return actions
        self._records += 1
        self._since_checkpoint += 1
        recorded: list[Action] = [Record(record_of(event, now_ns)), *actions]
        if self._since_checkpoint >= self.settings.checkpoint_every:
            self._since_checkpoint = 0
            recorded.append(Checkpoint(self.snapshot()))
        return recorded

    def _react(self, event: Event, now_ns: int) -> list[Action]:
        match event:
            case Started():
                return self._on_started()
            case MessageReceived():
                return self._on_frame(event, now_ns)
            case TimerFired("idle"):
                return self._on_idle_timer(now_ns)
            case TimerFired("cut"):
                self._cut_timer = False
                return self._announce()
            case TimerFired("tend"):
                return self._on_tend_timer()
            case QueryAdded():
                return self._on_query_added(event)
            case QueryRemoved():
                return self._on_query_removed(event)
            case FlushAsked():
                return self._on_flush_asked()
            case IdleAsked(source):
                return self._on_idle_asked(source)
            case ReturnAsked(source):
                return self._on_return_asked(source, now_ns)
        return []

    def _on_started(self) -> list[Action]:
        actions: list[Action] = [Checkpoint(self.snapshot()), SetTimer("tend", self.settings.resend_ns)]
        if self.settings.idle_ns is not None:
            actions.append(SetTimer("idle", self.settings.idle_ns // 4))
        self._cut_timer = False
        return [*actions, *self._cut_soon()]

    def _on_frame(self, event: MessageReceived, now_ns: int) -> list[Action]:
        try:
            message = decode(event.frame, self.settings.frame_bytes_max)
        except FrameError as error:
            return [Noted("damaged frame", {"why": str(error)})]
        if isinstance(message, Hello):
            return self._on_hello(event.sender, message, now_ns)
        if isinstance(message, Delta):
            return self._on_delta(event.sender, message, now_ns)
        if isinstance(message, Positions):
            return self._on_quiet_leaf(event.sender, message)
        if isinstance(message, Rates):
            links = [link for link in self._routes.children if link != event.sender]
            return [SendMessage(link, bytes(event.frame)) for link in links]
        return []

    def _on_idle_timer(self, now_ns: int) -> list[Action]:
        assert self.settings.idle_ns is not None
        timer = SetTimer("idle", self.settings.idle_ns // 4)
        decided = len(self._members.decisions)
        if not self._members.decide_idle(now_ns, self.settings.idle_ns):
            return [timer]
        self._changed = True
        return [*self._note_decisions(decided), *self._advance(), timer]

    def _on_idle_asked(self, source: str) -> list[Action]:
        number = self._number_of(source)
        if not self._members.active[number]:
            return []
        self._changed = True
        decided = len(self._members.decisions)
        self._members.set_idle([number])
        return [*self._note_decisions(decided), *self._advance()]

    def _on_return_asked(self, source: str, now_ns: int) -> list[Action]:
        number = self._number_of(source)
        if self._members.active[number]:
            return []
        self._changed = True
        decided = len(self._members.decisions)
        self._members.decide_return([number], now_ns)
        chain = self._members.chain_of(number)
        self._new_epoch(chain)
        return [*self._note_decisions(decided), *self._assign(chain), *self._advance()]

    # --- deltas ---

    def _on_delta(self, sender: str, delta: Delta, now_ns: int) -> list[Action]:
        self._routes.heard_all(tuple(delta.ranges), sender)
        if self._finished:
            return self._reject_after_the_end(sender, delta)
        reasons = self._ledger.objections(delta.ranges)
        if reasons:
            return self._reject(sender, delta, reasons)
        if not self._members.has_all(delta.advances):
            return self._begin_anew(sender, delta, "it moves sources that are not there")
        if not self._members.are_all_active:
            back = {chain: self._members.returning(chain, advance) for chain, advance in delta.advances.items()}
            if any(back.values()):
                return self._take_back(sender, delta, back, now_ns)
        try:
            operators = self._half.operators()
            parts = [part_from_bytes(data, operators) for data in delta.parts]
        except FormatError as error:
            return self._begin_anew(sender, delta, str(error))
        problem = self._half.problem(parts, self._members.crowd)
        if problem is not None:
            return self._begin_anew(sender, delta, problem)
        return self._accept(sender, delta, parts, now_ns)

    def _begin_anew(self, sender: str, delta: Delta, why: str) -> list[Action]:
        """A delta that cannot be right: nothing of it counts, and its chains are sliced once more."""
        self._changed = True
        chains = sorted({chain.removesuffix(CUT_SUFFIX) for chain in delta.ranges} & set(self._members.chains))
        actions: list[Action] = [Noted("damaged delta", {"chains": sorted(delta.ranges), "why": why})]
        for chain in chains:
            self._new_epoch(chain)
            actions.extend(self._assign(chain))
        return [*actions, self._say_again(sender, delta)]

    def _say_again(self, sender: str, delta: Delta) -> SendMessage:
        """Nothing of a delta was accepted: where its chains stand, from where to send again."""
        return SendMessage(sender, encode(Positions(True, self._ledger.of(delta.ranges))))

    def _accepted(self, sender: str, delta: Delta) -> SendMessage:
        """What is accepted of a delta's chains; it may have been said before and not been heard."""
        known = self._ledger.of(delta.ranges)
        return SendMessage(
            sender, encode(Positions(False, {c: position for c, position in known.items() if position.epoch}))
        )

    def _accept(self, sender: str, delta: Delta, parts: list[Any], now_ns: int) -> list[Action]:
        self._changed = True
        members = self._members
        self._ledger.accept(delta)
        members.advance(delta.advances, now_ns)
        if self._half.reads_again:
            members.mark_sometimes(tuple(delta.advances))
        if self._plans is not None:
            self._plans.flows.up += len(delta.ranges)
        self._half.absorb(parts, members.crowd)
        actions = self._advance()
        note = self._noted(
            "accepted",
            chains={chain: [s.epoch, s.start, s.end] for chain, s in delta.ranges.items()},
            sources=self._moves(delta),
            watermark=members.watermark(),
        )
        return [note, *actions, self._accepted(sender, delta)]

    def _moves(self, delta: Delta) -> Mapping[str, list[int]]:
        """How far each source came: from where, to where, and its watermark."""
        members, moved = self._members, Advances.of(delta.advances)
        if len(moved.sources) > SOURCES_NOTED_MAX:
            return {}
        numbers = members.moved(moved)
        ends = members.offsets[numbers]
        return Moves(members.names, numbers, np.stack((ends - moved.counts, ends, members.watermarks[numbers]), 1))

    def _reject(self, sender: str, delta: Delta, reasons: dict[str, str]) -> list[Action]:
        """Say where the chains stand; an owner that has not heard of its new epoch is told once more."""
        actions: list[Action] = [Noted("rejected", {"chains": reasons})]
        outdated = {chain.removesuffix(CUT_SUFFIX) for chain, reason in reasons.items() if reason == "old epoch"}
        for chain in sorted(outdated & set(self._members.chains)):
            actions.extend(self._assign(chain))
        return [*actions, self._accepted(sender, delta), self._say_again(sender, delta)]

    def _reject_after_the_end(self, sender: str, delta: Delta) -> list[Action]:
        """Repeat an acceptance that was not heard; of anything else say that it comes too late, so that nobody sends on."""
        known = self._ledger.of(delta.ranges)
        news = {
            chain.removesuffix(CUT_SUFFIX) for chain, stretch in delta.ranges.items() if stretch.end > known[chain].at
        }
        refusals = [SendMessage(sender, encode(Refuse(chain, THE_END))) for chain in sorted(news)]
        note = Noted("rejected", {"chains": dict.fromkeys(sorted(delta.ranges), "finished")})
        return [note, self._accepted(sender, delta), *refusals]

    def _take_back(self, sender: str, delta: Delta, back: dict[str, list[int]], now_ns: int) -> list[Action]:
        """Idle sources speak again: they return at the watermark of now, and what they sent is sliced anew with it."""
        self._changed = True
        decided = len(self._members.decisions)
        actions: list[Action] = []
        # Else the next of them would fall idle before this one is back, and so on for ever.
        self._members.hear(delta.advances, now_ns)
        for chain, numbers in back.items():
            if numbers:
                self._members.decide_return(numbers, now_ns)
                self._new_epoch(chain)
        actions.extend(self._note_decisions(decided))
        for chain, numbers in back.items():
            if numbers:
                actions.extend(self._assign(chain))
        reasons = {chain: "idle" for chain, numbers in back.items() if numbers}
        return [*actions, Noted("rejected", {"chains": reasons}), *self._advance(), self._say_again(sender, delta)]

    # --- queries ---

    def _on_query_added(self, event: QueryAdded) -> list[Action]:
        to_json([event.query])  # a query that cannot travel is refused here
        if self._schema is not None:
            check_schemas([event.query], self._schema, self._time)
        begin = self._half.add_query(event.query, event.at)
        self._changed = True
        if self._schema is not None:
            self._half.check(self._schema)
        note = self._noted("query added", name=event.query.name, at=begin)
        return [note, *self._tell_queries()]

    def _on_query_removed(self, event: QueryRemoved) -> list[Action]:
        self._half.remove_query(event.name, event.drain)
        self._changed = True
        if not self._half.has_cuts:
            self._forget_cuts()
        note = self._noted("query removed", name=event.name, drain=event.drain)
        return [note, *self._tell_queries()]

    def _forget_cuts(self) -> None:
        """Nobody asks for cuts any more."""
        if self._pending is not None:
            self._cut, self._cut_time = self._pending.message.number, self._pending.message.until
            self._pending = None
        for name, chain in self._members.chains.items():
            if not self._half.reads_again:  # count windows may still have to read again
                chain.marks.clear()
            position = self._ledger.positions[name + CUT_SUFFIX]
            self._ledger.positions[name + CUT_SUFFIX] = Position(position.epoch, self._cut)

    def _tell_queries(self) -> list[Action]:
        """All leaves begin anew behind what was accepted, with the queries of now."""
        self._version += 1
        self._text = None
        actions: list[Action] = []
        for chain, known in sorted(self._members.chains.items()):
            if self._half.reads_again and not known.marks:
                self._members.mark(chain)
            self._new_epoch(chain)
            actions.extend(self._assign(chain))
        return actions

    def _on_flush_asked(self) -> list[Action]:
        self._changed = True
        self._flushing = True
        return [*self._broadcast(encode(Flush())), *self._advance()]

    def check(self) -> None:
        """Assert what holds after each event."""
        chains, positions = self._members.chains, self._ledger.positions
        for chain in chains:
            assert positions[chain].epoch > 0, f"{chain!r} is owned under no epoch"
            assert positions[chain + CUT_SUFFIX].epoch == positions[chain].epoch, f"{chain!r} has cuts of another epoch"
        pending = self._pending
        if pending is not None:
            assert pending.message.number == self._cut + 1, f"cut {pending.message.number} follows {self._cut}"
            assert pending.message.until > self._cut_time, f"it ends at {pending.message.until}, before the last one"
            assert set(pending.awaited) <= set(chains), f"nobody has {set(pending.awaited) - set(chains)}"

    @classmethod
    def recover(cls, checkpoint: bytes, records: Sequence[bytes]) -> tuple[RootNode, list[Action]]:
        """A root as it was when the last record was written, and what it had given since the checkpoint.

        Rows and notes may have left before; they are the same. Answers that were not sent are asked for again.
        """
        root = cls.restore(checkpoint)
        repeated: list[Action] = []
        for record in records:
            actions = root.handle(*event_of(record))
            repeated.extend(a for a in actions if isinstance(a, EmitRows | EmitAside | Noted | Finished))
        root._since_checkpoint = 0
        return root, repeated
