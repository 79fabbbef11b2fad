"""A run as text: one line per step, with the time, the node, what happened to it and what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.base.packing import Bytes
from headwater.protocols import actions as act
from headwater.protocols import events
from headwater.protocols.actions import Action
from headwater.protocols.delta import Delta
from headwater.protocols.events import Event
from headwater.protocols.frames import FrameError
from headwater.protocols.messages import Assign, CountPlan, Cuts, Hello, LookInto, Positions, Refuse, decode
from headwater.simulator.world.machine import Machine


class Transcript:
    """Hands each line to ``write``, or only those of one ``node``.

    >>> lines = []
    >>> Transcript(lines.append).happened(1_500_000, "leaf-1", "pauses")
    >>> lines
    ['     1.500 ms  leaf-1       * pauses']
    """

    def __init__(self, write: Callable[[str], object], node: str | None = None) -> None:
        self._write, self._node = write, node

    def after(self, time_ns: int, machine: Machine, event: Event | None, actions: list[Action], done: int) -> None:
        """A node was handed an event; what a crash left undone stands behind a dagger."""
        if self._node is not None and machine.name != self._node:
            return
        texts = [action_text(action) for action in actions]
        if done < len(texts):
            texts.insert(done, "† not done:")
        self._line(time_ns, machine.name, f"{event_text(event)} -> {'; '.join(texts) or '.'}")

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """A fault struck, or was over."""
        if self._node is None or machine == self._node:
            self._line(time_ns, machine, f"* {what}")

    def _line(self, time_ns: int, machine: str, text: str) -> None:
        self._write(f"{time_ns / 1e6:10.3f} ms  {machine:<12} {text}")


def event_text(event: Event | None) -> str:
    """
    >>> event_text(events.TimerFired("resend"))
    'timer resend'
    """
    match event:
        case None:
            return "recovers"
        case events.MessageReceived(sender, frame):
            return f"from {sender}: {frame_text(frame)}"
        case events.TimerFired(name):
            return f"timer {name}"
        case events.SourceOpened(source, home):
            return f"opens {source} of {home}"
        case events.BatchArrived(source, offset, batch, watermark):
            told = "" if watermark is None else f" watermark {watermark}"
            return f"reads {source} [{offset}, {offset + batch.num_rows}){told}"
        case events.SourceEnded(source, offset):
            return f"{source} ends at {offset}"
        case events.QueryAdded(query):
            return f"add query {query.name}"
        case events.QueryRemoved(name, drain):
            return f"remove query {name}{' (drain)' if drain else ''}"
    return type(event).__name__


def action_text(action: Action) -> str:
    """
    >>> action_text(act.ReadFrom("a", 7))
    'read a from 7'
    """
    match action:
        case act.SendMessage(target, frame):
            return f"to {target}: {frame_text(frame)}"
        case act.SetTimer(name, delay_ns):
            return f"timer {name} in {delay_ns / 1e6:g} ms"
        case act.ReadFrom(source, offset):
            return f"read {source} from {offset}"
        case act.Record(data) | act.Checkpoint(data):
            return f"{type(action).__name__.lower()} {len(data)} B"
        case act.EmitRows(step, rows):
            return f"emit step {step}: {_rows_text(rows.to_pylist())}"
        case act.EmitAside(step, rows):
            return f"aside step {step}: {rows.num_rows} events"
        case act.Refused(reason):
            return f"refused: {reason}"
        case act.Noted(what, detail):
            return f"note {what}{_detail(detail)}"
    return type(action).__name__


def frame_text(frame: Bytes) -> str:
    """A message in short."""
    try:
        message = decode(frame)
    except FrameError as error:
        return f"a frame that cannot be read ({error})"
    match message:
        case Delta():
            stretches = [f"{chain}@{r.epoch}[{r.start}, {r.end})" for chain, r in sorted(message.ranges.items())]
            return f"Delta {' '.join(stretches)} {len(frame)} B"
        case Positions(resend, chains):
            places = [f"{chain}@{p.epoch}:{p.at}" for chain, p in sorted(chains.items())]
            return f"{'Resend' if resend else 'Accepted'} {' '.join(places)}"
        case Hello(chain, node, epoch, version):
            return f"Hello {chain} by {node} epoch {epoch} queries {version}"
        case Assign():
            states = [f"{s.name}:{s.offset}" for s in message.sources]
            return f"Assign {message.chain}@{message.epoch}:{message.position} to {message.node} {' '.join(states)}"
        case Cuts(number, until):
            return f"Cuts {number} until {until}"
        case CountPlan(number, until, settled):
            return f"Plan {number} until {until} settled {settled}"
        case LookInto(chain, looks):
            return f"Look {chain} {len(looks)} B"
        case Refuse(chain, reason):
            return f"Refuse {chain}: {reason}"
    return type(message).__name__


def _detail(detail: Mapping[str, Any]) -> str:
    return "".join(f" {name}={value}" for name, value in detail.items())


def _rows_text(rows: Iterable[Mapping[str, Any]]) -> str:
    texts = [f"{r['query']}[{r['window_start']}, {r['window_end']})#{r['revision']}:{r['event_count']}" for r in rows]
    return f"{len(texts)} rows {' '.join(texts[:8])}{' ...' if len(texts) > 8 else ''}"
