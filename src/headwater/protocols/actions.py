"""Everything a node can ask its host for. The host does these in their order: one that stops has done none behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send a frame to a neighbour. It may be lost, doubled or overtaken."""

    target: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Let `TimerFired` happen after ``delay_ns``; a timer of the same name that is running is set anew."""

    name: str
    delay_ns: int


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Feed the events of a source from this offset on, whether they were read before or not."""

    source: str
    offset: int


@dataclass(frozen=True, slots=True)
class PauseReading:
    """Feed nothing until `ResumeReading`: the node holds as much as it may."""


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """Feed on."""


@dataclass(frozen=True, slots=True)
class Record:
    """Make this durable before anything behind it is done; `RootNode.recover` takes all records since the last checkpoint."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Make this durable; it stands for all records before it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class EmitRows:
    """Result rows of one step. The same step, repeated after a recovery, has the same rows."""

    step: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class EmitAside:
    """Events that were too late for a query, or malformed."""

    step: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Finished:
    """At the root: the stream has ended and everything is out. At a leaf: its sources have ended and are accepted."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another leaf has taken this one's chain over: stop it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The queries do not fit what a source holds."""

    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that observers may want to know: a decision, an acceptance, a rejection. Nobody has to act."""

    what: str
    detail: dict[str, Any]


#: What leaves ask of their hosts.
LeafAction = ReadFrom | PauseReading | ResumeReading | Superseded | Refused
#: What the root asks of its host.
RootAction = Record | Checkpoint | EmitRows | EmitAside
Action = SendMessage | SetTimer | Finished | Noted | LeafAction | RootAction
