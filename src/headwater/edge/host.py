"""Drives one node: timers, frames and events in, and whatever the node asks for is done. One thread, and it never waits here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.edge.cluster.outcome import Emission
from headwater.edge.feed import Feed
from headwater.edge.journal import CHECKPOINT, RECORD, Journal
from headwater.edge.links import Links
from headwater.edge.rates import FAR_NS
from headwater.node import Node
from headwater.node.root import THE_END
from headwater.protocols import actions, events

#: Frames that are handled before events are read again.
FRAMES_MAX = 32


class NodeHost:
    """A node and its surroundings: links, timers, at a leaf a feed of events; ``clock`` tells nanoseconds.

    What it has to tell others about is left in `is_finished`, `stopped` and the rows.
    """

    def __init__(
        self,
        name: str,
        node: Node,
        links: Links,
        feed: Feed | None = None,
        journal: Journal | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.name = name
        self.node = node
        self.links = links
        self.feed = feed
        self.journal = journal
        self.finished_ns: int | None = None
        #: Why this node has ended before its time.
        self.stopped: str | None = None
        self.emissions: list[Emission] = []
        self.aside: list[pa.Table] = []
        self.notes: Counter[str] = Counter()
        #: Processor time of this thread that was spent here.
        self.work_ns = 0
        self._clock = clock
        self._timers: dict[str, int] = {}
        self._is_started = False

    @property
    def is_finished(self) -> bool:
        return self.finished_ns is not None

    @property
    def is_ready(self) -> bool:
        """Whether it could read, were it time: the root knows its sources."""
        return self._is_started and (self.feed is None or self.feed.is_asked_for)

    def repeat(self, kept: Sequence[Emission], asked: Sequence[actions.Action]) -> None:
        """Take up what came out of a root that is gone, and what the one that was made from its journal asks for again."""
        self.emissions = list(kept)
        for action in asked:
            self._do(action)

    def start(self) -> None:
        """Let the node begin, with its sources if it has any."""
        self._is_started = True
        self.handle(events.Started())
        for reader in () if self.feed is None else self.feed.readers.values():
            self.handle(events.SourceOpened(reader.name, self.name, reader.store.schema))

    # --- what happens ---

    def turn(self, *, reads: bool = True) -> bool:
        """Let everything happen that is due, but not for long; returns whether there may be more.

        Not ``reads``: timers and frames, but no events of sources.
        """
        begin_ns = time.thread_time_ns()
        now_ns = self._clock()
        self.links.pump(now_ns)
        is_busy = self._fire(now_ns)
        is_busy = self._hear() or is_busy
        is_busy = (reads and self._read()) or is_busy
        self.work_ns += time.thread_time_ns() - begin_ns
        return is_busy

    def timer_ns(self) -> int:
        """When the next timer fires."""
        return min(self._timers.values(), default=FAR_NS)

    def next_ns(self) -> int:
        """When there is something to do if no frame comes."""
        # While a link is full its queue says when to look again.
        feed_ns = FAR_NS if self.feed is None or self.links.is_full else self.feed.next_ns()
        return min(feed_ns, self.timer_ns())

    def _fire(self, now_ns: int) -> bool:
        due = [name for name, due_ns in self._timers.items() if due_ns <= now_ns]
        for name in due:
            # One that fired before it may have set this one anew.
            if self._timers.get(name, FAR_NS) <= now_ns:
                del self._timers[name]
                self.handle(events.TimerFired(name))
        return bool(due)

    def _hear(self) -> bool:
        frames = self.links.receive(FRAMES_MAX)
        for sender, frame in frames:
            self.handle(events.MessageReceived(sender, frame))
        return bool(frames)

    def _read(self) -> bool:
        """One piece of one source, however large: no work here is per event."""
        if self.feed is None or self.links.is_full:
            return False
        event = self.feed.next_event(self._clock())
        if event is None:
            return False
        self.handle(event)
        return True

    def handle(self, event: events.Event) -> None:
        """Let one thing happen to the node, and do what it asks for, in that order."""
        for action in self.node.handle(event, self._clock()):
            self._do(action)

    # --- what is asked for ---

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.SendMessage(target, frame):
                self.links.send(target, frame, self._clock())
            case actions.SetTimer(name, delay_ns):
                self._timers[name] = self._clock() + delay_ns
            case actions.ReadFrom(source, offset) if self.feed is not None and source in self.feed.readers:
                self.feed.readers[source].move(offset)
            case actions.PauseReading() | actions.ResumeReading() if self.feed is not None:
                self.feed.is_paused = isinstance(action, actions.PauseReading)
            case actions.EmitRows(step, rows):
                self._emit(Emission(step, self._clock(), rows))
            case actions.EmitAside(_, rows):
                self.aside.append(rows)
            # Without a journal a root is not made again: a run that loses it has failed.
            case actions.Record(data) if self.journal is not None:
                self.journal.add(RECORD, data)
            case actions.Checkpoint(data) if self.journal is not None:
                self.journal.add(CHECKPOINT, data)
            case actions.Finished():
                self.finished_ns = self._clock()
            case actions.Superseded():
                self.stopped = "another node has taken its sources over"
            case actions.Refused(reason) if reason == THE_END:
                # The root has everything it needs, and may have said so to others before this leaf hears of it.
                self.finished_ns = self.finished_ns or self._clock()
            case actions.Refused(reason):
                self.stopped = f"it was refused: {reason}"
            case actions.Noted(what):
                self.notes[what] += 1

    def _emit(self, emission: Emission) -> None:
        # A root that was made again repeats steps whose rows came out before.
        if self.emissions and emission.step <= self.emissions[-1].step:
            return
        self.emissions.append(emission)
        if self.journal is not None:
            self.journal.emit(emission)
