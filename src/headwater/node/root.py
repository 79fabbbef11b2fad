"""The root: accepts deltas, decides about sources, says where to cut, closes windows and gives rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa

from headwater.engine.part_bytes import part_from_bytes
from headwater.engine.query_set import query_set_text
from headwater.engine.root_half import RootHalf
from headwater.engine.state_bytes import from_bytes, to_bytes
from headwater.errors import FormatError, QueryError
from headwater.explanation import Explanation, explain
from headwater.node.leaf import CUT_SUFFIX
from headwater.node.records import event_of, record_of
from headwater.node.relay import Routes
from headwater.node.settings import NodeSettings
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
from headwater.protocols.delta import Delta
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
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.membership import Decision, Membership
from headwater.protocols.messages import Assign, Cuts, Flush, Hello, Message, Positions, Refuse, decode, encode
from headwater.query import Query
from headwater.query_io import to_json
from headwater.schemas import check_schemas
from headwater.times import FOREVER, NEVER

THE_END = "the stream has ended; what comes now is in no window"
#: Observers are told how far each source came, unless so many moved at once.
SOURCES_NOTED_MAX = 1000


@dataclass(frozen=True, slots=True)
class PendingCut:
    """A cut that was announced; ``awaited``: the chains that have events below it and have not sent them."""

    message: Cuts
    awaited: tuple[str, ...]


class RootNode:
    """Accepts what its children send and answers the queries.

    Everything it knows is a function of the events that were recorded: a root that is lost is made again from its last
    checkpoint and the records behind it, and repeats the same steps. It tells nobody of an acceptance before it is recorded.
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
    ) -> None:
        self.name = name
        self.settings = NodeSettings() if settings is None else settings
        engine: dict[str, Any] = {"time": time, "unit": unit, "disorder": disorder, "strict": strict}
        self._half = RootHalf(queries, round_trips=round_trips, **engine)
        self._time = time
        self._members = Membership()
        self._ledger = Ledger()
        self._routes = Routes()
        self._schema: pa.Schema | None = None
        self._version = 1
        self._versions: dict[str, int] = {}  # of the queries that each chain's leaf has
        self._text: str | None = None
        self._cut = 0  # the last cut that is done, and up to where it went
        self._cut_time = NEVER
        self._pending: PendingCut | None = None
        self._cut_timer = False
        self._flushing = False
        self._finished = False
        self._step = 0
        self._records = 0
        self._since_checkpoint = 0
        self._changed = False
        self._share_names()
        if schema is not None:
            self._learn(schema)
        self._query_text()

    def _share_names(self) -> None:
        self._half.names, self._half.homes = self._members.names, self._members.homes

    # --- what observers ask ---

    @property
    def watermark(self) -> int:
        return self._members.watermark()

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Which sources joined, fell idle and returned, with the offset and the watermark of that moment."""
        return tuple(self._members.decisions)

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._half.counters()

    def explain(self) -> Explanation:
        """For each query: distributed or central, what travels for it, and why."""
        return explain(self._half.queries, self._half.has_round_trips)

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
        """What happens, and what is to be done about it."""
        self._changed = False
        actions = self._react(event, now_ns)
        if not self._changed:
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
        return []

    # --- who is there ---

    def _on_hello(self, sender: str, hello: Hello, now_ns: int) -> list[Action]:
        chain = hello.chain
        self._routes.heard(chain, sender)
        problem = self._members.problems(chain, hello.sources) or self._misfit(hello.schema)
        if problem is not None:
            return [
                Noted("refused", {"chain": chain, "why": problem}),
                SendMessage(sender, encode(Refuse(chain, problem))),
            ]
        self._versions[chain] = hello.version
        known = self._members.chains.get(chain)
        current = self._ledger.positions.get(chain)
        names = set() if known is None else {self._members.names[number] for number in known.sources.tolist()}
        fresh = [name for name, _ in hello.sources if name not in names]
        if known is not None and hello.node in known.former:
            return self._assign(chain)  # to its owner of now; whoever lost it hears so
        is_owner = (
            current is not None and known is not None and (known.node, current.epoch) == (hello.node, hello.epoch)
        )
        if is_owner and not fresh:
            return self._assign(chain)
        self._changed = True
        decided = len(self._members.decisions)
        self._members.join(chain, hello.node, hello.sources, now_ns)
        if known is None:
            self._ledger.positions[chain] = Position(0, 0)
            self._ledger.positions[chain + CUT_SUFFIX] = Position(0, self._last_announced())
            if self._half.has_cuts:
                self._members.mark(chain)
        self._new_epoch(chain)
        return [*self._note_decisions(decided), *self._assign_known(chain, hello.schema)]

    def _on_quiet_leaf(self, sender: str, positions: Positions) -> list[Action]:
        """A leaf that has nothing to send says where it stands: one that missed its assignment is told again."""
        actions: list[Action] = []
        for chain, position in positions.chains.items():
            self._routes.heard(chain, sender)
            current = self._ledger.positions.get(chain)
            if chain in self._members.chains and current is not None and current.epoch > position.epoch:
                actions.extend(self._assign(chain))
        return actions

    def _misfit(self, schema: bytes) -> str | None:
        """Why the queries do not fit a leaf's columns."""
        if not schema:
            return None
        try:
            self._learn(pa.ipc.read_schema(pa.py_buffer(schema)))
        except (QueryError, pa.ArrowException) as error:
            return str(error)
        return None

    def _learn(self, schema: pa.Schema) -> None:
        """Columns of events; the first type that is heard of a column holds."""
        if self._schema is not None:
            known = set(self._schema.names)
            new = [field for field in schema if field.name not in known]
            if not new:
                return
            schema = pa.schema([*self._schema, *new])
        self._half.check(schema)
        self._schema = schema
        self._text = None

    def _assign_known(self, chain: str, schema: bytes) -> list[Action]:
        """Assign the chain; with the first columns that are heard of also those that had to wait for them."""
        if self._schema is None:
            return []
        chains = sorted(self._members.chains) if schema else [chain]
        waiting = [other for other in chains if other == chain or self._versions.get(other) == 0]
        return [action for other in waiting for action in self._assign(other)]

    def _new_epoch(self, chain: str) -> None:
        """What was cut under older epochs is void from now on."""
        for name in (chain, chain + CUT_SUFFIX):
            position = self._ledger.positions[name]
            self._ledger.positions[name] = Position(position.epoch + 1, position.at)

    def _assign(self, chain: str) -> list[Action]:
        """Tell the owner of a chain where to go on."""
        if self._schema is None:
            return []
        known, position = self._members.chains[chain], self._ledger.positions[chain]
        cut = self._ledger.positions[chain + CUT_SUFFIX].at
        pending = self._pending
        ahead = pending is not None and cut == pending.message.number
        cut_time = pending.message.until if pending is not None and ahead else self._cut_time
        text = None if self._versions.get(chain) == self._version else self._query_text()
        self._versions[chain] = self._version
        states = tuple(self._members.states(chain))
        assign = Assign(
            chain, known.node, position.epoch, position.at, cut, cut_time, states, self._version, text, known.latest
        )
        frame = encode(assign)
        note = Noted("assigned", {"chain": chain, "epoch": position.epoch, "node": known.node})
        return [note, *(SendMessage(link, frame) for link in self._routes.of(chain))]

    def _query_text(self) -> str:
        if self._text is None:
            self._text = query_set_text(self._half.query_set())
        return self._text

    def _note_decisions(self, since: int) -> list[Action]:
        return [
            self._noted("decided", what=d.what, source=d.source, offset=d.offset, time=d.time)
            for d in self._members.decisions[since:]
        ]

    def _noted(self, title: str, **detail: Any) -> Noted:
        """A note on something durable, with the number of its record: after a recovery it may be told again."""
        return Noted(title, {**detail, "record": self._records})

    def _on_idle_timer(self, now_ns: int) -> list[Action]:
        assert self.settings.idle_ns is not None
        timer = SetTimer("idle", self.settings.idle_ns // 4)
        decided = len(self._members.decisions)
        if not self._members.decide_idle(now_ns, self.settings.idle_ns):
            return [timer]
        self._changed = True
        return [*self._note_decisions(decided), *self._advance(), timer]

    def _number_of(self, source: str) -> int:
        if source not in self._members.numbers:
            raise QueryError(f"there is no source {source!r}; there are {len(self._members.names)} others")
        return self._members.numbers[source]

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
        return [*self._note_decisions(decided), *self._assign(chain)]

    # --- deltas ---

    def _on_delta(self, sender: str, delta: Delta, now_ns: int) -> list[Action]:
        for chain in delta.ranges:
            self._routes.heard(chain, sender)
        if self._finished:
            return self._reject_after_the_end(sender, delta)
        reasons = self._ledger.objections(delta.ranges)
        if reasons:
            return self._reject(sender, delta, reasons)
        if not self._members.has_all(delta.advances):
            return [
                Noted("damaged delta", {"chains": sorted(delta.ranges), "why": "it moves sources that are not there"})
            ]
        back = {chain: self._members.returning(chain, advance) for chain, advance in delta.advances.items()}
        if any(back.values()):
            return self._take_back(sender, delta, back, now_ns)
        try:
            operators = self._half.operators()
            parts = [part_from_bytes(data, operators) for data in delta.parts]
        except FormatError as error:
            return [Noted("damaged delta", {"chains": sorted(delta.ranges), "why": str(error)})]
        return self._accept(sender, delta, parts, now_ns)

    def _accept(self, sender: str, delta: Delta, parts: list[Any], now_ns: int) -> list[Action]:
        self._changed = True
        members = self._members
        before = {chain: members.offsets[members.chains[chain].sources] for chain in delta.advances}
        self._ledger.accept(delta)
        for chain, advance in delta.advances.items():
            members.advance(chain, advance, now_ns)
            if self._half.has_cuts:
                members.mark(chain)
        self._half.absorb(parts, lambda chain: members.chains[chain].sources)
        actions = self._advance()
        note = self._noted(
            "accepted",
            chains={chain: list(astuple(stretch)) for chain, stretch in delta.ranges.items()},
            sources=self._moves(delta, before),
            watermark=members.watermark(),
        )
        accepted = Positions(False, self._ledger.of(delta.ranges))
        return [note, *actions, SendMessage(sender, encode(accepted))]

    def _moves(self, delta: Delta, before: dict[str, Any]) -> dict[str, list[int]]:
        """How far each source came: from where, to where, and its watermark."""
        if sum(len(advance.sources) for advance in delta.advances.values()) > SOURCES_NOTED_MAX:
            return {}
        members, moves = self._members, {}
        for chain, advance in delta.advances.items():
            for place in advance.sources.tolist():
                number = int(members.chains[chain].sources[place])
                end, watermark = int(members.offsets[number]), int(members.watermarks[number])
                moves[members.names[number]] = [int(before[chain][place]), end, watermark]
        return moves

    def _reject(self, sender: str, delta: Delta, reasons: dict[str, str]) -> list[Action]:
        """Say where the chains stand; an owner that has not heard of its new epoch is told once more."""
        actions: list[Action] = [Noted("rejected", {"chains": reasons})]
        outdated = {chain.removesuffix(CUT_SUFFIX) for chain, reason in reasons.items() if reason == "old epoch"}
        for chain in sorted(outdated & set(self._members.chains)):
            actions.extend(self._assign(chain))
        positions = {chain: p for chain, p in self._ledger.of(delta.ranges).items() if p.epoch}
        return [
            *actions,
            SendMessage(sender, encode(Positions(False, positions))),
            SendMessage(sender, encode(Positions(True, self._ledger.of(delta.ranges)))),
        ]

    def _reject_after_the_end(self, sender: str, delta: Delta) -> list[Action]:
        """Repeat an acceptance that was not heard; of anything else say that it comes too late, so that nobody sends on."""
        known = self._ledger.of(delta.ranges)
        heard = Positions(False, {chain: position for chain, position in known.items() if position.epoch})
        news = {
            chain.removesuffix(CUT_SUFFIX) for chain, stretch in delta.ranges.items() if stretch.end > known[chain].at
        }
        answers: list[Message] = [heard, *(Refuse(chain, THE_END) for chain in sorted(news))]
        note = Noted("rejected", {"chains": dict.fromkeys(sorted(delta.ranges), "finished")})
        return [note, *(SendMessage(sender, encode(answer)) for answer in answers)]

    def _take_back(self, sender: str, delta: Delta, back: dict[str, list[int]], now_ns: int) -> list[Action]:
        """Idle sources speak again: they return at the watermark of now, and what they sent is sliced anew with it."""
        self._changed = True
        decided = len(self._members.decisions)
        actions: list[Action] = []
        for chain, numbers in back.items():
            # Else the next of them would fall idle before this one is back, and so on for ever.
            self._members.hear(chain, delta.advances[chain], now_ns)
            if numbers:
                self._members.decide_return(numbers, now_ns)
                self._new_epoch(chain)
        actions.extend(self._note_decisions(decided))
        for chain, numbers in back.items():
            if numbers:
                actions.extend(self._assign(chain))
        reasons = {chain: "idle" for chain, numbers in back.items() if numbers}
        reply = SendMessage(sender, encode(Positions(True, self._ledger.of(delta.ranges))))
        return [*actions, Noted("rejected", {"chains": reasons}), reply]

    # --- windows ---

    def _advance(self) -> list[Action]:
        """The watermark may have risen: close what it has passed."""
        members = self._members
        notes: list[Action] = []
        if self._flushing and not members.active.any() and members.watermark() < FOREVER:
            members.finish()
            notes.append(self._noted("flushed"))
        self._half.raise_to(members.watermark(), members.latest)
        self._half.close()
        return [*notes, *self._cut_done(), *self._emit(), *self._cut_soon(), *self._finish()]

    def _emit(self) -> list[Action]:
        rows, side = self._half.take_rows(), self._half.side_output()
        if rows is None and not len(side):
            return []
        self._step += 1
        actions: list[Action] = [] if rows is None else [EmitRows(self._step, rows)]
        return [*actions, *([EmitAside(self._step, side)] if len(side) else [])]

    def _finish(self) -> list[Action]:
        done = self._members.watermark() == FOREVER and (not self._half.has_cuts or self._cut_time == FOREVER)
        # Without being asked it is the end only if no source is left that may return.
        done = done and (self._flushing or bool((self._members.watermarks == FOREVER).all()))
        if not done or self._finished:
            return []
        self._finished = True
        return [self._noted("flushed"), Finished()]

    # --- cuts ---

    def _last_announced(self) -> int:
        return self._cut if self._pending is None else self._pending.message.number

    def _cut_soon(self) -> list[Action]:
        """Windows that markers cut may be over: announce cuts after a while."""
        due = self._half.has_cuts and self._pending is None and self._members.watermark() > self._cut_time
        if not due or self._cut_timer:
            return []
        self._cut_timer = True
        return [SetTimer("cut", self.settings.linger_ns)]

    def _announce(self) -> list[Action]:
        until = self._members.watermark()
        if not self._half.has_cuts or self._pending is not None or until <= self._cut_time:
            return []
        self._changed = True
        members = self._members
        idle = {
            members.names[number]: int(members.offsets[number])
            for number in range(len(members.names))
            if not members.active[number]
        }
        message = Cuts(self._cut + 1, until, idle, self._half.announce(until))
        # A chain whose events were all cut before has nothing to send, and may be gone.
        awaited = tuple(
            sorted(c for c, known in members.chains.items() if known.latest >= max(self._cut_time, NEVER + 1))
        )
        self._pending = PendingCut(message, awaited)
        note = self._noted("cut announced", number=message.number, until=until)
        return [
            note,
            *self._broadcast(encode(message)),
            *self._cut_done(),
            *self._emit(),
            *self._cut_soon(),
            *self._finish(),
        ]

    def _cut_done(self) -> list[Action]:
        pending = self._pending
        if pending is None:
            return []
        number, until = pending.message.number, pending.message.until
        positions = self._ledger.positions
        if any(positions[chain + CUT_SUFFIX].at < number for chain in pending.awaited):
            return []
        for chain in self._members.chains:
            position = positions[chain + CUT_SUFFIX]
            positions[chain + CUT_SUFFIX] = Position(position.epoch, max(position.at, number))
        self._half.finish_cut(until)
        self._cut, self._cut_time, self._pending = number, until, None
        self._members.settle(until)
        return [self._noted("cut done", number=number, until=until)]

    def _broadcast(self, frame: bytes) -> list[Action]:
        return [SendMessage(link, frame) for link in self._routes.children]

    def _on_tend_timer(self) -> list[Action]:
        """Say again what may not have been heard."""
        actions: list[Action] = [SetTimer("tend", self.settings.resend_ns), *self._cut_soon()]
        if self._pending is not None:
            # Whoever does not answer may not have heard of its epoch.
            for chain in self._pending.awaited:
                if self._ledger.positions[chain + CUT_SUFFIX].at < self._pending.message.number:
                    actions.extend(self._assign(chain))
            actions.extend(self._broadcast(encode(self._pending.message)))
        if self._flushing and not self._finished:
            actions.extend(self._broadcast(encode(Flush())))
        return actions

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
            chain.marks.clear()
            position = self._ledger.positions[name + CUT_SUFFIX]
            self._ledger.positions[name + CUT_SUFFIX] = Position(position.epoch, self._cut)

    def _tell_queries(self) -> list[Action]:
        """All leaves begin anew behind what was accepted, with the queries of now."""
        self._version += 1
        self._text = None
        actions: list[Action] = []
        for chain, known in sorted(self._members.chains.items()):
            if self._half.has_cuts and not known.marks:
                self._members.mark(chain)
            self._new_epoch(chain)
            actions.extend(self._assign(chain))
        return actions

    def _on_flush_asked(self) -> list[Action]:
        self._changed = True
        self._flushing = True
        return [*self._broadcast(encode(Flush())), *self._advance()]

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the root knows."""
        pending = self._pending
        return to_bytes(
            {
                "name": self.name,
                "settings": list(astuple(self.settings)),
                "half": self._half.snapshot(),
                "members": self._members.state(),
                "positions": [[chain, p.epoch, p.at] for chain, p in self._ledger.positions.items()],
                "routes": self._routes.state(),
                "schema": None if self._schema is None else self._schema.serialize().to_pybytes(),
                "version": self._version,
                "cut": [self._cut, self._cut_time],
                "pending": None if pending is None else [encode(pending.message), list(pending.awaited)],
                "flags": [self._flushing, self._finished],
                "counts": [self._step, self._records],
            }
        )

    @classmethod
    def restore(cls, data: bytes) -> RootNode:
        """A root that goes on where ``snapshot`` was taken."""
        state = from_bytes(data)
        root = cls(state["name"], settings=NodeSettings(*state["settings"]))
        root._half = RootHalf.restore(state["half"])
        root._time = root._half.query_set().time
        root._members = Membership.restored(state["members"])
        root._share_names()
        root._ledger = Ledger({chain: Position(epoch, at) for chain, epoch, at in state["positions"]})
        root._routes = Routes.restored(state["routes"])
        schema = state["schema"]
        root._schema = None if schema is None else pa.ipc.read_schema(pa.py_buffer(schema))
        root._version, (root._cut, root._cut_time) = state["version"], state["cut"]
        if state["pending"] is not None:
            message = decode(state["pending"][0])
            assert isinstance(message, Cuts)
            root._pending = PendingCut(message, tuple(state["pending"][1]))
        root._flushing, root._finished = state["flags"]
        root._step, root._records = state["counts"]
        root._text = None
        return root

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
