"""Which windows there are and who is in them, one function per window type, straight from docs/semantics.md.

Every function takes all events of one key (and node) in order and returns every window they form, the open ones too: a
window is closed when the watermark proves that no event on time can change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from headwater.errors import DataError
from headwater.language.expressions import Expr
from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, Between, CountWindow, Custom, Punctuated, Session, Sliding


class Event(NamedTuple):
    """An event at home in the order; `watermark` is its source's own, just before it."""

    time: int
    source: bytes
    offset: int
    node: str
    row: dict[str, Any]
    watermark: int


class GroupClock(NamedTuple):
    """The group's watermark; `finite` is the one before the flush, the same if there was none."""

    watermark: int
    finite: int


@dataclass(frozen=True, slots=True)
class ReferenceWindow:
    """One window: its bounds, the last time at which it is active, whether it is closed, and its members in order."""

    start: int
    end: int
    reach: int
    closed: bool
    members: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Which windows a query has: `begin` is where it was added, `stop` where it was removed after its open windows."""

    begin: int = NEVER
    stop: int = FOREVER


def standing(query: Query, life: Lifetime, event: Event) -> str:
    """What an event is to a query, by its time and its own source's watermark: member, late, dropped or outside."""
    window = query.window
    if isinstance(window, Sliding | Band):
        # Of a window [.., end) it is a member unless end <= W, and a late one while W < end + lateness.
        lags = [event.watermark - end + 1 for start, end in fixed_bounds(window, event.time) if _lives(life, start)]
    else:
        # Late iff its own reach (time, for sessions time + gap) is below W, by reach - W.
        reach = event.time + (window.gap if isinstance(window, Session) else 0)
        lags = [event.watermark - reach] if event.time >= life.begin else []
    lateness = 0 if isinstance(window, CountWindow) else query.lateness
    if not lags:
        return "outside"
    return "member" if min(lags) <= 0 else "late" if min(lags) <= lateness else "dropped"


def _lives(life: Lifetime, start: int) -> bool:
    return life.begin <= start < life.stop


def fixed_bounds(window: Sliding | Band, time: int) -> list[tuple[int, int]]:
    """The bounds of all windows that hold this time.

    >>> fixed_bounds(Sliding(10, 4), -1)
    [(-8, 2), (-4, 6)]
    """
    if isinstance(window, Band):
        end = window.start + window.size
        return [(window.start, end)] if window.start <= time < end else []
    last = (time - window.offset) // window.slide
    first = (time - window.offset - window.size) // window.slide + 1
    starts = [number * window.slide + window.offset for number in range(first, last + 1)]
    return [(start, start + window.size) for start in starts]


def fixed(query: Query, life: Lifetime, events: list[Event], clock: GroupClock, last: int) -> list[ReferenceWindow]:
    """Tumbling, sliding and band windows; `last` is the start of the last window that holds an event of any key."""
    members: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        for start, end in fixed_bounds(query.window, event.time):  # type: ignore[arg-type]
            if _lives(life, start) and event.watermark < end + query.lateness:
                members.setdefault((start, end), []).append(event)
    if query.emit_empty and members and isinstance(query.window, Sliding):
        start, size = min(members)[0], query.window.size
        while start < life.stop and (start + size <= clock.finite or (clock.watermark == FOREVER and start <= last)):
            members.setdefault((start, start + size), [])
            start += query.window.slide
    bounds = sorted(members)
    return [
        ReferenceWindow(start, end, end - 1, end <= clock.watermark, tuple(members[start, end]))
        for start, end in bounds
    ]


def sessions(window: Session, events: list[Event], clock: GroupClock) -> list[ReferenceWindow]:
    """Chains of events at most gap apart, cut greedily at first + max_duration."""
    chains: list[list[Event]] = []
    for event in events:
        chain = chains[-1] if chains else []
        if chain and event.time <= chain[-1].time + window.gap and event.time < _limit(window, chain[0].time):
            chain.append(event)
        else:
            chains.append([event])
    formed = []
    for chain in chains:
        end, limit = chain[-1].time + window.gap, _limit(window, chain[0].time)
        # An event at last + gap still joins, one at first + max_duration does not.
        reach = min(end, limit - 1)
        formed.append(ReferenceWindow(chain[0].time, min(end, limit), reach, reach < clock.watermark, tuple(chain)))
    return formed


def punctuated(window: Punctuated, events: list[Event], clock: GroupClock) -> list[ReferenceWindow]:
    """From one marker's time to the next, or to first + max_duration; the first window opens at the first event."""
    cuts = {event.time for event in events if matches(window.marker, event)}
    starts: list[int] = []
    for time in sorted({event.time for event in events}):
        if not starts or time in cuts or time >= _limit(window, starts[-1]):
            starts.append(time)
    ends = [min(following, _limit(window, start)) for start, following in zip(starts, [*starts[1:], FOREVER])]
    if not window.include_markers:
        events = [event for event in events if not matches(window.marker, event)]
    return [_held(start, end, end - 1, clock, events) for start, end in zip(starts, ends)]


