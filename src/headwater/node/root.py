"""The root: accepts deltas, decides about sources, says where to cut, closes windows, gives rows, and recovers from its records.

Its parts: `Membership` knows the sources, `Ledger` what was accepted, `Assignments` who owns which chain and what is told to
whom, `CutRounds` the cuts of windows that markers cut, `CountRounds` the plans and looks of count windows, and `RootHalf` the
windows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrow import schema_from_bytes
from headwater.base.packing import one_peers_room
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.part_bytes import part_from_bytes
from headwater.engine.wire.parts import EventsPart, LatePart, Part
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError, QueryError
from headwater.language.files.queries import to_json
from headwater.language.query import Query
from headwater.language.schemas import check_schemas
from headwater.language.times import FOREVER
from headwater.node.assignments import Assignments
from headwater.node.count_rounds import CountRounds
from headwater.node.cut_rounds import CutRounds
from headwater.node.records import event_of, record_of
from headwater.node.routes import CHAINS_PER_LINK_MAX, Routes
from headwater.node.settings import NodeSettings
from headwater.protocols import actions as act
from headwater.protocols import events, messages
from headwater.protocols.actions import Action, Noted
from headwater.protocols.advances import Advances, Moves
from headwater.protocols.count_windows import Counting, CountPlans
from headwater.protocols.delta import CUT_SUFFIX, Delta
from headwater.protocols.events import Event
from headwater.protocols.frames import FrameError
from headwater.protocols.ledger import OLD_EPOCH, UNKNOWN, Ledger, Position
from headwater.protocols.membership import SOURCES_PER_LINK_MAX, Membership
from headwater.protocols.messages import decode, encode

THE_END = "the stream has ended; what comes now is in no window"
#: Why a stretch is refused that comes over a link on which its chain was not let in.
ANOTHER_LINK = "another link"
#: Observers are told how far each source came, unless more than this many moved at once.
SOURCES_NOTED_MAX = 1000


class RootNode:
    """Accepts what its children send and answers the queries.

    Everything it knows is a function of the events that were recorded: a root that is lost is made again from its last
    checkpoint and the records behind it, and repeats the same steps. An acceptance is recorded before it is told.
    """

    def __init__(
        self,
        name: str,
        queries: Iterable[Query] = (),
        *,
        time: str = "time",
        unit: str = "us",
        disorder: object = None,
        strict: bool = False,
        schema: pa.Schema | None = None,
        settings: NodeSettings | None = None,
        round_trips: bool = True,
        counting: Counting | None = None,
    ) -> None:
        self.name = name
        self.settings = NodeSettings() if settings is None else settings
        limits = self.settings.counts
        plans = CountPlans(counting, limits) if round_trips and counting and counting.is_distributed else None
        engine: dict[str, Any] = {"time": time, "unit": unit, "disorder": disorder, "strict": strict}
        large_only = plans is not None and plans.counting.leaves_small_ones
        half = RootHalf(queries, Role(False, round_trips, plans is not None, large_only, limits), **engine)
        self._hold(half, Membership(limits), Ledger(), Routes(self.settings.takeover_ns), plans)
        self._cut_timer = False
        self._flushing = False
        self._finished = False
        self._step = 0
        self._records = 0
        self._since_checkpoint = 0
        self._changed = False  # whether the event that is handled has to be recorded
        if schema is not None:
            self.assignments.give(schema)
        _ = self.assignments.query_text  # queries that cannot travel are refused here

    def _hold(
        self, half: RootHalf, members: Membership, ledger: Ledger, routes: Routes, plans: CountPlans | None = None
    ) -> None:
        """Set the parts of the root, each with those that it depends on."""
        half.names, half.homes = members.names, members.homes
        self._half, self.members, self._ledger, self._routes = half, members, ledger, routes
        self.cuts = CutRounds(half, members, ledger)
        self.counts = CountRounds(plans, half, members, routes, self.cuts)
        self.assignments = Assignments(half, members, ledger, routes, self.cuts, self.counts)
        members.decisions.clear()  # those of a snapshot were noted

    # --- what hosts ask; more of it is asked of the parts ---

    @property
    def watermark(self) -> int:
        return self.members.watermark()

    @property
    def count_plan(self) -> messages.CountPlan | None:
        """The plan of count windows for leaves that are not asked before the next batch; None if there is none."""
        return None if self.counts.plans is None else self.counts.plan(has_guesses=True)

    @property
    def open_count(self) -> int:
        """Slices and windows, by key, that are held because some window is open."""
        return self._half.open_count

    @property
    def idle_sources(self) -> list[str]:
        """The sources that are not waited for, by name."""
        return [self.members.names[number] for number in self.members.idle_numbers()]

    @property
    def reads_again(self) -> bool:
        """Whether events that were accepted may have to be read once more."""
        return self._half.reads_again

    def adopt(self, link: str) -> bool:
        """All chains come over this link, as their host calls it now; whether any came over another."""
        others = [chain for chain in self.members.chains if self._routes.of(chain) not in (None, link)]
        for chain in others:
            self._routes.admit(chain, link, 0)
        return bool(others)

    def begin_epochs(self, chains: Iterable[str]) -> None:
        """The sources of these chains have changed: whatever was sent of them before is void."""
        for chain in chains:
            self._ledger.new_epoch(chain)

    @property
    def is_behind(self) -> bool:
        """Whether more windows without events are due than came out at once: the timer "empty" brings the next of them."""
        return self._half.is_behind

    @property
    def holding_up(self) -> list[str]:
        """The sources that have come least far, by name: the watermark waits for them."""
        return [] if self._finished else self.members.holding_up()

    @property
    def is_finished(self) -> bool:
        """Whether the stream has ended: nothing will come out any more."""
        return self._finished

    @property
    def silent_at_ns(self) -> int | None:
        """When the next source will have been silent for too long, if nothing comes."""
        return None if self.settings.idle_ns is None else self.members.silent_at(self.settings.idle_ns, self._flushing)

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._half.counters()

    def count_report(self) -> dict[str, float]:
        """What count windows have cost so far."""
        return self.counts.report()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read at all, the time first."""
        return self._half.columns

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of result rows, once the columns of events are known."""
        return self._half.result_schema

    # --- the one door ---

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """Take one event and return the actions that the host has to do, in this order."""
        self._changed = False
        actions = self._react(event, now_ns)
        if not self._changed or not self.settings.is_recorded:
            return actions
        self._records += 1
        self._since_checkpoint += 1
        recorded: list[Action] = [act.Record(record_of(event, now_ns)), *actions]
        if self._since_checkpoint >= self.settings.checkpoint_every:
            self._since_checkpoint = 0
            recorded.append(act.Checkpoint(self.snapshot()))
        return recorded

    def _react(self, event: Event, now_ns: int) -> list[Action]:
        match event:
            case events.Started():
                self._routes.listen(now_ns)
                return self._on_started()
            case events.MessageReceived():
                return self._on_frame(event, now_ns)
            case events.TimerFired("idle"):
                return self._on_idle_timer(now_ns)
            case events.TimerFired("cut"):
                return self._on_cut_timer()
            case events.TimerFired("empty") if self.is_behind:
                self._changed = True
                return self._advance(is_turn=True)
            case events.TimerFired("tend"):
                return self._on_tend_timer()
            case events.QueryAdded():
                return self._on_query_added(event)
            case events.QueryRemoved():
                return self._on_query_removed(event)
            case events.FlushAsked():
                return self._on_flush_asked()
            case events.IdleAsked(source):
                return self._on_idle_asked(source)
            case events.ReturnAsked(source):
                return self._on_return_asked(source, now_ns)
        return []

    def _on_started(self) -> list[Action]:
        actions: list[Action] = [act.Checkpoint(self.snapshot()), act.SetTimer("tend", self.settings.resend_ns)]
        if self.settings.idle_ns is not None:
            actions.append(act.SetTimer("idle", self.settings.idle_ns // 4))
        self._cut_timer = False
        return [*actions, *self._cut_soon(), *self._rest_soon()]

    def _on_frame(self, event: events.MessageReceived, now_ns: int) -> list[Action]:
        try:
            message = decode(event.frame, self.settings.frame_bytes_max)
        except FrameError as error:
            return [Noted("damaged frame", {"why": str(error)})]
        if isinstance(message, messages.Hello):
            return self._on_hello(event.sender, message, now_ns)
        if isinstance(message, Delta):
            return self._on_delta(event.sender, message, now_ns)
        if isinstance(message, messages.Positions):
            return self._on_quiet_leaf(event.sender, message, now_ns)
        if isinstance(message, messages.Rates) and self._routes.of(message.chain) == event.sender:
            return self._routes.to_all(bytes(event.frame), but=event.sender)
        if isinstance(message, messages.Leave) and self._owns(event.sender, message.chain, message.epoch):
            self._routes.leave(message.chain)
        return []

    def _on_tend_timer(self) -> list[Action]:
        """Send again what may have been lost."""
        actions: list[Action] = [act.SetTimer("tend", self.settings.resend_ns), *self._cut_soon()]
        for chain in self.cuts.unanswered():
            actions.extend(self.assignments.tell(chain))  # it may not have heard of its epoch
        if self.cuts.announced is not None:
            actions.extend(self._routes.to_all(encode(self.cuts.announced)))
        if not self._finished:
            actions.extend(self.counts.tell_again())
        if self._flushing and not self._finished:
            actions.extend(self._routes.to_all(encode(messages.Flush())))
        return actions

    def _noted(self, title: str, **detail: Any) -> Noted:
        """A note on something durable, with the number of its record: after a recovery it may be told again."""
        return Noted(title, {**detail, "record": self._records})

    # --- leaves ---

    def _on_hello(self, sender: str, hello: messages.Hello, now_ns: int) -> list[Action]:
        """A leaf asks for its chain: it is refused, told where the chain stands, or becomes its owner under a new epoch."""
        chain, members = hello.chain, self.members
        if not self._is_free_for(sender, hello, now_ns):
            # It asks again, and whoever had the chain before is told that it has lost it.
            note = Noted("not granted", {"chain": chain, "node": hello.node})
            is_another = bool(hello.epoch) and hello.node != members.chains[chain].node
            return [note, *(self.assignments.remind(chain, sender) if is_another else [])]
        problem = self._crowding(sender, hello) or members.problems(chain, hello.sources) or self._misfit(hello.schema)
        if problem is not None:
            note = Noted("refused", {"chain": chain, "why": problem})
            return [note, act.SendMessage(sender, encode(messages.Refuse(chain, problem)))]
        self._changed |= self._routes.of(chain) != sender
        self._routes.admit(chain, sender, now_ns)
        self.assignments.has_queries(chain, hello.version)
        again: list[Action] = []
        if self.assignments.has_grown:
            # What leaves have cut so far is of the narrower types.
            self.assignments.has_grown = False
            again = self.assignments.change_queries()
        if self.assignments.is_settled(hello):
            return [*again, *self.assignments.tell(chain)]
        self._changed = True
        is_new = chain not in members.chains
        members.join(chain, hello.node, hello.sources, now_ns)
        if is_new:
            self._ledger.open(chain, self.cuts.last_number)
            if self._half.reads_again:
                members.mark(chain)
        self._ledger.new_epoch(chain)
        tell = self.assignments.tell_waiting if hello.schema else self.assignments.tell
        return [*again, *self._decided(), *tell(chain)]

    def _is_free_for(self, sender: str, hello: messages.Hello, now_ns: int) -> bool:
        """Whether a node may have a chain: its owner over the same link, or anyone once the owner is silent or has left."""
        known = self.members.chains.get(hello.chain)
        is_owner = known is not None and known.node == hello.node and self._routes.of(hello.chain) == sender
        return known is None or is_owner or self._routes.is_silent(hello.chain, now_ns)

    def _crowding(self, sender: str, hello: messages.Hello) -> str | None:
        """Why no more can come over a link."""
        others = self._routes.children.get(sender, {}).keys() - {hello.chain}
        count = self.members.source_count(others) + len(hello.sources)
        if len(others) < CHAINS_PER_LINK_MAX and count <= SOURCES_PER_LINK_MAX:
            return None
        return f"{len(others) + 1} chains with {count} sources are too many for one link"

    def _owns(self, link: str, chain: str, epoch: int) -> bool:
        """Whether the owner of a chain under this epoch is heard on this link."""
        return self._routes.of(chain) == link and self._ledger.positions.get(chain, UNKNOWN).epoch == epoch

    def _misfit(self, schema: bytes) -> str | None:
        """Why the queries do not fit a leaf's columns."""
        if not schema:
            return None
        try:
            self._changed |= self.assignments.learn(schema_from_bytes(schema))
        except (QueryError, pa.ArrowException, OSError, ValueError) as error:
            return str(error)
        return None

    def _on_quiet_leaf(self, sender: str, positions: messages.Positions, now_ns: int) -> list[Action]:
        """A leaf that has nothing to send says where it stands: one that missed its assignment is told again."""
        actions: list[Action] = []
        unknown: dict[str, Position] = {}
        for chain, position in positions.chains.items():
            if chain not in self._ledger.positions:
                unknown[chain] = UNKNOWN  # whoever has it asks for it, and relays forget it
            elif self._owns(sender, chain, position.epoch):
                self._routes.admit(chain, sender, now_ns)
            elif self._ledger.positions[chain].epoch == position.epoch and self._routes.may_bring(
                [chain], sender, now_ns
            ):
                # Its owner has another parent now, and nothing to send that would say so; it may be asked for cuts there.
                self._changed = True
                self._routes.admit(chain, sender, now_ns)
            elif chain in self.members.chains and self._ledger.positions[chain].epoch > position.epoch:
                actions.extend(self.assignments.remind(chain, sender))
        answer = act.SendMessage(sender, encode(messages.Positions(True, unknown)))
        return [*actions, answer] if unknown else actions

    # --- deltas ---

    def _on_delta(self, sender: str, delta: Delta, now_ns: int) -> list[Action]:
        if self._finished:
            return self._reject_after_the_end(sender, delta)
        # Here a zombie's delta is refused, as is any other that does not go on where its chains stand.
        reasons = self._ledger.objections(delta.ranges)
        if reasons:
            return self._reject(sender, delta, reasons, now_ns)
        chains = tuple(delta.ranges)
        strangers = self._routes.strangers(chains, sender)
        if not all(self._routes.is_silent(chain, now_ns) for chain in strangers):
            return self._reject(sender, delta, dict.fromkeys(strangers, ANOTHER_LINK), now_ns)
        problem = self.members.problem(delta.advances)
        if problem is not None:
            return self._reject_damaged(sender, delta, problem)
        if not self.members.are_all_active:
            back = {chain: self.members.returning(chain, advance) for chain, advance in delta.advances.items()}
            if any(back.values()):
                return self._take_back(sender, delta, back, now_ns)
        try:
            parts = self._parts(delta)
        except FormatError as error:
            return self._reject_damaged(sender, delta, str(error))
        for chain in strangers:
            self._routes.admit(chain, sender, now_ns)  # its leaf has another parent now
        self._routes.hear(chains, sender, now_ns)
        return self._accept(sender, delta, parts, now_ns)

    def _parts(self, delta: Delta) -> list[Part]:
        """The parts of a delta, of which nothing is wrong: once they are absorbed it is too late."""
        operators, half = self._half.operators(), self._half
        with one_peers_room():
            parts = [part_from_bytes(data, operators) for data in delta.parts]
        try:
            chains = {chain.removesuffix(CUT_SUFFIX) for chain in delta.ranges}
            problem = half.problem(parts, self.members.crowd, chains) or self._outdated(parts)
        except Exception as error:  # it was made elsewhere: whatever is wrong with it must not go further than here
            raise FormatError(f"a part makes no sense: {error}") from error
        if problem is not None:
            raise FormatError(problem)
        return parts

    def _outdated(self, parts: list[Part]) -> str | None:
        """Why events cannot have come when they are said to have: an event of long ago would count as if it were in time."""
        for part in parts:
            if isinstance(part, EventsPart | LatePart):
                numbers = self.members.crowd((part.chain,)).numbers[part.sources]
                if (part.watermarks < self.members.watermarks[numbers]).any():
                    return "events are said to have come before others of their source that were accepted"
        return None

    def _accept(self, sender: str, delta: Delta, parts: list[Any], now_ns: int) -> list[Action]:
        self._changed = True
        members = self.members
        self._ledger.accept(delta)
        members.advance(delta.advances, now_ns)
        if self._half.reads_again:
            members.mark_sometimes(tuple(delta.advances))
        self.counts.count_flows(len(delta.ranges))
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
        members, moved = self.members, Advances.of(delta.advances)
        if len(moved.sources) > SOURCES_NOTED_MAX:
            return {}
        numbers = members.moved(moved)
        ends = members.offsets[numbers]
        return Moves(members.names, numbers, np.stack((ends - moved.counts, ends, members.watermarks[numbers]), 1))

    def _accepted(self, sender: str, delta: Delta) -> act.SendMessage:
        """Tell the sender what is accepted of a delta's chains, perhaps once more."""
        known = {chain: position for chain, position in self._stands(sender, delta).items() if position.epoch}
        return act.SendMessage(sender, encode(messages.Positions(False, known)))

    def _say_again(self, sender: str, delta: Delta) -> act.SendMessage:
        """Tell the sender of a rejected delta from where to send its chains again."""
        return act.SendMessage(sender, encode(messages.Positions(True, self._stands(sender, delta))))

    def _stands(self, sender: str, delta: Delta) -> dict[str, Position]:
        """Where chains stand; on a link over which one does not come nobody owns it, and who sends it has to ask for it."""
        known = self._ledger.of(delta.ranges)
        return {**known, **dict.fromkeys(self._routes.strangers(tuple(delta.ranges), sender), UNKNOWN)}

    def _reject(self, sender: str, delta: Delta, reasons: dict[str, str], now_ns: int) -> list[Action]:
        """Say where the chains stand; an owner that has not heard of its new epoch is told once more."""
        actions: list[Action] = [Noted("rejected", {"chains": reasons})]
        for chain, stretch in delta.ranges.items():
            if self._owns(sender, chain, stretch.epoch):
                self._routes.admit(chain, sender, now_ns)
        outdated = {chain.removesuffix(CUT_SUFFIX) for chain, reason in reasons.items() if reason == OLD_EPOCH}
        for chain in sorted(outdated & set(self.members.chains)):
            actions.extend(self.assignments.remind(chain, sender))
        return [*actions, self._accepted(sender, delta), self._say_again(sender, delta)]

    def _reject_damaged(self, sender: str, delta: Delta, why: str) -> list[Action]:
        """A delta that cannot be right: nothing of it counts, and its chains are sliced once more."""
        self._changed = True
        chains = sorted({chain.removesuffix(CUT_SUFFIX) for chain in delta.ranges} & set(self.members.chains))
        actions: list[Action] = [Noted("damaged delta", {"chains": sorted(delta.ranges), "why": why})]
        for chain in chains:
            actions.extend(self.assignments.begin_anew(chain))
        return [*actions, self._say_again(sender, delta)]

    def _reject_after_the_end(self, sender: str, delta: Delta) -> list[Action]:
        """Repeat an acceptance that was not heard; refuse anything else as too late, so that it is not sent again."""
        known = self._ledger.of(delta.ranges)
        news = {
            chain.removesuffix(CUT_SUFFIX) for chain, stretch in delta.ranges.items() if stretch.end > known[chain].at
        }
        refusals = [act.SendMessage(sender, encode(messages.Refuse(chain, THE_END))) for chain in sorted(news)]
        note = Noted("rejected", {"chains": dict.fromkeys(sorted(delta.ranges), "finished")})
        return [note, self._accepted(sender, delta), *refusals]

    def _take_back(self, sender: str, delta: Delta, back: dict[str, list[int]], now_ns: int) -> list[Action]:
        """Idle sources speak again: they return at the watermark of now, and what they sent is sliced anew with it."""
        self._changed = True
        # Else the next of them would fall idle before this one is back, and so on for ever.
        self.members.hear(delta.advances, now_ns)
        chains = [chain for chain, numbers in back.items() if numbers]
        for chain in chains:
            self.members.decide_return(back[chain], now_ns)
            self._ledger.new_epoch(chain)
        actions = self._decided()
        for chain in chains:
            actions.extend(self.assignments.tell(chain))
        note = Noted("rejected", {"chains": dict.fromkeys(chains, "idle")})
        return [*actions, note, *self._advance(), self._say_again(sender, delta)]

    # --- decisions about sources ---

    def _on_idle_timer(self, now_ns: int) -> list[Action]:
        assert self.settings.idle_ns is not None
        timer = act.SetTimer("idle", self.settings.idle_ns // 4)
        self._changed = self.members.turn_back(now_ns)
        if not self.members.decide_idle(now_ns, self.settings.idle_ns, self._flushing):
            return [timer]
        self._changed = True
        return [*self._decided(), *self._advance(), timer]

    def _on_idle_asked(self, source: str) -> list[Action]:
        number = self._number_of(source)
        if not self.members.active[number]:
            return []
        self._changed = True
        self.members.set_idle([number])
        return [*self._decided(), *self._advance()]

    def _on_return_asked(self, source: str, now_ns: int) -> list[Action]:
        number = self._number_of(source)
        if self.members.active[number]:
            return []
        self._changed = True
        self.members.decide_return([number], now_ns)
        told = self.assignments.begin_anew(self.members.chain_of(number))
        return [*self._decided(), *told, *self._advance()]

    def _number_of(self, source: str) -> int:
        if source not in self.members.numbers:
            raise QueryError(f"there is no source {source!r}; there are {len(self.members.names)} others")
        return self.members.numbers[source]

    def _decided(self) -> list[Action]:
        """Notes of the decisions since the last time; they are in effect, so that nobody needs them any more."""
        fresh = self.members.decisions.copy()
        self.members.decisions.clear()
        return [self._noted("decided", what=d.what, source=d.source, offset=d.offset, time=d.time) for d in fresh]

    # --- what comes out ---

    def _advance(self, is_turn: bool = False) -> list[Action]:
        """The watermark may have risen: close what it has passed; ``is_turn``: of windows without events the next few, too."""
        members = self.members
        notes: list[Action] = []
        if self._flushing and not members.active.any() and members.watermark() < FOREVER:
            members.finish()
            notes.append(self._noted("flushed"))
        if members.watermark() == FOREVER:
            # Windows without events come out as far as the watermark came before the end, and several decisions may
            # have been taken since it was looked at.
            self._half.raise_to(members.finite, members.latest)
            self._half.close(is_turn)
            if self._half.is_behind:
                return [*notes, *self._put_out()]
        self._half.raise_to(members.watermark(), members.latest)
        self._half.close(is_turn)
        return [*notes, *self._put_out()]

    def _put_out(self) -> list[Action]:
        """Actions for cuts that are done, rows that have closed, cuts that are due, count windows, and the end."""
        rows = [*self._cut_done(), *self._emit(), *self._rest_soon()]
        return [*rows, *self._cut_soon(), *self.counts.advance(), *self._finish()]

    def _cut_done(self) -> list[Action]:
        done = self.cuts.finish()
        return [] if done is None else [self._noted("cut done", number=done.number, until=done.until)]

    def _emit(self) -> list[Action]:
        rows, side = self._half.take_rows(), self._half.side_output()
        if rows is None and not len(side):
            return []
        self._step += 1
        actions: list[Action] = [] if rows is None else [act.EmitRows(self._step, rows)]
        return [*actions, *([act.EmitAside(self._step, side)] if len(side) else [])]

    def _rest_soon(self) -> list[Action]:
        """Bring the rest of a flood of windows without events; what comes meanwhile is handled in between."""
        return [act.SetTimer("empty", 0)] if self.is_behind else []

    def _cut_soon(self) -> list[Action]:
        """Announce cuts after a while, if some are due: one round for all markers that come together."""
        if not self.cuts.is_due or self._cut_timer:
            return []
        self._cut_timer = True
        return [act.SetTimer("cut", self.settings.linger_ns)]

    def _on_cut_timer(self) -> list[Action]:
        self._cut_timer = False
        cuts = self.cuts.announce()
        if cuts is None:
            return []
        self._changed = True
        note = self._noted("cut announced", number=cuts.number, until=cuts.until)
        return [note, *self._routes.to_all(encode(cuts)), *self._put_out()]

    def _finish(self) -> list[Action]:
        done = self.members.watermark() == FOREVER and (not self._half.has_cuts or self.cuts.time == FOREVER)
        done = done and self._half.counts_are_done and not self._half.is_behind
        # Without being asked it is the end only if no source is left that may return.
        done = done and (self._flushing or bool((self.members.watermarks == FOREVER).all()))
        if not done or self._finished:
            return []
        self._finished = True
        return [self._noted("flushed"), act.Finished()]

    # --- queries ---

    def _on_query_added(self, event: events.QueryAdded) -> list[Action]:
        to_json([event.query])  # a query that cannot travel is refused here
        schema = self.assignments.schema
        if schema is not None:
            check_schemas([event.query], schema, self._half.time)
        begin = self._half.add_query(event.query, event.at)
        self._changed = True
        if schema is not None:
            self._half.check(schema)
            self._half.grow(schema)
        note = self._noted("query added", name=event.query.name, at=begin)
        return [note, *self.assignments.change_queries()]

    def _on_query_removed(self, event: events.QueryRemoved) -> list[Action]:
        self._half.remove_query(event.name, event.drain)
        self._changed = True
        if not self._half.has_cuts:
            self.cuts.forget()
        if not self._half.reads_again:
            self.members.forget_marks()
        note = self._noted("query removed", name=event.name, drain=event.drain)
        return [note, *self.assignments.change_queries()]

    def _on_flush_asked(self) -> list[Action]:
        self._changed = True
        self._flushing = True
        return [*self._routes.to_all(encode(messages.Flush())), *self._advance()]

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the root knows."""
        return to_bytes(
            {
                "name": self.name,
                "settings": self.settings.state(),
                "half": self._half.snapshot(),
                "members": self.members.state(),
                "positions": self._ledger.state(),
                "routes": self._routes.state(),
                **self.assignments.state(),
                **self.cuts.state(),
                "flags": [self._flushing, self._finished],
                "counts": [self._step, self._records],
                **self.counts.state(),
            }
        )

    @classmethod
    def restore(cls, data: bytes) -> RootNode:
        """A root that goes on where ``snapshot`` was taken."""
        state = from_bytes(data)
        root = cls(state["name"], settings=NodeSettings.restored(state["settings"]))
        members = Membership.restored(state["members"], root.settings.counts)
        ledger = Ledger.restored(state["positions"])
        routes = Routes.restored(state["routes"], root.settings.takeover_ns)
        root._hold(RootHalf.restore(state["half"], root.settings.counts), members, ledger, routes)
        for part in (root.assignments, root.cuts, root.counts):
            part.restore(state)
        root._flushing, root._finished = state["flags"]
        root._step, root._records = state["counts"]
        return root

    def check(self) -> None:
        """Assert what holds after each event."""
        chains, positions = self.members.chains, self._ledger.positions
        for chain in chains:
            assert positions[chain].epoch > 0, f"{chain!r} is owned under no epoch"
            assert positions[chain + CUT_SUFFIX].epoch == positions[chain].epoch, f"{chain!r} has cuts of another epoch"
        self.cuts.check()

    @classmethod
    def recover(cls, checkpoint: bytes, records: Sequence[bytes]) -> tuple[RootNode, list[Action]]:
        """A root as it was when the last record was written, and what it had given since the checkpoint.

        Rows and notes may have left before; they are the same. Answers that were not sent are asked for again.
        """
        root = cls.restore(checkpoint)
        repeated: list[Action] = []
        for record in records:
            actions = root.handle(*event_of(record))
            repeated.extend(a for a in actions if isinstance(a, act.EmitRows | act.EmitAside | Noted | act.Finished))
        root._since_checkpoint = 0
        return root, repeated
