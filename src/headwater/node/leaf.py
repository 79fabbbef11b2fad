"""A leaf: events of its sources in, deltas out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.base.packing import Bytes
from headwater.engine.intake.widening import united_schema
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.wire.looks import looks_from_bytes
from headwater.engine.wire.query_set import QuerySet, read_query_set
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError, QueryError
from headwater.language.times import FOREVER, NEVER
from headwater.node.counting_leaf import CountingLeaf
from headwater.node.leaf_states import TRANSITIONS, LeafState
from headwater.node.sending import DeltaSender
from headwater.node.settings import NodeSettings
from headwater.node.splitting import Sharing, Splitting
from headwater.protocols import actions as act
from headwater.protocols import events, messages
from headwater.protocols.actions import Action, Noted
from headwater.protocols.events import Event
from headwater.protocols.frames import FrameError
from headwater.protocols.messages import Assign, Leave, decode, encode
from headwater.protocols.tree.outbox import Outbox


class LeafNode:
    """Reads the sources of one chain, slices their events and sends deltas to its parent until they are accepted.

    A leaf owns its chain only under the epoch it was assigned. After a crash or a loss the root says where to go on. With several
    ``roots``, which share keys, its frames are bundles of one for each; ``sharing`` is what they agreed on, where queries may
    change.
    """

    def __init__(
        self,
        name: str,
        parent: str,
        *,
        chain: str | None = None,
        settings: NodeSettings | None = None,
        roots: int = 1,
        sharing: Sharing | None = None,
        modules: Collection[str] | None = (),
    ) -> None:
        self.name = name
        self.parent = parent
        self.chain = name if chain is None else chain
        self.settings = NodeSettings() if settings is None else settings
        self.roots = roots
        self.sharing = sharing
        #: Where queries of the root may name users' code; None: anywhere, which is for hosts that run the root's code anyway.
        self.modules = modules
        self.state = LeafState.WAITING
        self._homes: dict[str, str] = {}
        self._ends: dict[str, int] = {}
        self._schema = b""
        self._version = 0
        self._queries: str | None = None
        self._counting = CountingLeaf(self.chain, self.settings)
        #: Of the epoch under which the chain is owned.
        self._sender: DeltaSender | None = None
        #: Whether the end of the stream was heard of, and whether the host was told to stop reading.
        self._is_over = False
        self._is_paused = False
        #: The timers until something is sent, those that run.
        self._timers: set[str] = set()

    # --- the one door ---

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """Take one event and return the actions that the host has to do, in this order."""
        if not isinstance(event, events.MessageReceived):
            return self._happen(event)
        return self._on_frame(event.frame) if event.sender == self.parent else [Noted("not let in", {})]

    def hear(self, message: messages.Message) -> list[Action]:
        """Take a message that the host has as an object, not as a frame."""
        return self._happen(message)

    def _on_frame(self, frame: Bytes) -> list[Action]:
        if self.state is LeafState.STOPPED:
            return []
        try:
            message = decode(frame, self.settings.frame_bytes_max)
        except FrameError as error:
            return [Noted("damaged frame", {"why": str(error)})]
        try:
            return self._happen(message)
        except (FormatError, QueryError) as error:
            return [Noted("damaged message", {"why": str(error)})]
        except (
            Exception
        ) as error:  # what this leaf knows may be half of this message: it begins anew, without any of it
            return self._give_up(str(error))

    def _give_up(self, why: str) -> list[Action]:
        """Forget everything but the sources, and ask for the chain as after a crash."""
        resumed: list[Action] = [act.ResumeReading()] if self._is_paused else []
        self._sender, self._is_paused, self._version, self._queries = None, False, 0, None
        self.state = LeafState.WAITING
        self._counting = CountingLeaf(self.chain, self.settings)
        return [Noted("damaged message", {"why": why}), *resumed, act.SetTimer("hello", 0)]

    def _happen(self, what: Event | messages.Message) -> list[Action]:
        """Handle an event or a message, unless the table passes it over in this state; assert that the next state is allowed."""
        before = self.state
        allowed = TRANSITIONS[before].get(type(what))
        if allowed is None:
            return []
        actions = HANDLERS[type(what)](self, what)
        self.state = self._settled()
        assert self.state is before or self.state in allowed, (
            f"{self.name} went from {before.value} to {self.state.value} by {type(what).__name__}"
        )
        return actions

    def _settled(self) -> LeafState:
        """The state that follows from what the leaf knows."""
        if self._sender is None or self.state in (LeafState.DONE, LeafState.STOPPED):
            return self.state
        if self._is_over:
            return LeafState.FLUSHING
        if self._is_paused:
            return LeafState.PAUSED
        # A leaf that has read everything again does not do so twice under one epoch.
        is_past = self.state is LeafState.RUNNING or self._sender.half.sources.are_past_reread()
        return LeafState.RUNNING if is_past else LeafState.REREADING

    @property
    def _owned(self) -> DeltaSender:
        """The sender of the chain, in states in which the leaf owns one."""
        assert self._sender is not None, f"{self.name} owns no chain while it is {self.state.value}"
        return self._sender

    # --- joining ---

    def _on_started(self, _: events.Started) -> list[Action]:
        self._timers.clear()
        hello = act.SetTimer("hello", 0)
        if self._sender is None:
            return [hello]
        # Back with all memory: go on where the sources were left, and send what may not have arrived.
        pause: list[Action] = [act.PauseReading()] if self._is_paused else []
        timers = [act.SetTimer("resend", self.settings.resend_ns), act.SetTimer("send", 0)]
        return [hello, *pause, *self._sender.reads(), *timers]

    def _on_opened(self, event: events.SourceOpened) -> list[Action]:
        is_new = event.source not in self._homes
        self._homes.setdefault(event.source, event.home)
        if event.schema is not None:
            is_new |= self._learn(event.schema)
        # Not at once: sources mostly come together.
        return [act.SetTimer("hello", 0)] if is_new else []

    def _learn(self, schema: pa.Schema) -> bool:
        """Take over the columns of a source; returns whether the root has to be told."""
        before = self._schema
        self._schema = schema_to_bytes(united_schema(schema_from_bytes(before), schema) if before else schema)
        return self._schema != before

    def _hello(self, epoch: int, version: int = 0) -> act.SendMessage:
        """Ask for the chain, anew if this leaf has it; the answer has the queries unless this leaf has their ``version``."""
        hello = messages.Hello(self.chain, self.name, epoch, version, tuple(self._homes.items()), self._schema)
        return act.SendMessage(self.parent, encode(hello))

    def _ask_for_all(self) -> list[Action]:
        """Say hello unless the root knows this leaf and all its sources."""
        known = None if self._sender is None else {source.name for source in self._sender.assigned.sources}
        if not self._homes or (known is not None and known >= set(self._homes)):
            return []
        # Under no epoch: the root may believe that this one has everything, and would not say it again.
        return [self._hello(0, self._version), act.SetTimer("hello", self.settings.hello_ns)]

    @property
    def _epoch(self) -> int:
        return 0 if self._sender is None else self._sender.assigned.epoch

    def _on_assigned(self, assign: Assign) -> list[Action]:
        if assign.chain != self.chain or assign.epoch <= self._epoch:
            return []
        if assign.node != self.name:
            return [] if self._sender is None else self._stop([Noted("superseded", {}), act.Superseded()])
        if assign.queries is None and (self._queries is None or assign.version != self._version):
            self._version = 0
            return self._ask_for_all() if self._sender is None else [self._hello(self._epoch)]
        text = self._queries if assign.queries is None else assign.queries
        assert text is not None
        queries = read_query_set(text, self.modules)  # nothing has changed yet if these are none
        self._queries, self._version = text, assign.version
        return self._begin(assign, queries)

    def _begin(self, assign: Assign, queries: QuerySet) -> list[Action]:
        """Slice from here on, under a new epoch; what was sliced under an older one is void."""
        again = self._sender is not None
        told = {source.name: (source.offset, source.watermark) for source in assign.sources}
        sender = self._sender = self._made(assign, queries, told, assign.latest, assign.cut_time)
        self._counting.begin(sender.half, assign.covered, assign.looks)
        self.state = LeafState.REREADING
        for source in assign.sources:
            self._homes.setdefault(source.name, source.home)
        actions: list[Action] = [Noted("rewound" if again else "began", {"epoch": assign.epoch})]
        if self._is_paused:
            self._is_paused = False
            actions.append(act.ResumeReading())
        actions.extend(sender.reads())
        for source in assign.sources:
            self._end_if_read(source.name)
        timers = [act.SetTimer("resend", self.settings.resend_ns), act.SetTimer("hello", self.settings.hello_ns)]
        return [*actions, *timers]

    def _made(
        self, assign: Assign, queries: QuerySet, told: Mapping[str, tuple[int, int]], latest: int, cut_time: int
    ) -> DeltaSender:
        """A sender that begins where it was assigned; of each source everything up to ``told`` was sent."""
        standings = [
            Standing(s.name, s.home, *told[s.name], s.hold, s.hold_watermark, s.floors) for s in assign.sources
        ]
        half = LeafHalf(queries, self.chain, standings, latest, cut_time, self.settings.counts)
        splitting = Splitting.of(queries, self.roots, self.sharing)
        boxes = Outbox(assign.position), Outbox(assign.cut)
        return DeltaSender(self.parent, self.settings, assign, half, splitting, *boxes, assign.position)

    def _stop(self, actions: list[Action]) -> list[Action]:
        self.state = LeafState.STOPPED
        if self._sender is not None:
            self._sender.let_go()
        return actions

    def _on_refused(self, refuse: messages.Refuse) -> list[Action]:
        if refuse.chain != self.chain:
            return []
        told: list[Action] = [Noted("refused", {"why": refuse.reason}), act.Refused(refuse.reason)]
        # A leaf with a chain that is refused has nothing more to say; one without may fit later.
        return told if self._sender is None else self._stop(told)

    # --- events ---

    def _on_batch(self, event: events.BatchArrived) -> list[Action]:
        half = self._owned.half
        if event.source not in half.sources:
            return []
        expected = half.sources.next_offset(event.source)
        if expected >= self._ends.get(event.source, FOREVER):
            return []  # a flush has ended the source here
        if self._is_passed_over:
            return []
        if event.offset > expected:
            return [act.ReadFrom(event.source, expected)]
        end = event.offset + len(event.batch)
        last = self._ends.get(event.source, end)
        if end > last:
            if event.offset >= last:
                return []  # after the end that a flush has set
            half.take_in(event.source, event.offset, event.batch.slice(0, last - event.offset), None)
        else:
            half.take_in(event.source, event.offset, event.batch, event.watermark)
        self._end_if_read(event.source)
        return self._taken_in()

    def _on_mixed(self, event: events.MixedBatchArrived) -> list[Action]:
        half = self._owned.half
        if self._is_over or not all(source in half.sources for source in event.sources) or self._is_passed_over:
            return []
        missing = half.take_in_mixed(event.sources, event.which, event.offsets, event.batch)
        for source in event.sources if self._ends else ():
            self._end_if_read(source)
        return [*(act.ReadFrom(source, offset) for source, offset in missing.items()), *self._taken_in()]

    def _on_passed(self, event: events.EventsPassed) -> list[Action]:
        half = self._owned.half
        if self._is_over or event.source not in half.sources or self._is_passed_over:
            return []
        if event.offset > half.sources.next_offset(event.source):
            return [act.ReadFrom(event.source, half.sources.next_offset(event.source))]
        half.pass_over(event.source, event.offset + event.count, event.low, event.high)
        self._end_if_read(event.source)
        return self._taken_in()

    @property
    def _is_passed_over(self) -> bool:
        """Whether events that come now are dropped, to be read again when there is room."""
        return self._is_paused and self._owned.must_wait

    def _taken_in(self) -> list[Action]:
        """Events came: send at once if there is much, or after a while."""
        return [*(self._send() if self._owned.has_much else []), *self._soon(), *self._balance()]

    def _on_ended(self, event: events.SourceEnded) -> list[Action]:
        # Where a flush has ended it, it stays ended, whatever the source had still to say.
        flushed = self._ends.get(event.source, FOREVER) if self._is_over else FOREVER
        self._ends[event.source] = min(event.offset, flushed)
        self._end_if_read(event.source)
        return self._soon()

    def _end_if_read(self, source: str) -> None:
        half = None if self._sender is None else self._sender.half
        if half is not None and source in half.sources and half.sources.is_past_reread(source):
            if self._is_over:
                self._ends.setdefault(source, half.sources.next_offset(source))
            if half.sources.next_offset(source) >= self._ends.get(source, FOREVER):
                half.end(source, FOREVER)

    def _on_flush(self, _: messages.Flush) -> list[Action]:
        if self._is_over:
            return []
        self._is_over = True
        half = None if self._sender is None else self._sender.half
        for source in self._homes:
            if half is not None and source in half.sources:
                resume = half.sources.resume_offset(source)
                self._ends[source] = min(self._ends.get(source, resume), resume)
                self._end_if_read(source)
        return [Noted("flushed", {}), *self._soon()]

    def _on_leaving(self, _: events.Leaving) -> list[Action]:
        """This leaf ends though its sources do not: what has no order yet is sent as it is, and another may have the chain."""
        sent = [*self._gather(is_last=True), *self._send()]
        # One that lives for a batch is followed by one of the same name.
        return sent if self.settings.is_brief else [*sent, *self._owned.sends([encode(Leave(self.chain, self._epoch))])]

    # --- sending ---

    def _on_timer(self, timer: events.TimerFired) -> list[Action]:
        self._timers.discard(timer.name)
        match timer.name:
            case "hello":
                return self._ask_for_all()
            case "send" | "calm" if self._sender is not None:
                return self._send()
            case "resend" if self._sender is not None:
                return self._sender.resend_overdue()
        return []

    def _soon(self) -> list[Action]:
        """Send after a while what has come together by then."""
        sender = self._sender
        if "send" in self._timers or sender is None or not sender.half.has_news:
            return []
        if self._is_paused or sender.half.is_awaited:
            return self._set_timer("send", self.settings.linger_ns)
        sender.half.cut_early()
        return self._set_timer("calm", self.settings.calm_ns)

    def _set_timer(self, name: str, delay_ns: int) -> list[Action]:
        if name in self._timers:
            return []
        self._timers.add(name)
        return [act.SetTimer(name, delay_ns)]

    def _gather(self, is_last: bool = False) -> list[Action]:
        notes = self._owned.gather(is_last)
        if not self._owned.half.has_lost:
            return notes
        # The root asks about events that are not in memory any more: begin anew, and read them again.
        self._owned.half.has_lost = False
        return [*notes, Noted("looked too far back", {}), self._hello(0)]

    def _send(self) -> list[Action]:
        sender = self._owned
        notes = [] if sender.must_wait else self._gather()
        sent = sender.send()
        rates = self._counting.take_rates(sender.half) if sent else []
        return [*notes, *sent, *sender.sends(map(encode, rates)), *self._balance()]

    def _balance(self) -> list[Action]:
        """Stop reading while too much is held, and go on when there is room."""
        is_full = self._owned.is_full
        if is_full == self._is_paused:
            return []
        self._is_paused = is_full
        if is_full:
            return [Noted("paused", {}), act.PauseReading(), *self._soon()]
        return [Noted("resumed", {}), *self._owned.reads(), act.ResumeReading()]

    # --- what the root says ---

    def _on_positions(self, positions: messages.Positions) -> list[Action]:
        sender, epoch = self._owned, self._epoch
        actions: list[Action] = []
        for chain, outbox in sender.outboxes().items():
            position = positions.chains.get(chain)
            if position is None:
                continue
            if position.epoch == epoch and not positions.resend:
                outbox.accepted(position.at)
            elif position.epoch == epoch:
                actions.extend(sender.resend(chain, position))
            elif positions.resend and position.epoch == 0 and chain == self.chain:
                actions.append(self._hello(0))
            elif positions.resend and position.epoch > epoch:
                # A later assignment has not arrived: the root will send it again to the owner of now.
                actions.append(self._hello(epoch))
        # There may be room again for what could not be sent.
        soon = [] if sender.must_wait else self._soon()
        return [*actions, *soon, *self._balance(), *self._finish()]

    def _finish(self) -> list[Action]:
        if self.state is LeafState.DONE or not self._owned.is_done:
            return []
        self.state = LeafState.DONE
        return [act.Finished()]

    def _on_cuts(self, cuts: messages.Cuts) -> list[Action]:
        sender = self._owned
        done = sender.cut_outbox.end
        if cuts.number <= done:
            # Asked again: the answer may have been lost.
            return sender.sends(sender.cut_outbox.frames_from(cuts.number - 1))
        if cuts.number > done + 1:
            # Cuts were done that this leaf had nothing for and did not hear of: begin anew behind them.
            return [self._hello(0)]
        if not sender.half.sources.are_past_reread():
            return []  # the root asks again; until then what was accepted is read again
        return [*sender.cut(cuts), *self._balance()]

    def _on_plan(self, plan: messages.CountPlan) -> list[Action]:
        if not self._counting.hear_plan(plan) or self._sender is None:
            return []
        self._counting.follow(self._sender.half)
        return [*self._soon(), *self._balance()]

    def _on_rates(self, rates: messages.Rates) -> list[Action]:
        self._counting.hear_rates(rates)
        if self._sender is not None:
            self._counting.follow(self._sender.half)
        return []

    def _on_look(self, look: messages.LookInto) -> list[Action]:
        half = self._owned.half
        if look.chain != self.chain or not half.look(looks_from_bytes(look.looks)):
            return []
        return [Noted("looked into", {}), *(self._send() if half.has_news else [])]

    # --- what is asked of it ---

    def watermark(self, source: str) -> int:
        """The watermark of a source, as far as it was read."""
        return NEVER if self._sender is None else self._sender.half.sources[source].watermark

    def count_report(self) -> dict[str, float]:
        """What count windows have cost here."""
        return {} if self._sender is None else self._sender.half.count_report()

    def check(self) -> None:
        """Assert what holds after each event."""
        state, sender = self.state, self._sender
        assert (sender is None) == (state is LeafState.WAITING), f"{self.name} is {state.value} with {sender}"
        if sender is None:
            assert not self._is_paused, f"{self.name} reads nothing, and was told to pause"
            return
        assert self._settled() is state, f"{self.name} is {state.value}, and should be {self._settled().value}"
        assert state is not LeafState.RUNNING or sender.half.sources.are_past_reread(), f"{self.name} still reads again"
        sender.check()

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """What the leaf knows. Events are not in it: they are read again."""
        flags = [self._is_over, self.state is LeafState.STOPPED, self._is_paused, self.state is LeafState.DONE]
        state: dict[str, Any] = {
            "names": [self.name, self.parent, self.chain],
            "settings": self.settings.state(),
            "roots": self.roots,
            "homes": [list(home) for home in self._homes.items()],
            "ends": [list(end) for end in self._ends.items()],
            "flags": flags,
            "schema": self._schema,
            "queries": [self._version, self._queries],
            "assigned": None,
        }
        sender, plan = self._sender, self._counting.plan
        if sender is not None:
            sender.gather()
            told, latest = sender.half.sources.told()
            state |= {
                "assigned": encode(sender.assigned),
                "outbox": [sender.outbox.at, sender.outbox.frames, sender.sent],
                "cuts": [sender.cut_outbox.at, sender.cut_outbox.frames, sender.half.cut_time],
                "told": [[name, *place] for name, place in told.items()],
                "covered": [list(pair) for pair in sender.half.covered().items()],
                "plan": None if plan is None else encode(plan),
                "latest": latest,
            }
        return to_bytes(state)

    @classmethod
    def restore(cls, data: bytes, modules: Collection[str] | None = ()) -> LeafNode:
        """A leaf that goes on where ``snapshot`` was taken; the next event is `Started`."""
        state = from_bytes(data)
        name, parent, chain = state["names"]
        settings, roots = NodeSettings.restored(state["settings"]), state.get("roots", 1)
        leaf = cls(name, parent, chain=chain, settings=settings, roots=roots, modules=modules)
        leaf._homes, leaf._ends = dict(map(tuple, state["homes"])), dict(map(tuple, state["ends"]))
        leaf._is_over, is_stopped, leaf._is_paused, is_done = state["flags"]
        leaf._schema = state["schema"]
        leaf._version, leaf._queries = state["queries"]
        if state["assigned"] is not None:
            leaf._take_up(state)
            leaf.state = LeafState.STOPPED if is_stopped else LeafState.DONE if is_done else leaf._settled()
        return leaf

    def _take_up(self, state: Mapping[str, Any]) -> None:
        """Own the chain as the snapshot says."""
        assigned, plan = decode(state["assigned"]), state.get("plan")
        assert isinstance(assigned, Assign) and self._queries is not None
        told = {name: (offset, watermark) for name, offset, watermark in state["told"]}
        cut_at, cut_frames, cut_time = state["cuts"]
        sender = self._sender = self._made(assigned, read_query_set(self._queries), told, state["latest"], cut_time)
        at, frames, sender.sent = state["outbox"]
        sender.outbox, sender.cut_outbox = Outbox(at, frames), Outbox(cut_at, cut_frames)
        if plan is not None:
            heard = decode(plan)
            assert isinstance(heard, messages.CountPlan)
            self._counting.plan = heard
        self._counting.begin(sender.half, dict(map(tuple, state.get("covered", ()))), b"")


#: What is done about each kind of event and message that `TRANSITIONS` has.
HANDLERS: dict[type, Callable[[LeafNode, Any], list[Action]]] = {
    events.Started: LeafNode._on_started,
    events.SourceOpened: LeafNode._on_opened,
    events.BatchArrived: LeafNode._on_batch,
    events.MixedBatchArrived: LeafNode._on_mixed,
    events.EventsPassed: LeafNode._on_passed,
    events.SourceEnded: LeafNode._on_ended,
    events.TimerFired: LeafNode._on_timer,
    events.Leaving: LeafNode._on_leaving,
    Assign: LeafNode._on_assigned,
    messages.Positions: LeafNode._on_positions,
    messages.Cuts: LeafNode._on_cuts,
    messages.CountPlan: LeafNode._on_plan,
    messages.LookInto: LeafNode._on_look,
    messages.Rates: LeafNode._on_rates,
    messages.Flush: LeafNode._on_flush,
    messages.Refuse: LeafNode._on_refused,
}
