"""A run as text: one line per step, with the time, the node, what happened to it and what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from headwater.base.packing import Bytes
from headwater.node.holon import happenings as happen
from headwater.protocols import actions as act
from headwater.protocols import events, messages
from headwater.protocols.actions import Action
from headwater.protocols.delta import Delta
from headwater.protocols.events import Event
from headwater.protocols.frames import FrameError, open_frame
from headwater.protocols.peers import gossip_messages as gossip
from headwater.protocols.peers.decisions import entry_from_bytes
from headwater.protocols.windowed_crdt import PrefixDelta
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
        texts = [text_of(action) for action in actions]
        if done < len(texts):
            texts.insert(done, "† not done:")
        self._line(time_ns, machine.name, f"{text_of(event)} -> {'; '.join(texts) or '.'}")

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """A fault struck, or was over."""
        if self._node is None or machine == self._node:
            self._line(time_ns, machine, f"* {what}")

    def _line(self, time_ns: int, machine: str, text: str) -> None:
        self._write(f"{time_ns / 1e6:10.3f} ms  {machine:<12} {text}")


def text_of(what: object) -> str:
    """An event, an action or a message in short; by its name if there is no more to say of it.

    >>> text_of(events.TimerFired("resend")), text_of(act.ReadFrom("a", 7)), text_of(act.Finished())
    ('timer resend', 'read a from 7', 'Finished')
    """
    return TEXTS.get(type(what), lambda _: type(what).__name__)(what)


def frame_text(frame: Bytes) -> str:
    """The message in a frame, in short."""
    try:
        kind, _ = open_frame(frame)
        is_gossip = gossip.DIGEST <= kind <= gossip.ENTRY
        message = gossip.heard(frame) if is_gossip else messages.decode(frame)
    except FrameError as error:
        return f"a frame that cannot be read ({error})"
    return f"{text_of(message)} {len(frame)} B" if isinstance(message, Delta) else text_of(message)


def _batch_text(event: events.BatchArrived) -> str:
    told = "" if event.watermark is None else f" watermark {event.watermark}"
    return f"reads {event.source} [{event.offset}, {event.offset + event.batch.num_rows}){told}"


def _rows_text(action: act.EmitRows) -> str:
    rows = action.rows.to_pylist()
    texts = [f"{r['query']}[{r['window_start']}, {r['window_end']})#{r['revision']}:{r['event_count']}" for r in rows]
    return f"emit step {action.step}: {len(texts)} rows {' '.join(texts[:8])}{' ...' if len(texts) > 8 else ''}"


def _delta_text(delta: Delta) -> str:
    return " ".join(["Delta", *(f"{chain}@{r.epoch}[{r.start}, {r.end})" for chain, r in sorted(delta.ranges.items()))])


def _positions_text(told: messages.Positions) -> str:
    places = [f"{chain}@{at.epoch}:{at.at}" for chain, at in sorted(told.chains.items())]
    return f"{'Resend' if told.resend else 'Accepted'} {' '.join(places)}"


def _places_text(places: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{index}" for name, index in sorted(places.items()))


def _steps_text(steps: tuple[int, int] | None) -> str:
    return "" if steps is None else f" to step {steps[1]}"


def _entry_text(entry: bytes) -> str:
    return str(entry_from_bytes(entry))


def _assign_text(told: messages.Assign) -> str:
    states = [f"{source.name}:{source.offset}" for source in told.sources]
    return f"Assign {told.chain}@{told.epoch}:{told.position} to {told.node} {' '.join(states)}"


#: What there is to say of each kind of event, action and message beside its name.
TEXTS: dict[type, Callable[[Any], str]] = {
    NoneType: lambda _: "recovers",
    events.MessageReceived: lambda event: f"from {event.sender}: {frame_text(event.frame)}",
    events.TimerFired: lambda event: f"timer {event.name}",
    events.SourceOpened: lambda event: f"opens {event.source} of {event.home}",
    events.BatchArrived: _batch_text,
    events.SourceEnded: lambda event: f"{event.source} ends at {event.offset}",
    events.QueryAdded: lambda event: f"add query {event.query.name}",
    events.QueryRemoved: lambda event: f"remove query {event.name}{' (drain)' if event.drain else ''}",
    act.SendMessage: lambda action: f"to {action.target}: {frame_text(action.frame)}",
    act.SetTimer: lambda action: f"timer {action.name} in {action.delay_ns / 1e6:g} ms",
    act.ReadFrom: lambda action: f"read {action.source} from {action.offset}",
    act.Record: lambda action: f"record {len(action.data)} B",
    act.Checkpoint: lambda action: f"checkpoint {len(action.data)} B",
    act.EmitRows: _rows_text,
    act.EmitAside: lambda action: f"aside step {action.step}: {action.rows.num_rows} events",
    act.Refused: lambda action: f"refused: {action.reason}",
    act.Noted: lambda note: " ".join(["note", note.what, *(f"{name}={value}" for name, value in note.detail.items())]),
    happen.InputSeen: lambda event: f"sees input {_places_text(event.ends)}",
    happen.RowsAppended: lambda event: f"{event.chain} has rows up to {event.end}",
    happen.RowsSynced: lambda event: f"rows are safe {_places_text(event.ends)}",
    happen.EntryDecided: lambda event: f"entry {event.number} is {_entry_text(event.entry)}",
    happen.PeerJoined: lambda event: f"can reach {event.peer}",
    happen.PeerGone: lambda event: f"is refused by {event.peer}",
    happen.AppendRows: lambda action: f"append {len(action.rows)} rows to {action.chain} from {action.index}",
    happen.Decide: lambda action: f"decide entry {action.number} as {_entry_text(action.entry)}",
    happen.StopReading: lambda action: f"stop reading {action.partition}",
    Delta: _delta_text,
    PrefixDelta: lambda told: f"Delta {told.chain} [{told.start}, {told.end}){_steps_text(told.steps)}",
    gossip.Digest: lambda told: f"Digest {told.beat} executed {' '.join(map(str, told.executed))}",
    gossip.PrefixTold: lambda told: f"Prefix {told.chain} up to {told.prefix.version.at}",
    gossip.WorldPiece: lambda told: f"World {told.world} piece {told.number + 1} of {told.count}",
    gossip.EntryTold: lambda told: f"Entry {told.number} {told.entry}",
    messages.Positions: _positions_text,
    messages.Hello: lambda told: f"Hello {told.chain} by {told.node} epoch {told.epoch} queries {told.version}",
    messages.Assign: _assign_text,
    messages.Cuts: lambda told: f"Cuts {told.number} until {told.until}",
    messages.CountPlan: lambda told: f"Plan {told.number} until {told.until} settled {told.settled}",
    messages.LookInto: lambda told: f"Look {told.chain} {len(told.looks)} B",
    messages.Refuse: lambda told: f"Refuse {told.chain}: {told.reason}",
}
