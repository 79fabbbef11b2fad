"""A leaf: events of its sources in, deltas out."""

from __future__ import annotations

from headwater.base.packing import Bytes
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.wire.query_set import QuerySet, read_query_set
from headwater.errors import FormatError, QueryError
from headwater.language.times import FOREVER
from headwater.node.leaf_sending import LeafSending
from headwater.node.splitting import Splitting
from headwater.protocols.actions import (
    Action,
    Noted,
    PauseReading,
    ReadFrom,
    Refused,
    ResumeReading,
    SetTimer,
    Superseded,
)
from headwater.protocols.events import (
    BatchArrived,
    Event,
    EventsPassed,
    Leaving,
    MessageReceived,
    MixedBatchArrived,
    SourceEnded,
    SourceOpened,
    Started,
    TimerFired,
)
from headwater.protocols.frames import FrameError
from headwater.protocols.messages import (
    Assign,
    CountPlan,
    Cuts,
    Flush,
    LookInto,
    Message,
    Positions,
    Rates,
    Refuse,
    decode,
)
from headwater.protocols.outbox import Outbox


class LeafNode(LeafSending):
    """Reads the sources of one chain, slices their events and sends deltas to its parent until they are accepted.

    A leaf owns its chain only under the epoch it was assigned. Whatever happens to it, the root says where to go on.
    """

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
            case EventsPassed():
                return self._on_passed(event)
            case SourceEnded():
                return self._on_ended(event)
            case MessageReceived():
                return self._on_frame(event.frame)
            case Leaving():
                return self._on_leaving()
            case TimerFired("hello"):
                return self._on_hello_timer()
            case TimerFired("send"):
                self._send_timer = False
                return self._send()
            case TimerFired("calm"):
                self._calm_timer = False
                return self._send()
            case TimerFired("resend"):
                return self._on_resend_timer()
        return []

    # --- joining ---

    def _on_started(self) -> list[Action]:
        self._send_timer = self._calm_timer = False
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
        return [self._hello(epoch, self._version), SetTimer("hello", self.settings.hello_ns)]

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
            return self._on_hello_timer() if self._assigned is None else [self._hello(current)]
        text = self._queries if assign.queries is None else assign.queries
        assert text is not None
        queries = read_query_set(text)  # nothing has changed yet if these are none
        self._queries, self._version = text, assign.version
        return self._begin(assign, queries)

    def _begin(self, assign: Assign, queries: QuerySet) -> list[Action]:
        """Slice from here on, under a new epoch; what was cut under an older one is void."""
        again = self._assigned is not None
        self._assigned = assign
        for source in assign.sources:
            self._homes.setdefault(source.name, source.home)
        standings = [
            Standing(s.name, s.home, s.offset, s.watermark, s.hold, s.hold_watermark, s.floors) for s in assign.sources
        ]
        self._half = LeafHalf(queries, self.chain, standings, assign.latest, assign.cut_time)
        self._begin_counting(self._half, assign)
        self._splitting = Splitting.of(queries, self.roots, self.sharing)
        self._outbox, self._cut_outbox = Outbox(assign.position), Outbox(assign.cut)
        self._sent = assign.position
        self._finished = False
        actions: list[Action] = [Noted("rewound" if again else "began", {"epoch": assign.epoch})]
        if self._paused:
            self._paused = False
            actions.append(ResumeReading())
        actions.extend(self._reads())
        for source in assign.sources:
            self._end_if_read(source.name)
        return [*actions, SetTimer("resend", self.settings.resend_ns), SetTimer("hello", self.settings.hello_ns)]

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
        self._end_if_read(event.source)
        return self._taken_in(half)

    def _taken_in(self, half: LeafHalf) -> list[Action]:
        """Events came: send at once if there is much, for a frame has to hold it all, or after a while."""
        settings = self.settings
        has_much = half.pending >= settings.pending_max or half.pending_bytes >= settings.pending_bytes_max
        return [*(self._send() if has_much else []), *self._soon(), *self._balance()]

    def _on_mixed(self, event: MixedBatchArrived) -> list[Action]:
        half = self._half
        if half is None or self._flushing or not all(map(half.has_source, event.sources)):
            return []
        if self._paused and self._must_wait():
            return []  # it is read again when there is room
        missing = half.take_in_mixed(event.sources, event.which, event.offsets, event.batch)
        for source in event.sources if self._ends else ():
            self._end_if_read(source)
        return [*(ReadFrom(source, offset) for source, offset in missing.items()), *self._taken_in(half)]

    def _on_passed(self, event: EventsPassed) -> list[Action]:
        half = self._half
        if half is None or self._flushing or not half.has_source(event.source):
            return []
        if self._paused and self._must_wait():
            return []  # it is passed again when there is room
        if event.offset > half.next_offset(event.source):
            return [ReadFrom(event.source, half.next_offset(event.source))]
        half.pass_over(event.source, event.offset + event.count, event.low, event.high)
        self._end_if_read(event.source)
        return self._taken_in(half)

    def _on_ended(self, event: SourceEnded) -> list[Action]:
        self._ends[event.source] = event.offset
        self._end_if_read(event.source)
        return self._soon()

    def _end_if_read(self, source: str) -> None:
        half = self._half
        if half is not None and half.has_source(source) and half.is_past_reread(source):
            if self._flushing:
                self._ends.setdefault(source, half.next_offset(source))
            if half.next_offset(source) >= self._ends.get(source, FOREVER):
                half.end(source, FOREVER)

    # --- ending ---

    def _on_leaving(self) -> list[Action]:
        """This leaf ends though its sources do not: send everything, and what has no order yet as it is."""
        if self._half is None or self._assigned is None:
            return []
        notes = self._gather(self._half, self._assigned, is_last=True)
        return [*notes, *self._send()]

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

    # --- messages ---

    def hear(self, message: Message) -> list[Action]:
        """A message that comes from the host itself, which has it as an object."""
        return [] if self._stopped else self._on_message(message)

    def _on_frame(self, frame: Bytes) -> list[Action]:
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
            case CountPlan():
                return self._on_plan(message)
            case LookInto():
                return self._on_look(message)
            case Rates():
                return self._on_rates(message)
            case Flush():
                return self._on_flush()
            case Refuse(chain, reason) if chain == self.chain:
                # Whoever has a chain and is refused has nothing more to say; others may fit later.
                self._stopped = self._assigned is not None
                return [Noted("refused", {"why": reason}), Refused(reason)]
        return []
