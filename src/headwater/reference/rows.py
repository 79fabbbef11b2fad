"""The slow, obvious answer: what one machine would say that saw every event in order.

A history is everything that happened so far: arrivals, watermarks and logged decisions, in the order in which they
happened. `rows` orders all events and computes each window by its definition; `emissions` does so whenever the group's
watermark has risen and tells what changed; `counters` says what became of every event. It is the oracle of every test,
so it is written to be read in one sitting, together with `windows.py` (which windows there are) and `aggregates.py` (what
their values are); nothing in it is shared with the engine but the users' own functions and the sketches.

>>> from headwater.language.aggregations import sum as total
>>> from headwater.language.query import query
>>> from headwater.language.windows import tumbling
>>> from headwater.reference.history import Advanced, Arrived, StreamSettings
>>> settings = StreamSettings((query("load", tumbling(10), load=total("x")),))
>>> history = [Arrived("a", 0, {"time": 3, "x": 1}), Arrived("a", 1, {"time": 4, "x": 2}), Advanced("a", 10)]
>>> for key, row in rows(settings, history).items():
...     print(key, row.values, row.event_count)
('load', (), '', 0, 10) {'load': 3} 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Sliding
from headwater.reference import history as steps
from headwater.reference import windows as forming
from headwater.reference.aggregates import fits, normal, order, value_of
from headwater.reference.event_times import event_time
from headwater.reference.windows import Event, GroupClock, Lifetime, ReferenceWindow

FATES = ("filtered", "outside", "member", "late", "dropped", "malformed")

Key = tuple[Any, ...]
Place = tuple[str, Key, str, int, int]
Bounds = tuple[int, int]
Group = tuple[int, Key, str]


class Row(NamedTuple):
    """The content of one window and key; `first_time` and `last_time` are those of the window, whatever its keys."""

    values: dict[str, Any]
    event_count: int
    first_time: int | None
    last_time: int | None


class ResultRow(NamedTuple):
    """One emitted row; `replaces` lists the (start, end, revision) that no longer hold."""

    query: str
    start: int
    end: int
    key: Key
    values: dict[str, Any]
    event_count: int
    revision: int = 0
    replaces: tuple[tuple[int, int, int], ...] | None = None
    node: str = ""
    first_time: int | None = None
    last_time: int | None = None


def rows(settings: steps.StreamSettings, history: Sequence[steps.Step]) -> dict[Place, Row]:
    """Every window that is closed and not empty at the end of this history, by (query, key, node, start, end)."""
    stream = ReferenceStream(settings)
    for step in history:
        stream.take(step)
    return {(entry.query.name, *place): row for entry in stream.entries for place, row in stream.rows(entry).items()}


def counters(settings: steps.StreamSettings, history: Sequence[steps.Step]) -> dict[str, dict[str, int]]:
    """What became of the events, per query: in = filtered + outside + member + late + dropped + malformed."""
    stream = ReferenceStream(settings)
    for step in history:
        stream.take(step)
    return {entry.query.name: stream.counters(entry) for entry in stream.entries if not entry.is_removed}


def emissions(settings: steps.StreamSettings, history: Sequence[steps.Step]) -> list[list[ResultRow]]:
    """What is emitted: one list of rows for each step at which the group's watermark had risen, and for the flush."""
    return [emitted for _, emitted in story(settings, history)]


def story(settings: steps.StreamSettings, history: Sequence[steps.Step]) -> Iterator[tuple[int, list[ResultRow]]]:
    """The emissions with the index of the step that shows them.

    Arrivals show nothing by themselves; where a disorder bound lets them raise the watermark, the next other step does.
    """
    stream, shown_at = ReferenceStream(settings), NEVER
    shown: dict[Group, EmittedWindows] = {}
    for index, step in enumerate(history):
        stream.take(step)
        if not isinstance(step, steps.Arrived) and (stream.watermark > shown_at or isinstance(step, steps.Flushed)):
            shown_at = stream.watermark
            yield index, changes_since(stream, shown)


@dataclass(slots=True)
class ReferenceSource:
    """How far one source has come, and whether the group waits for it."""

    watermark: int
    is_active: bool = True


