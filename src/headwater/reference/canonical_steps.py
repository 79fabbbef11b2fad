"""The slow, obvious answer where there is no root: what comes out at each canonical step.

Every partition's events are cut where its watermark first reaches a step; what lies before all these cuts is a stretch of the
history that is the same for everybody, and the rows of a step are what the reference shows after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.language.times import FOREVER, NEVER
from headwater.reference.event_times import event_time
from headwater.reference.history import Arrived, StreamSettings
from headwater.reference.rows import EmittedWindows, Group, ReferenceStream, ResultRow, changes_since


def rows_of_steps(
    settings: StreamSettings, partitions: Mapping[str, Sequence[Arrived]], every: int, ends: bool = True
) -> Iterator[tuple[int, list[ResultRow]]]:
    """Each step that is executed, as the event time up to which windows are closed, with its rows.

    ``ends``: whether the partitions end behind these events.
    """
    stream = ReferenceStream(settings)
    shown: dict[Group, EmittedWindows] = {}
    left = {name: list(events) for name, events in sorted(partitions.items())}
    marks = dict.fromkeys(left, NEVER)
    time = NEVER
    while time < FOREVER:
        # Every partition goes on until it has reached the next step, whichever that is.
        for name, events in left.items():
            while events and marks[name] <= time:
                event = events.pop(0)
                stream.note(event)
                marks[name] = max(marks[name], _step_time(settings, event, every))
            if not events and marks[name] <= time and ends:
                marks[name] = FOREVER
        if min(marks.values()) <= time:
            return
        time = stream.watermark = min(marks.values())
        if time < FOREVER:
            stream.finite_watermark = time
        yield time, changes_since(stream, shown)


def _step_time(settings: StreamSettings, event: Arrived, every: int) -> int:
    """The time of the last step that an event alone takes its partition to."""
    time = event_time(settings, event)
    if time is None or settings.disorder is None:
        return NEVER
    return (time - settings.disorder) // every * every
