"""The slow, obvious answer where there is no root: what comes out at each canonical step.

Every partition's events are cut where its watermark first reaches a step; what lies before all these cuts is a stretch of the
history that is the same for everybody, and the rows of a step are what the reference shows after it. Where a partition may be
left out, it was decided for each step who is; the decisions are taken one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.language.times import FOREVER, NEVER
from headwater.reference.event_times import event_time
from headwater.reference.history import Arrived, Idle, Returned, StreamSettings
from headwater.reference.rows import EmittedWindows, Group, ReferenceStream, ResultRow, changes_since

#: The event time up to which windows are closed at a step, and its rows.
TimedRows = tuple[int, list[ResultRow]]


@dataclass(frozen=True, slots=True)
class StepDecided:
    """The step of this time is closed without the partitions that are out; of each so many events count until then."""

    time: int
    out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReturnDecided:
    """A partition that was left out behind so many events is waited for again."""

    partition: str
    index: int


@dataclass(frozen=True, slots=True)
class EndDecided:
    """Partitions end behind so many events."""

    ends: Mapping[str, int]


Decision = StepDecided | ReturnDecided | EndDecided


def rows_of_steps(
    settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int, ends: bool = True
) -> Iterator[TimedRows]:
    """Each step that is executed where nobody is left out. ``ends``: whether the partitions end behind these events."""
    steps = _Steps(settings, partitions, every)
    if ends:
        steps.end({name: len(events) for name, events in partitions.items()})
    yield from steps.all_that_can_be()


def rows_of_decided_steps(
    settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int, decisions: Sequence[Decision]
) -> Iterator[TimedRows]:
    """Each step that is executed where every one is decided on, until it was decided where the partitions end."""
    steps = _Steps(settings, partitions, every)
    for decision in decisions:
        match decision:
            case StepDecided(time, out) if time > steps.time and not steps.has_ends:
                yield steps.execute(out, time)
            case ReturnDecided(partition, index) if steps.out.get(partition) == index:
                steps.take_back(partition)
            case EndDecided(ends) if not steps.has_ends:
                steps.end(ends)
    if steps.has_ends:
        yield from steps.all_that_can_be()


class _Steps:
    """How far the partitions and the steps are."""

    def __init__(self, settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int) -> None:
        self._settings, self._every = settings, every
        self._stream = ReferenceStream(settings)
        self._shown: dict[Group, EmittedWindows] = {}
        self._left = {name: list(events) for name, events in sorted(partitions.items())}
        self._taken = dict.fromkeys(self._left, 0)
        #: The time of the last step that each partition has reached, and of the last that was executed.
        self._marks = dict.fromkeys(self._left, NEVER)
        self.time = NEVER
        #: Who is left out, and behind how many events.
        self.out: dict[str, int] = {}
        self.has_ends = False

    def all_that_can_be(self) -> Iterator[TimedRows]:
        """The steps that all partitions reach."""
        while self.time < FOREVER and all(self._go_on(name) for name in self._left):
            yield self._show(min(self._marks.values()))

    def execute(self, out: Mapping[str, int], time: int) -> TimedRows:
        """The step of this time, which all partitions reach that are not left out."""
        for name in self._left:
            if name not in out:
                assert self._go_on(name), f"{name} has not reached the step at {time}"
            elif name not in self.out:
                while self._taken[name] < out[name]:
                    self._take(name)
                self._stream.note(Idle(name))
        self.out = dict(out)
        reached = min(mark for name, mark in self._marks.items() if name not in out)
        assert reached == time, f"the partitions that are not left out have reached {reached}, not {time}"
        return self._show(time)

    def take_back(self, partition: str) -> None:
        """A partition is waited for again, and none of its events is older than the step from now on."""
        del self.out[partition]
        self._stream.note(Returned(partition))
        self._marks[partition] = max(self._marks[partition], self.time)

    def end(self, ends: Mapping[str, int]) -> None:
        """Nothing counts behind these indexes."""
        for name in list(self.out):
            self.take_back(name)
        for name, events in self._left.items():
            assert self._taken[name] <= ends[name], f"{name} ends at {ends[name]}, behind which events were taken in"
            del events[ends[name] - self._taken[name] :]
        self.has_ends = True

    def _go_on(self, name: str) -> bool:
        """Let a partition reach a step behind the last one, whichever that is; returns whether it does."""
        while self._left[name] and self._marks[name] <= self.time:
            self._take(name)
        if self._marks[name] <= self.time and self.has_ends:
            self._marks[name] = FOREVER
        return self._marks[name] > self.time

    def _take(self, name: str) -> None:
        event = self._left[name].pop(0)
        self._taken[name] += 1
        self._stream.note(event)
        self._marks[name] = max(self._marks[name], _step_time(self._settings, event, self._every))

    def _show(self, time: int) -> TimedRows:
        self.time = self._stream.watermark = time
        if time < FOREVER:
            self._stream.finite_watermark = time
        return time, changes_since(self._stream, self._shown)


def _step_time(settings: StreamSettings, event: Arrived, every: int) -> int:
    """The time of the last step that an event alone takes its partition to."""
    time = event_time(settings, event)
    if time is None or settings.disorder is None:
        return NEVER
    return (time - settings.disorder) // every * every