@dataclass(slots=True)
class Entry:
    """A registered query, in the order of registration, with the events that came since."""

    number: int
    query: Query
    life: Lifetime
    events: list[Event] = field(default_factory=list)
    timeless_count: int = 0
    is_removed: bool = False


class ReferenceStream:
    """Everything that happened so far. Nothing is computed from it until it is asked for."""

    def __init__(self, settings: steps.StreamSettings) -> None:
        self.settings = settings
        self.sources: dict[str, ReferenceSource] = {}
        self.watermark = NEVER
        self.finite_watermark = NEVER
        self.largest_time = NEVER
        self.entries = [Entry(number, query, Lifetime()) for number, query in enumerate(settings.queries)]

    def take(self, step: steps.Step) -> None:
        """Let one more thing happen."""
        self.note(step)
        self.rise()

    def note(self, step: steps.Step) -> None:
        """Let one more thing happen, of several at one moment; `rise` ends it."""
        match step:
            case steps.Arrived():
                self._arrive(step)
            case steps.Advanced(None, watermark):
                for source in self.sources.values():
                    source.watermark = max(source.watermark, watermark)
                if not self.sources:
                    self.watermark = max(self.watermark, watermark)
            case steps.Advanced(str(name), watermark):
                source = self._source(name)
                source.watermark = max(source.watermark, watermark)
            case steps.Joined(name, _):
                self._source(name)
            case steps.Idle(name):
                self._source(name).is_active = False
            case steps.Returned(name):
                self._return(self._source(name))
            case steps.Added(query, at):
                self.entries.append(Entry(len(self.entries), query, Lifetime(begin=at)))
            case steps.Removed(name, drain):
                self._remove(name, drain)
            case steps.Flushed():
                for source in self.sources.values():
                    source.watermark = FOREVER
                self.watermark = FOREVER

    def rise(self) -> None:
        """Let the group's watermark follow: the minimum over the active sources, and it never goes back."""
        active = [source.watermark for source in self.sources.values() if source.is_active]
        self.watermark = max(self.watermark, min(active, default=NEVER))
        if self.watermark < FOREVER:
            self.finite_watermark = self.watermark

    @property
    def clock(self) -> GroupClock:
        """What windows close by."""
        return GroupClock(self.watermark, self.finite_watermark)

    def _source(self, name: str) -> ReferenceSource:
        """The source of this name; one that is new joins, and goes on from the group's watermark."""
        return self.sources.setdefault(name, ReferenceSource(self.watermark))

    def _return(self, source: ReferenceSource) -> None:
        if not source.is_active:
            source.is_active = True
            source.watermark = max(source.watermark, self.watermark)

    def _arrive(self, step: steps.Arrived) -> None:
        source = self._source(step.source)
        self._return(source)
        live = [entry for entry in self.entries if not entry.is_removed]
        time = event_time(self.settings, step)
        if time is None:
            for entry in live:
                entry.timeless_count += 1
            return
        row = {name: normal(value) for name, value in step.row.items()}
        for entry in live:
            entry.events.append(
                Event(time, step.source.encode(), step.offset, step.node or step.source, row, source.watermark)
            )
        self.largest_time = max(self.largest_time, time)
        if self.settings.disorder is not None:
            source.watermark = max(source.watermark, time - self.settings.disorder)

    def _remove(self, name: str, drain: bool) -> None:
        for entry in self.entries:
            if entry.query.name == name and not entry.is_removed:
                entry.is_removed = not drain
                # Open are the windows that began, at a time that was seen or that the watermark has passed.
                entry.life = replace(entry.life, stop=min(entry.life.stop, max(self.largest_time + 1, self.watermark)))

    def fate(self, entry: Entry, event: Event) -> str:
        """What an event is to a query, as far as the event alone decides."""
        query = entry.query
        if any(event.row.get(steps.UNREAD + name) is not None for name in query.columns()):
            return "malformed"
        if query.where is not None and not forming.matches(query.where, event):
            return "filtered"
        if not all(fits(aggregation, event.row) for _, aggregation in query.aggregates):
            return "malformed"
        return forming.standing(query, entry.life, event)

    def formed(self, entry: Entry) -> Iterator[tuple[Key, dict[str, list[ReferenceWindow]]]]:
        """Every window of a query, open ones too, by key and (unless the scope is global) by node."""
        query, window = entry.query, entry.query.window
        kept = [event for event in entry.events if self.fate(entry, event) in ("member", "late")]
        groups: dict[Key, dict[str, list[Event]]] = {}
        for event in sorted(kept, key=lambda event: event[:3]):
            key = () if isinstance(window, CountWindow) and window.per == "all" else key_of(query, event)
            node = "" if query.scope == "global" else node_of(query, event)
            groups.setdefault(key, {}).setdefault(node, []).append(event)
        last = max((start for event in kept for start, _ in _fixed_bounds(query, event)), default=NEVER)
        for key, nodes in groups.items():
            if isinstance(window, Sliding | Band):
                yield (
                    key,
                    {node: forming.fixed(query, entry.life, held, self.clock, last) for node, held in nodes.items()},
                )
            else:
                yield (
                    key,
                    {node: forming.CONTEXT[type(window)](window, held, self.clock) for node, held in nodes.items()},
                )

    def closed(self, entry: Entry) -> Iterator[tuple[Key, str, ReferenceWindow]]:
        """Every closed window of a query, those of several nodes united where the scope says so."""
        for key, by_node in self.formed(entry):
            if entry.query.scope in ("ordinal", "matched", "overlap"):
                by_node = {"": forming.united(entry.query.scope, list(by_node.values()), self.clock)}
            for node, windows in by_node.items():
                for window in windows:
                    if window.closed and _began(entry.query, window) < entry.life.stop:
                        yield key, node, window

    def rows(self, entry: Entry) -> dict[tuple[Key, str, int, int], Row]:
        """Every closed window of a query that is not empty (or all, where the query asks for empty ones)."""
        if entry.is_removed:
            return {}
        found: dict[tuple[Key, str, int, int], Row] = {}
        for group_key, node, window in self.closed(entry):
            members: dict[Key, list[Event]] = {} if window.members else {group_key: []}
            for event in window.members:
                members.setdefault(key_of(entry.query, event), []).append(event)
            for key, events in members.items():
                if events or entry.query.emit_empty:
                    found[key, node, window.start, window.end] = _row(entry.query, events, window)
        return found

    def counters(self, entry: Entry) -> dict[str, int]:
        """What became of each event, by its best case.

        Where other events decide the windows this is how things stand: an event that no window holds now, neither open nor
        closed, is outside.
        """
        counts = {"in": len(entry.events) + entry.timeless_count} | dict.fromkeys(FATES, 0)
        counts["malformed"] = entry.timeless_count
        windows = [window for _, by_node in self.formed(entry) for windows in by_node.values() for window in windows]
        alive = [window for window in windows if _began(entry.query, window) < entry.life.stop]
        inside = {event[1:3] for window in alive for event in window.members}
        for event in entry.events:
            fate = self.fate(entry, event)
            counts["outside" if fate in ("member", "late") and event[1:3] not in inside else fate] += 1
        return counts


