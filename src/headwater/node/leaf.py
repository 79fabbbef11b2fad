"""A leaf: events of its sources in, deltas out."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np

from headwater.engine.leaf_half import LeafHalf
from headwater.engine.leaf_intake import Standing
from headwater.engine.part_bytes import part_to_bytes
from headwater.engine.parts import EventsPart, LatePart, MarkersPart, Part, RowsPart
from headwater.engine.query_set import read_query_set
from headwater.engine.state_bytes import from_bytes, to_bytes
from headwater.errors import FormatError, QueryError
from headwater.node.settings import NodeSettings
from headwater.protocols.actions import (
    Action,
    Finished,
    Noted,
    PauseReading,
    ReadFrom,
    Refused,
    ResumeReading,
    SendMessage,
    SetTimer,
    Superseded,
)
from headwater.protocols.delta import CUT_SUFFIX, Advance, Delta, Range, wrapped
from headwater.protocols.events import (
    BatchArrived,
    Event,
    MessageReceived,
    MixedBatchArrived,
    SourceEnded,
    SourceOpened,
    Started,
    TimerFired,
)
from headwater.protocols.frames import FrameError
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, Cuts, Flush, Hello, Message, Positions, Refuse, decode, encode
from headwater.protocols.outbox import Outbox
from headwater.times import FOREVER


class LeafNode:
    """Reads the sources of one chain, slices their events and sends deltas to its parent until they are accepted.

    A leaf owns its chain only under the epoch it was assigned. Whatever happens to it, the root says where to go on.
    """

    def __init__(
        self, name: str, parent: str, *, chain: str | None = None, settings: NodeSettings | None = None
    ) -> None:
        self.name = name
        self.parent = parent
        self.chain = name if chain is None else chain
        self.settings = NodeSettings() if settings is None else settings
        self._homes: dict[str, str] = {}
        self._schema = b""
        self._ends: dict[str, int] = {}
        self._flushing = False
        self._stopped = False
        self._version = 0
        self._queries: str | None = None
        self._assigned: Assign | None = None
        self._half: LeafHalf | None = None
        self._outbox = Outbox()
        self._cut_outbox = Outbox()
        self._sent = 0  # the position up to which the outbox was sent at least once
        self._paused = False
        self._send_timer = False
        self._finished = False
        self._answered: dict[str, Position] = {}  # from where frames were sent again since the timer fired

    # --- the one door ---

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """What happens, and what is to be done about it."""
        if self._stopped:
            return []
        match event:
            case Started():
                return self._on_started()
            case SourceOpened():
                return self._on_opened(event)
            case BatchArrived():
                return self._on_batch(event)
            case MixedBatchArrived():
                return self._on_mixed(event)
            case SourceEnded():
                return self._on_ended(event)
            case MessageReceived():
                return self._on_frame(event.frame)
            case TimerFired("hello"):
                return self._on_hello_timer()
            case TimerFired("send"):
                self._send_timer = False
                return self._send()
            case TimerFired("resend"):
                return self._on_resend_timer()
        return []

    # --- joining ---

    def _on_started(self) -> list[Action]:
        self._send_timer = False
        actions: list[Action] = [SetTimer("hello", 0)]
        if self._assigned is None:
            return actions
        # Back with all memory: go on where the sources were left, and send what nobody may have heard.
        pause: list[Action] = [PauseReading()] if self._paused else []
        timers = [SetTimer("resend", self.settings.resend_ns), SetTimer("send", 0)]
        return [*actions, *pause, *self._reads(), *timers]

    def _on_opened(self, event: SourceOpened) -> list[Action]:
        is_new = event.source not in self._homes
        self._homes.setdefault(event.source, event.home)
        if event.schema is not None and not self._schema:
            self._schema = event.schema.serialize().to_pybytes()
            is_new = True
        # Not at once: sources mostly come together.
        return [SetTimer("hello", 0)] if is_new else []

    def _on_hello_timer(self) -> list[Action]:
        if not self._homes or self._owns_all():
            return []
        epoch = 0 if self._assigned is None else self._assigned.epoch
        hello = Hello(self.chain, self.name, epoch, self._version, tuple(self._homes.items()), self._schema)
        return [SendMessage(self.parent, encode(hello)), SetTimer("hello", self.settings.hello_ns)]

    def _owns_all(self) -> bool:
        """Whether the root knows this leaf and all its sources."""
        assigned = self._assigned
        return assigned is not None and {source.name for source in assigned.sources} >= set(self._homes)

    def _on_assigned(self, assign: Assign) -> list[Action]:
        if assign.chain != self.chain:
            return []
        current = 0 if self._assigned is None else self._assigned.epoch
        if assign.node != self.name:
            return self._stop() if assign.epoch > current and self._assigned is not None else []
        if assign.epoch <= current:
            return []
        if assign.queries is None and assign.version != self._version:
            self._version = 0
            return self._on_hello_timer() if self._assigned is None else self._ask_for_queries(current)
        if assign.queries is not None:
            read_query_set(assign.queries)  # nothing has changed yet if these are none
            self._queries, self._version = assign.queries, assign.version
        return self._begin(assign)

    def _ask_for_queries(self, epoch: int) -> list[Action]:
        hello = Hello(self.chain, self.name, epoch, 0, tuple(self._homes.items()), self._schema)
        return [SendMessage(self.parent, encode(hello))]

    def _begin(self, assign: Assign) -> list[Action]:
        """Slice from here on, under a new epoch; what was cut under an older one is void."""
        assert self._queries is not None
        again = self._assigned is not None
        self._assigned = assign
        for source in assign.sources:
            self._homes.setdefault(source.name, source.home)
        standings = [
            Standing(s.name, s.home, s.offset, s.watermark, s.hold, s.hold_watermark, s.floors) for s in assign.sources
        ]
        queries = read_query_set(self._queries)
        self._half = LeafHalf(queries, self.chain, standings, assign.latest, assign.cut_time)
        self._outbox, self._cut_outbox = Outbox(assign.position), Outbox(assign.cut)
        self._sent = assign.position
        self._finished = False
        actions: list[Action] = [Noted("rewound" if again else "began", {"epoch": assign.epoch})]
        if self._paused:
            self._paused = False
            actions.append(ResumeReading())
        actions.extend(self._reads())
        for source in assign.sources:
            actions.extend(self._end_if_read(source.name))
        return [*actions, SetTimer("resend", self.settings.resend_ns), SetTimer("hello", self.settings.hello_ns)]

    def _reads(self) -> list[Action]:
        assert self._assigned is not None and self._half is not None
        return [ReadFrom(s.name, self._half.next_offset(s.name)) for s in self._assigned.sources]

    def _stop(self) -> list[Action]:
        self._stopped = True
        return [Noted("superseded", {}), Superseded()]

    # --- events ---

    def _on_batch(self, event: BatchArrived) -> list[Action]:
        half = self._half
        if half is None or not half.has_source(event.source):
            return []
        expected = half.next_offset(event.source)
        if expected >= self._ends.get(event.source, FOREVER):
            return []  # a flush has ended the source here, whatever it still has to say
        if self._paused and self._must_wait():
            return []  # it is read again when there is room
        if event.offset > expected:
            return [ReadFrom(event.source, expected)]
        end = event.offset + len(event.batch)
        last = self._ends.get(event.source, end)
        if end > last:
            if event.offset >= last:
                return []  # after the end that a flush has set
            half.take_in(event.source, event.offset, event.batch.slice(0, last - event.offset), None)
        else:
            half.take_in(event.source, event.offset, event.batch, event.watermark)
        actions = self._end_if_read(event.source)
        if self._has_much(half):
            actions.extend(self._send())
        return [*actions, *self._soon(), *self._balance()]

    def _has_much(self, half: LeafHalf) -> bool:
        """Whether it is time to send, for a frame has to hold it all."""
        return half.pending >= self.settings.pending_max or half.pending_bytes >= self.settings.frame_bytes_max // 4

    def _on_mixed(self, event: MixedBatchArrived) -> list[Action]:
        half = self._half
        if half is None or self._flushing or not all(map(half.has_source, event.sources)):
            return []
        if self._paused and self._must_wait():
            return []  # it is read again when there is room
        missing = half.take_in_mixed(event.sources, event.which, event.offsets, event.batch)
        actions: list[Action] = [ReadFrom(source, offset) for source, offset in missing.items()]
        for source in event.sources if self._ends else ():
            self._end_if_read(source)
        if self._has_much(half):
            actions.extend(self._send())
        return [*actions, *self._soon(), *self._balance()]

    def _on_ended(self, event: SourceEnded) -> list[Action]:
        self._ends[event.source] = event.offset
        return [*self._end_if_read(event.source), *self._soon()]

    def _end_if_read(self, source: str) -> list[Action]:
        half = self._half
        if half is not None and half.has_source(source) and half.is_past_reread(source):
            if self._flushing:
                self._ends.setdefault(source, half.next_offset(source))
            if half.next_offset(source) >= self._ends.get(source, FOREVER):
                half.end(source, FOREVER)
        return []

    def _soon(self) -> list[Action]:
        """Send after a while what has come together by then."""
        if self._send_timer or self._half is None or not self._half.has_news:
            return []
        self._send_timer = True
        return [SetTimer("send", self.settings.linger_ns)]

    # --- sending ---

    def _send(self) -> list[Action]:
        half, assigned = self._half, self._assigned
        notes = [] if half is None or assigned is None or self._must_wait() else self._gather(half, assigned)
        frames = self._outbox.frames_from(self._sent)
        self._sent = self._outbox.end
        return [*notes, *(SendMessage(self.parent, frame) for frame in frames), *self._balance()]

    def _gather(self, half: LeafHalf, assigned: Assign) -> list[Action]:
        """Put what has come together into the outbox."""
        if not half.has_news:
            return []
        moved, parts = half.take()
        if not moved.sources and not parts:
            return []
        position = self._outbox.end
        advance = Advance(
            np.array(moved.sources, np.int64),
            np.array(moved.counts, np.int64),
            np.array([wrapped(rise) for rise in moved.rises], np.int64),
            wrapped(moved.latest),
        )
        stretch = Range(assigned.epoch, position, position + 1)
        encoded = [part_to_bytes(part) for part in parts]
        for part, data in zip(parts, encoded, strict=True):
            if isinstance(part, RowsPart):
                half.weigh(part.family, len(data))
        delta = Delta({self.chain: stretch}, {self.chain: advance}, encoded)
        self._outbox.add(encode(delta))
        notes = {_note_of(part) for part in parts} - {None}
        return [Noted(what, {}) for what in sorted(map(str, notes))]

    def _on_cuts(self, cuts: Cuts) -> list[Action]:
        half, assigned = self._half, self._assigned
        if half is None or assigned is None:
            return []
        if cuts.number <= self._cut_outbox.end:
            # Asked again: the answer may have been lost.
            return [SendMessage(self.parent, frame) for frame in self._cut_outbox.frames_from(cuts.number - 1)]
        if cuts.number > self._cut_outbox.end + 1:
            # Cuts were done that this leaf had nothing for and did not hear of: begin anew behind them.
            return self._ask_for_queries(0)
        if not half.is_past_rereads():
            return []  # the root asks again; until then what was accepted is read again
        parts = half.cut(cuts.until, cuts.cuts, cuts.idle)
        stretch = Range(assigned.epoch, cuts.number - 1, cuts.number)
        frame = encode(Delta({self.chain + CUT_SUFFIX: stretch}, {}, [part_to_bytes(part) for part in parts]))
        self._cut_outbox.add(frame)
        return [Noted("cut", {"number": cuts.number}), SendMessage(self.parent, frame), *self._balance()]

    def _on_positions(self, positions: Positions) -> list[Action]:
        actions: list[Action] = []
        for chain, outbox in ((self.chain, self._outbox), (self.chain + CUT_SUFFIX, self._cut_outbox)):
            position = positions.chains.get(chain)
            if position is None or self._assigned is None:
                continue
            if position.epoch != self._assigned.epoch:
                if positions.resend and position.epoch == 0 and chain == self.chain:
                    actions.extend(self._ask_for_queries(0))
                elif positions.resend and position.epoch > self._assigned.epoch:
                    # What was assigned since has not arrived; the root will say it again, to whoever owns the chain now.
                    actions.extend(self._ask_for_queries(self._assigned.epoch))
                continue
            if positions.resend:
                # Once for each position until the timer fires: each frame that comes too early is answered, all alike.
                frames = [] if self._answered.get(chain) == position else outbox.frames_from(position.at)
                self._answered[chain] = position
                actions.extend(SendMessage(self.parent, frame) for frame in frames)
                if frames:
                    actions.append(Noted("resent", {"frames": len(frames)}))
            else:
                outbox.accepted(position.at)
        return [*actions, *self._soon_again(), *self._balance(), *self._finish()]

    def _soon_again(self) -> list[Action]:
        """There is room again: send what could not be sent."""
        return self._soon() if not self._must_wait() else []

    def _on_resend_timer(self) -> list[Action]:
        timer = SetTimer("resend", self.settings.resend_ns)
        self._answered.clear()
        if self._assigned is not None and not self._outbox.frames and not self._cut_outbox.frames:
            # A relay that forgot who is there hears it from those who speak.
            quiet = Positions(False, {self.chain: Position(self._assigned.epoch, self._outbox.end)})
            return [SendMessage(self.parent, encode(quiet)), timer]
        frames = [*self._outbox.overdue(), *self._cut_outbox.overdue()]
        note = [Noted("resent", {"frames": len(frames)})] if frames else []
        return [*note, *(SendMessage(self.parent, frame) for frame in frames), timer]

    # --- bounds ---

    def _must_wait(self) -> bool:
        return len(self._outbox.frames) >= self.settings.steps_max

    def _is_full(self) -> bool:
        if self._half is None:
            return False
        if self._must_wait():
            return True
        # What is read again was held before; the cuts that let go of it need all of it.
        held_max = self.settings.held_max
        return self._half.held(held_max) >= held_max and self._half.is_past_rereads()

    def _balance(self) -> list[Action]:
        """Stop reading while too much is held, and go on when there is room."""
        full = self._is_full()
        if full == self._paused:
            return []
        self._paused = full
        if full:
            return [Noted("paused", {}), PauseReading()]
        return [Noted("resumed", {}), *self._reads(), ResumeReading()]

    # --- ending ---

    def _on_flush(self) -> list[Action]:
        if self._flushing:
            return []
        self._flushing = True
        if self._half is not None:
            for source in self._homes:
                if self._half.has_source(source):
                    resume = self._half.resume_offset(source)
                    self._ends[source] = min(self._ends.get(source, resume), resume)
                    self._end_if_read(source)
        return [Noted("flushed", {}), *self._soon()]

    def _finish(self) -> list[Action]:
        half = self._half
        done = half is not None and half.has_ended and not half.has_news and not self._outbox.frames
        if done and not self._finished:
            self._finished = True
            return [Finished()]
        return []

    # --- messages ---

    def _on_frame(self, frame: bytes) -> list[Action]:
        try:
            message = decode(frame, self.settings.frame_bytes_max)
        except FrameError as error:
            return [Noted("damaged frame", {"why": str(error)})]
        try:
            return self._on_message(message)
        except (FormatError, QueryError) as error:
            return [Noted("damaged message", {"why": str(error)})]

    def _on_message(self, message: Message) -> list[Action]:
        match message:
            case Assign():
                return self._on_assigned(message)
            case Positions():
                return self._on_positions(message)
            case Cuts():
                return self._on_cuts(message)
            case Flush():
                return self._on_flush()
            case Refuse(chain, reason) if chain == self.chain:
                # Whoever has a chain and is refused has nothing more to say; others may fit later.
                self._stopped = self._assigned is not None
                return [Noted("refused", {"why": reason}), Refused(reason)]
        return []

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """What the leaf knows. Events are not in it: they are read again."""
        state: dict[str, Any] = {
            "names": [self.name, self.parent, self.chain],
            "settings": list(astuple(self.settings)),
            "homes": [list(home) for home in self._homes.items()],
            "ends": [list(end) for end in self._ends.items()],
            "flags": [self._flushing, self._stopped, self._paused, self._finished],
            "schema": self._schema,
            "queries": [self._version, self._queries],
            "assigned": None,
        }
        if self._assigned is not None and self._half is not None:
            self._gather(self._half, self._assigned)
            told, latest = self._half.told()
            state |= {
                "assigned": encode(self._assigned),
                "outbox": [self._outbox.at, self._outbox.frames, self._sent],
                "cuts": [self._cut_outbox.at, self._cut_outbox.frames, self._half.cut_time],
                "told": [[name, *place] for name, place in told.items()],
                "latest": latest,
            }
        return to_bytes(state)

    @classmethod
    def restore(cls, data: bytes) -> LeafNode:
        """A leaf that goes on where ``snapshot`` was taken; the next event is `Started`."""
        state = from_bytes(data)
        name, parent, chain = state["names"]
        leaf = cls(name, parent, chain=chain, settings=NodeSettings(*state["settings"]))
        leaf._homes, leaf._ends = dict(map(tuple, state["homes"])), dict(map(tuple, state["ends"]))
        leaf._flushing, leaf._stopped, leaf._paused, leaf._finished = state["flags"]
        leaf._schema = state["schema"]
        leaf._version, leaf._queries = state["queries"]
        if state["assigned"] is not None:
            assigned = decode(state["assigned"])
            assert isinstance(assigned, Assign) and leaf._queries is not None
            leaf._assigned = assigned
            at, frames, leaf._sent = state["outbox"]
            leaf._outbox = Outbox(at, frames)
            cut_at, cut_frames, cut_time = state["cuts"]
            leaf._cut_outbox = Outbox(cut_at, cut_frames)
            told = {name: (offset, watermark) for name, offset, watermark in state["told"]}
            standings = [
                Standing(s.name, s.home, *told[s.name], s.hold, s.hold_watermark, s.floors) for s in assigned.sources
            ]
            queries = read_query_set(leaf._queries)
            leaf._half = LeafHalf(queries, chain, standings, state["latest"], cut_time)
        return leaf


def _note_of(part: Part) -> str | None:
    match part:
        case LatePart():
            return "late travels"
        case MarkersPart():
            return "markers travel"
        case EventsPart(family):
            return "raw travels" if family < 0 else "raw instead"
    return None
