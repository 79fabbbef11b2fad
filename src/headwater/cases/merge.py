"""Merge cases: partials of several nodes in, windows out as soon as the parts of all nodes are there.

The merging itself is the host's; what is here is the bookkeeping of Disco's root, so that a case can say when a window
may come out at the earliest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headwater.cases.hosts import Host
from headwater.cases.stream import Case, CaseRow, aggregation_of, expected_rows, value_text
from headwater.errors import FormatError

Values = list[Any]
Slices = dict[tuple[int, int], Values]


@dataclass(slots=True)
class Part:
    """What one node has of one window."""

    node: int
    start: int
    end: int
    values: Values


@dataclass(slots=True)
class Merger:
    """The windows of one query, key and function that are not out yet, and how far each node has come."""

    case: Case
    host: Host
    window: Case
    aggregation: str
    pending: list[Part] = field(default_factory=list)
    slices: dict[int, Slices] = field(default_factory=dict)
    #: No session of the node begins at or before this time any more.
    quiet_until: dict[int, int] = field(default_factory=dict)

    def add(self, partial: Case) -> None:
        """One node's part of one window."""
        part = Part(partial["node"], partial["start"], partial["end"], self._values(partial))
        self.pending.append(part)
        # A node's next session begins after the end of its last: had it begun by then, it would have joined.
        self.announce(part.node, part.end)

    def announce(self, node: int, quiet_until: int) -> None:
        """A node says that it has no further session up to this time."""
        self.quiet_until[node] = max(quiet_until, self.quiet_until.get(node, quiet_until))

    def finished(self) -> Iterator[tuple[int, int, Any]]:
        """The windows that are complete now, with their values; they are pending no more."""
        for parts in self._sessions() if self.window["type"] == "session" else self._windows():
            start, end = min(part.start for part in parts), max(part.end for part in parts)
            if self._is_final(parts, end):
                self.pending = [part for part in self.pending if part not in parts]
                yield start, end, self._value([part.values for part in parts])

    def _windows(self) -> list[list[Part]]:
        bounds = dict.fromkeys((part.start, part.end) for part in self.pending)
        return [[part for part in self.pending if (part.start, part.end) == each] for each in bounds]

    def _sessions(self) -> list[list[Part]]:
        parts = sorted(self.pending, key=lambda part: part.start)
        chains = self.host.sessions([(part.start, part.end) for part in parts], self.window["gap"])
        return [[parts[index] for index in chain] for chain in chains]

    def _is_final(self, parts: list[Part], end: int) -> bool:
        nodes = {partial["node"] for partial in self.case["partials"]}
        if self.window["type"] == "session":
            return all(node in self.quiet_until and self.quiet_until[node] >= end for node in nodes)
        return {part.node for part in parts} == nodes

    def _values(self, partial: Case) -> Values:
        """The part as values of its column: [sum, count] stands for any count values that add up to the sum."""
        value = partial["value"]
        if self.aggregation == "median":
            own = {(piece["start"], piece["end"]): piece["values"] for piece in value}
            if self.case.get("slices_shared"):
                own = self.slices.setdefault(partial["node"], {}) | own
                self.slices[partial["node"]] = own
            inside = [bounds for bounds in own if partial["start"] <= bounds[0] and bounds[1] <= partial["end"]]
            return [number for bounds in inside for number in own[bounds]]
        if self.aggregation in ("avg", "avg_partial"):
            total, count = value
            return [total, *[0] * (count - 1)]
        return [value]

    def _value(self, parts: list[Values]) -> Any:
        if self.aggregation == "avg_partial":
            return [self.host.finish(aggregation_of(name), parts) for name in ("sum", "count")]
        return value_text(self.case, self.host.finish(aggregation_of(self.aggregation), parts))


def run_merge(case: Case, host: Host) -> tuple[list[CaseRow], list[CaseRow]]:
    """The rows expected and those that came; a row that came too early says so by its `when`."""
    mergers: dict[tuple[int, Any, Any], Merger] = {}
    actual: list[CaseRow] = []
    windows = {window["id"]: window for window in case["windows"]}
    for seen, partial in enumerate(case["partials"], start=1):
        window, fn, key = partial["window"], partial.get("fn"), partial.get("key")
        merger = mergers.setdefault((window, fn, key), Merger(case, host, windows[window], _function(case, fn)))
        # Slices travel once per node and are used by every window, so the mergers of a case share them.
        merger.slices = next(iter(mergers.values())).slices if case.get("slices_shared") else merger.slices
        merger.add(partial)
        for (window, fn, key), each in mergers.items():
            for start, end, value in each.finished():
                actual.append(CaseRow(window, fn, start, end, key, value, seen))
        for announced in case.get("session_starts", ()):
            if announced["after_partial"] == seen:
                for each in mergers.values():
                    # A session that begins exactly at the end of another still joins it, so it is quiet just before.
                    each.announce(announced["node"], announced["start"] - 1)
    return _timed(case, actual)


def _function(case: Case, fn: int | None) -> str:
    if case["aggregation"] == "per_fn" and fn is None:
        raise FormatError(f"case {case['id']!r}: a partial of several functions names its own with 'fn'")
    return str(case["aggregations"][fn] if case["aggregation"] == "per_fn" else case["aggregation"])


def _timed(case: Case, actual: list[CaseRow]) -> tuple[list[CaseRow], list[CaseRow]]:
    """Both sides with `when` left out, except where a row came earlier than it may."""
    earliest = {
        row[:5]: source.get("emitted_after_partial", case.get("emitted_after_partial", 0))
        for row, source in zip(expected_rows(case), case["expected"], strict=True)
    }
    timed = [
        row if row.when is not None and row.when < earliest.get(row[:5], 0) else row._replace(when=None)
        for row in actual
    ]
    return expected_rows(case), timed