def key_of(query: Query, event: Event) -> Key:
    """The values of the query's key columns."""
    return tuple(event.row.get(column) for column in query.keys)


def node_of(query: Query, event: Event) -> str:
    """The node an event belongs to: the home of its source, or what a column of its own says."""
    if query.home is None:
        return event.node
    named = event.row.get(query.home)
    return "" if named is None else str(named)


def _fixed_bounds(query: Query, event: Event) -> list[Bounds]:
    return forming.fixed_bounds(query.window, event.time) if isinstance(query.window, Sliding | Band) else []


def _began(query: Query, window: ReferenceWindow) -> int:
    """When a window began: count windows have positions as bounds, so their first member says."""
    return window.members[0].time if isinstance(query.window, CountWindow) else window.start


def _row(query: Query, events: list[Event], window: ReferenceWindow) -> Row:
    if query.distinct is not None:
        # The first copy in order counts: building a dict backwards keeps it.
        first = {order(event.row.get(query.distinct)): event for event in reversed(events)}
        events = sorted(first.values(), key=lambda event: event[:3])
    rows_in_order = [event.row for event in events]
    values = {alias: value_of(aggregation, rows_in_order) for alias, aggregation in query.aggregates}
    times = [event.time for event in window.members]
    return Row(values, len(events), min(times, default=None), max(times, default=None))


