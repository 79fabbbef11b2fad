"""The slow, obvious answer where there is no root: what comes out at each canonical step.

Every partition's events are cut where its watermark first reaches a step; what lies before all these cuts is a stretch of the
history that is the same for everybody, and the rows of a step are what the reference shows after it. A step may be decided to be
closed without some partitions: of each only the events before an index count then, and it goes on behind them when it was decided
to return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.language.times import FOREVER, NEVER
from headwater.reference.event_times import event_time
from headwater.reference.history import Arrived, Idle, Returned, StreamSettings
from headwater.reference.rows import EmittedWindows, Group, ReferenceStream, ResultRow, changes_since


class ClosedWithout(NamedTuple):
    """The next step is closed, and goes to this time; of the partitions that are out, so many events are in it."""

    time: int
    out: Mapping[str, int]


class GoesOn(NamedTuple):
    """A partition that was out returns."""

    partition: str


class EndsAt(NamedTuple):
    """Partitions have so many events, and no more will come."""

    ends: Mapping[str, int]


SteppingDecision = ClosedWithout | GoesOn | EndsAt
Step = tuple[int, list[ResultRow]]


def rows_of_steps(
    settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int, ends: bool = True
) -> Iterator[Step]:
    """Each step that is executed, as the event time up to which windows are closed, with its rows.

    ``ends``: whether the partitions end behind these events.
    """
    stepping = Stepping(settings, partitions, every)
    if ends:
        stepping.end({name: len(events) for name, events in partitions.items()})
    yield from stepping.steps()


def rows_of_decided_steps(
    settings: StreamSettings,
    partitions: Mapping[str, Sequence[Arrived]],
    every: int,
    decisions: Sequence[SteppingDecision],
) -> Iterator[Step]:
    """The same where each step is closed by a decision, until it is decided where all partitions end."""
    stepping = Stepping(settings, partitions, every)
    for decision in decisions:
        match decision:
            case ClosedWithout(time, out):
                yield stepping.close(out)
                assert stepping.time == time, f"a step goes to {stepping.time}, and was decided to go to {time}"
            case GoesOn(partition):
                stepping.go_on(partition)
            case EndsAt(found):
                stepping.end(found)
                yield from stepping.steps()
                return


class Stepping:
    """All partitions, each with the events that are in no step yet."""

    def __init__(self, settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int) -> None:
        self.time = NEVER
        self._settings, self._every = settings, every
        self._stream = ReferenceStream(settings)
        self._shown: dict[Group, EmittedWindows] = {}
        self._left = {name: list(events) for name, events in sorted(partitions.items())}
        self._marks = dict.fromkeys(self._left, NEVER)
        self._out: set[str] = set()
        self._has_ended = False

    def steps(self) -> Iterator[Step]:
        """All steps that every partition reaches."""
        while self.time < FOREVER:
            self._go_to_the_next([*self._left])
            if min(self._marks.values()) <= self.time:
                return
            yield self._step()

    def close(self, out: Mapping[str, int]) -> Step:
        """The next step without these partitions, but with their events before an index."""
        for name, index in sorted(out.items()):
            if name not in self._out:
                while self._left[name] and self._left[name][0].offset < index:
                    self._take(name)
                self._stream.note(Idle(name))
        self._out |= out.keys()
        self._go_to_the_next([name for name in self._left if name not in self._out])
        return self._step()

    def go_on(self, partition: str) -> None:
        """A partition returns: nothing of it is older than the steps that went on without it."""
        self._stream.note(Returned(partition))
        self._out.discard(partition)
        self._marks[partition] = max(self._marks[partition], self.time)

    def end(self, ends: Mapping[str, int]) -> None:
        """Partitions end behind so many events; those that were out are back for these."""
        for name in sorted(self._out):
            self.go_on(name)
        self._left = {name: [e for e in events if e.offset < ends[name]] for name, events in self._left.items()}
        self._has_ended = True

    def _go_to_the_next(self, names: Sequence[str]) -> None:
        """Every partition goes on until it has reached the next step, whichever that is."""
        for name in names:
            while self._left[name] and self._marks[name] <= self.time:
                self._take(name)
            if not self._left[name] and self._marks[name] <= self.time and self._has_ended:
                self._marks[name] = FOREVER

    def _take(self, name: str) -> None:
        event = self._left[name].pop(0)
        self._stream.note(event)
        self._marks[name] = max(self._marks[name], _step_time(self._settings, event, self._every))

    def _step(self) -> Step:
        self.time = self._stream.watermark = min(mark for name, mark in self._marks.items() if name not in self._out)
        if self.time < FOREVER:
            self._stream.finite_watermark = self.time
        return self.time, changes_since(self._stream, self._shown)


def _step_time(settings: StreamSettings, event: Arrived, every: int) -> int:
    """The time of the last step that an event alone takes its partition to."""
    time = event_time(settings, event)
    if time is None or settings.disorder is None:
        return NEVER
    return (time - settings.disorder) // every * every