def between(window: Between, events: list[Event], clock: GroupClock) -> list[ReferenceWindow]:
    """From a start marker to the next end marker, both included, or to start + max_duration, which is not."""
    reaches: dict[tuple[int, int], int] = {}
    opened: int | None = None
    for event in events:
        if opened is not None and event.time >= _limit(window, opened):
            reaches[opened, _limit(window, opened)] = _limit(window, opened) - 1
            opened = None
        if opened is not None and matches(window.end, event):
            reaches[opened, event.time] = event.time
            opened = None
        if opened is None and matches(window.start, event):
            opened = event.time
    if opened is not None:
        reaches[opened, _limit(window, opened)] = _limit(window, opened) - 1
    return [_held(start, end, reach, clock, events) for (start, end), reach in sorted(reaches.items())]


def custom(window: Custom, events: list[Event], clock: GroupClock) -> list[ReferenceWindow]:
    """From one cut to the next. The function sees what is final: the events in order below the watermark."""
    settled = [event for event in events if event.time < clock.watermark]
    names = sorted({name for event in settled for name in event.row})
    columns = {name: np.array([event.row.get(name) for event in settled]) for name in names}
    columns["time"] = np.array([event.time for event in settled], np.int64)
    cuts = [int(cut) for cut in window.load()(columns, None)[0]] if settled else []
    if sorted(set(cuts)) != cuts:
        raise DataError(f"{window.function} gave the cut times {cuts}: each must be above the one before")
    starts = cuts if cuts and cuts[0] <= events[0].time else [events[0].time, *cuts]
    formed = [_held(start, end, end - 1, clock, events) for start, end in zip(starts, [*starts[1:], FOREVER])]
    return [replace(one, closed=one.closed and one.end + window.closes_after <= clock.watermark) for one in formed]


def counted(window: CountWindow, events: list[Event], clock: GroupClock) -> list[ReferenceWindow]:
    """Positions [k * step, k * step + size); a full window closes once all its members are below the watermark."""
    formed = []
    for start in range(0, len(events), window.step):
        members = events[start : start + window.size]
        closed = len(members) == window.size and members[-1].time < clock.watermark
        end = start + window.size
        formed.append(ReferenceWindow(start, end, end - 1, closed, tuple(members)))
    return formed


def matches(condition: Expr, event: Event) -> bool:
    """The condition is true: neither false nor null."""
    return condition.evaluate(event.row) is True


def _limit(window: Session | Punctuated | Between, first: int) -> int:
    return FOREVER if window.max_duration is None else first + window.max_duration


def _held(start: int, end: int, reach: int, clock: GroupClock, events: list[Event]) -> ReferenceWindow:
    """The window active from start to reach: closed below the watermark, if it has an end at all (FOREVER is none)."""
    members = tuple(event for event in events if start <= event.time <= reach)
    return ReferenceWindow(start, end, reach, end < FOREVER and reach < clock.watermark, members)


CONTEXT: dict[type, Callable[[Any, list[Event], GroupClock], list[ReferenceWindow]]] = {
    Session: sessions,
    Punctuated: punctuated,
    Between: between,
    Custom: custom,
    CountWindow: counted,
}


def united(scope: str, by_node: list[list[ReferenceWindow]], clock: GroupClock) -> list[ReferenceWindow]:
    """The windows of all nodes, united as the scope says: the i-th, those of equal bounds, or those that overlap.

    A united window waits for its open parts. After the end of the stream an unfinished window is none at all.
    """
    if clock.watermark == FOREVER:
        by_node = [[window for window in windows if window.closed] for windows in by_node]
    return [_union(parts) for parts in _PARTS[scope](by_node)]


def _union(parts: list[ReferenceWindow]) -> ReferenceWindow:
    members = {event[:3]: event for part in parts for event in part.members}
    bounds = min(part.start for part in parts), max(part.end for part in parts), max(part.reach for part in parts)
    return ReferenceWindow(
        *bounds, all(part.closed for part in parts), tuple(members[place] for place in sorted(members))
    )


def _ordinal(by_node: list[list[ReferenceWindow]]) -> Iterator[list[ReferenceWindow]]:
    for number in range(max(map(len, by_node), default=0)):
        yield [windows[number] for windows in by_node if number < len(windows)]


def _matched(by_node: list[list[ReferenceWindow]]) -> Iterator[list[ReferenceWindow]]:
    windows = [window for windows in by_node for window in windows]
    for bounds in sorted({(window.start, window.end) for window in windows}):
        yield [window for window in windows if (window.start, window.end) == bounds]


def _overlap(by_node: list[list[ReferenceWindow]]) -> Iterator[list[ReferenceWindow]]:
    chain: list[ReferenceWindow] = []
    for window in sorted((window for windows in by_node for window in windows), key=lambda window: window.start):
        if chain and window.start > max(other.reach for other in chain):
            yield chain
            chain = []
        chain.append(window)
    if chain:
        yield chain


_PARTS: dict[str, Callable[[list[list[ReferenceWindow]]], Iterator[list[ReferenceWindow]]]] = {
    "ordinal": _ordinal,
    "matched": _matched,
    "overlap": _overlap,
}