class EmittedWindows(NamedTuple):
    """What was emitted for one query, key and node: the windows that hold, and the last revision of each ever seen."""

    windows: dict[Bounds, tuple[Row, int]]
    revisions: dict[Bounds, int]


def changes_since(stream: ReferenceStream, shown: dict[Group, EmittedWindows]) -> list[ResultRow]:
    """The rows that differ from what was shown before; `shown` is brought up to date."""
    changes: list[ResultRow] = []
    for entry in stream.entries:
        if entry.is_removed:
            continue
        now: dict[Group, dict[Bounds, Row]] = {group: {} for group in shown if group[0] == entry.number}
        for (key, node, start, end), row in stream.rows(entry).items():
            now.setdefault((entry.number, key, node), {})[start, end] = row
        for group, windows in now.items():
            changes += _group_changes(entry.query, group, windows, shown.setdefault(group, EmittedWindows({}, {})))
    numbers = {entry.query.name: entry.number for entry in stream.entries}
    return sorted(changes, key=lambda row: row_order(row, numbers))


def _group_changes(query: Query, group: Group, now: dict[Bounds, Row], shown: EmittedWindows) -> Iterator[ResultRow]:
    _, key, node = group
    vanished = {bounds: revision for bounds, (_, revision) in shown.windows.items() if bounds not in now}
    orphans = set(vanished)
    for bounds in vanished:
        del shown.windows[bounds]
    for (start, end), row in sorted(now.items()):
        before = shown.windows.get((start, end))
        if before is not None and same(before[0], row):
            continue
        replaced = (
            [] if before else sorted((*b, revision) for b, revision in vanished.items() if overlap(b, (start, end)))
        )
        orphans -= {(first, last) for first, last, _ in replaced}
        known = [revision for _, _, revision in replaced]
        if (start, end) in shown.revisions:
            known.append(shown.revisions[start, end])
        revision = max(known, default=-1) + 1
        shown.windows[start, end] = row, revision
        shown.revisions[start, end] = revision
        numbers = (row.event_count, revision, tuple(replaced) or None)
        yield ResultRow(query.name, start, end, key, row.values, *numbers, node, row.first_time, row.last_time)
    for start, end in sorted(orphans):
        revision = vanished[start, end]
        shown.revisions[start, end] = revision + 1
        nothing = dict.fromkeys(alias for alias, _ in query.aggregates)
        yield ResultRow(query.name, start, end, key, nothing, 0, revision + 1, ((start, end, revision),), node)


def overlap(left: Bounds, right: Bounds) -> bool:
    """The bounds share a time; those of a single instant (between markers at one time) count as holding it.

    >>> overlap((0, 10), (10, 20)), overlap((0, 10), (9, 20)), overlap((5, 5), (5, 9))
    (False, True, True)
    """
    return left[0] < max(right[1], right[0] + 1) and right[0] < max(left[1], left[0] + 1)


def same(left: Row, right: Row) -> bool:
    """Both hold the same values of the same number of events."""
    return left.event_count == right.event_count and identity(left.values) == identity(right.values)


def identity(value: Any) -> Any:
    """A value that is equal exactly where the given one is the same: NaN is NaN, and 1 is not 1.0."""
    if isinstance(value, dict):
        return {name: identity(inner) for name, inner in value.items()}
    return tuple(map(identity, value)) if isinstance(value, list | tuple) else (type(value), order(value))


def row_order(row: ResultRow, numbers: dict[str, int]) -> tuple[Any, ...]:
    """What rows of one step are sorted by; ``numbers``: of queries in the order of their registration."""
    return row.end, row.start, numbers[row.query], [order(part) for part in row.key], row.node.encode()
