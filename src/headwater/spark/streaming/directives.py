"""What the root tells the leaves after a batch: where each chain goes on, queries, cuts, forecasts, whether it waits.

That a batch has one is what makes it done: see `checkpoint`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from headwater.protocols.messages import Assign, SourceState, decode, encode
from headwater.protocols.tree.rereading import Reread
from headwater.spark.streaming.sinks.gathered import Gathering
from headwater.spark.streaming.states import StateRef

#: By source: from which offset to which it is read again, in order.
Again = Mapping[str, Sequence[tuple[int, int]]]


def narrowed(assign: Assign, stretches: Sequence[Reread]) -> tuple[Assign, dict[str, list[tuple[int, int]]]]:
    """An assignment that begins at the first stretch and knows the watermarks at which the others begin; and where they are."""
    if not stretches:
        return assign, {}
    states, again = [], {}
    for place, source in enumerate(assign.sources):
        states.append(_beginning(source, [(int(s.begins[place]), int(s.watermarks[place])) for s in stretches]))
        # What lies behind them and was accepted is passed over as well.
        again[source.name] = [(int(s.begins[place]), int(s.ends[place])) for s in stretches]
    return replace(assign, sources=tuple(states)), again


def returning(assign: Assign, idle: Sequence[str], ends: Mapping[str, int]) -> tuple[Assign, Again] | None:
    """The assignment that reads only the first new events of idle sources, if a chain that counts has any: these return with it.

    Whatever else the leaf sent would be void. But what it sent before it came to them would not be, and in the middle of a batch
    events that were in pieces before cannot be told from those that were not.
    """
    found = [s for s in assign.sources if s.name in idle and s.offset < ends.get(s.name, 0)]
    if not assign.covered or not found:
        return None
    states = tuple(replace(s, hold=s.offset, hold_watermark=s.watermark, floors=()) for s in assign.sources)
    return replace(assign, sources=states, looks=b""), {s.name: [(s.offset, s.offset + 1)] for s in found}


def _beginning(source: SourceState, begins: Sequence[tuple[int, int]]) -> SourceState:
    """A source that is read from the first of some stretches on; its watermarks at the others are floors."""
    (hold, watermark), *others = begins
    floors = sorted({*others, *(floor for floor in source.floors if floor[0] >= hold)})
    return replace(source, hold=hold, hold_watermark=watermark, floors=tuple(floors))


@dataclass(frozen=True)
class Directive:
    """``queries`` names their text in the checkpoint, ``columns`` are those they read. ``cuts``: the
    frame of a cut that leaves have to answer. ``plan``: the frame that says where count windows are expected to end.
    ``again``: of sources that are read again only in part, from where to where, and ``kept_from``: from where on other parts may
    be wanted later. ``idle``: sources that are not waited for, where
    count windows have to know.

    ``is_behind``: more windows without events are due than came out at once. ``forgotten``: sources that the root knew before
    this batch and does not know any more: they are done.

    ``wants_batch``: the root waits for something that does not depend on new events. ``silent_at_ns``: when it will have waited
    too long for some source. ``gathered``: by sink, rows that wait, ``rows_due_ns``: when the first of them have for long enough.
    ``status``: how the stream is doing, for people.

    ``owner``: the driver that has done the batch, ``states``: of each root the state after it. ``offset``: the hash of the offset
    that it had; after a loss Spark may know another of the same number. All three are missing in those of former releases.
    """

    batch: int
    queries: str
    columns: list[str]
    assigns: Mapping[str, Assign]
    cuts: bytes | None = None
    wants_batch: bool = False
    silent_at_ns: int | None = None
    is_finished: bool = False
    commands: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)
    plan: bytes | None = None
    again: Again = field(default_factory=dict)
    idle: Sequence[str] = ()
    kept_from: Mapping[str, int] = field(default_factory=dict)
    is_behind: bool = False
    forgotten: Sequence[str] = ()
    rows_due_ns: int | None = None
    gathered: Mapping[str, Gathering] = field(default_factory=dict)
    owner: int = 0
    states: Sequence[StateRef] = ()
    offset: str = ""

    def holds(self) -> dict[str, int]:
        """From which offset on each source may be read again, now or later."""
        whole = {s.name: min(s.hold, s.offset) for assign in self.assigns.values() for s in assign.sources}
        return whole | dict(self.kept_from)

    def sources(self) -> dict[str, list[str]]:
        """The sources of each chain."""
        return {chain: [source.name for source in assign.sources] for chain, assign in self.assigns.items()}

    def chain_of(self) -> dict[str, str]:
        """The chain of each source that is there."""
        return {name: chain for chain, names in self.sources().items() for name in names}

    def gathering(self, gathered: Mapping[str, Gathering]) -> Directive:
        """The same, with the rows that wait; when all is over, they do not any longer."""
        if self.is_finished:
            gathered = {what: each._replace(due_ns=None) for what, each in gathered.items()}
        due = [each.due_ns for each in gathered.values() if each.due_ns is not None]
        return replace(self, gathered=gathered, rows_due_ns=min(due, default=None))

    def tells_the_same(self, other: Directive) -> bool:
        """Whether both tell the leaves the same, so that these have nothing else to do."""
        return self._told() == other._told()

    def _told(self) -> tuple[object, ...]:
        return self.queries, self.columns, self.assigns, self.cuts, self.plan, self.again, list(self.idle)

    def says_the_same(self, other: Directive) -> bool:
        """Whether both say the same of the same batch, whoever has done it, and for however long rows are gathered there."""
        own = ("owner", "states", "gathered", "rows_due_ns")
        mine, others = ({n: v for n, v in each.to_data().items() if n not in own} for each in (self, other))
        return _hash(mine) == _hash(others)

    @cached_property
    def hash(self) -> str:
        """The hash of all that decides something: without ``status``."""
        return _hash(self.to_data())

    def to_data(self) -> dict[str, Any]:
        # Left out where there are none, as in the checkpoints of releases that knew no plans.
        plan = {} if self.plan is None else {"plan": _text(self.plan)}
        again = {"again": {name: list(map(list, some)) for name, some in self.again.items()}} if self.again else {}
        idle = {"idle": list(self.idle)} if self.idle else {}
        kept_from = {"kept_from": dict(self.kept_from)} if self.kept_from else {}
        is_behind = {"is_behind": True} if self.is_behind else {}
        forgotten = {"forgotten": list(self.forgotten)} if self.forgotten else {}
        due = {} if self.rows_due_ns is None else {"rows_due_ns": self.rows_due_ns}
        gathered = {"gathered": {name: list(each) for name, each in self.gathered.items()}} if self.gathered else {}
        done = (
            {"owner": self.owner, "states": list(map(list, self.states)), "offset": self.offset} if self.owner else {}
        )
        return (
            plan
            | again
            | idle
            | kept_from
            | is_behind
            | forgotten
            | due
            | gathered
            | done
            | {
                "batch": self.batch,
                "queries": self.queries,
                "columns": self.columns,
                "assigns": {chain: _text(encode(assign)) for chain, assign in self.assigns.items()},
                "cuts": None if self.cuts is None else _text(self.cuts),
                "wants_batch": self.wants_batch,
                "silent_at_ns": self.silent_at_ns,
                "is_finished": self.is_finished,
                "commands": self.commands,
                "status": dict(self.status),
            }
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Directive:
        assigns: dict[str, Assign] = {}
        for chain, text in data["assigns"].items():
            message = decode(base64.b64decode(text))
            assert isinstance(message, Assign)
            assigns[chain] = message
        frames = {name: base64.b64decode(data[name]) for name in ("cuts", "plan") if data.get(name) is not None}
        states = tuple(StateRef(*state) for state in data.get("states", ()))
        gathered = {name: Gathering(*each) for name, each in data.get("gathered", {}).items()}
        directive = cls(**{**data, "assigns": assigns, "states": states, "gathered": gathered, **frames})
        # Of what was written: another release may write the same in another way.
        directive.__dict__["hash"] = _hash(data)
        return directive


def _hash(data: Mapping[str, Any]) -> str:
    decisive = {name: value for name, value in data.items() if name != "status"}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
