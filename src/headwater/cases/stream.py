"""Stream cases: queries, events and watermarks in, rows out after each watermark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from headwater.cases.hosts import Host, Played
from headwater.errors import FormatError
from headwater.language import aggregations, windows
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, col
from headwater.language.query import Query, query
from headwater.reference.history import Added, Advanced, Arrived, Joined, Step, StreamSettings

Case = Mapping[str, Any]


class CaseRow(NamedTuple):
    """A row as a case writes it; `when` is the index of its watermark (None: any), or the count of partials seen."""

    window: int
    fn: int | None
    start: int
    end: int
    key: Any
    value: Any
    when: int | None


def run_stream(case: Case, host: Host) -> tuple[list[CaseRow], list[CaseRow]]:
    """The rows expected and those that came, the watermark left out where the case does not name it."""
    settings, history = settings_of(case), list(history_of(case))
    played = host.play(settings, history)
    expected = expected_rows(case)
    return expected, [*_actual_rows(case, history, played, expected), *_dropped_rows(case, played)]


def settings_of(case: Case) -> StreamSettings:
    """The queries that are there from the start."""
    return StreamSettings(tuple(q for q, window in zip(_queries(case), case["windows"]) if "added_after" not in window))


def history_of(case: Case) -> Iterator[Step]:
    """Events, watermarks and added queries in their order. A source's offsets count its own events."""
    rows = _event_rows(case)
    sources = [source for source, _ in rows]
    for source in sorted(set(sources)):
        yield Joined(source, node=source)
    yield from _after(case, 0)
    for place, (source, row) in enumerate(rows):
        yield Arrived(source, sources[:place].count(source), row, source)
        yield from _after(case, place + 1)


def _after(case: Case, event_count: int) -> Iterator[Step]:
    """What happens once this many events have come."""
    added = [(q, window) for q, window in zip(_queries(case), case["windows"]) if "added_after" in window]
    for q, window in added:
        if window["added_after"] == event_count and "added_after_watermark" not in window:
            yield Added(q, window["active_from"])
    for index, watermark in enumerate(case["watermarks"]):
        if watermark["after"] == event_count:
            yield Advanced(None, watermark["ts"])
            for q, window in added:
                if window.get("added_after_watermark") == index:
                    yield Added(q, window["active_from"])


def _event_rows(case: Case) -> list[tuple[str, dict[str, Any]]]:
    """Each event's source (its node, if it has one) and row. Keys of mixed types become text: a column has one type."""
    events = [[*event, None, None][:4] for event in case["events"]]
    mixed = len({type(key) for _, _, key, _ in events}) > 1
    rows = []
    for time, value, key, node in events:
        key = str(key) if mixed and key is not None else key
        rows.append(("" if node is None else str(node), {"time": time, "value": value, "key": key}))
    return rows


def _queries(case: Case) -> list[Query]:
    """One query per window, named by its index."""
    count = len(case["windows"])
    names = case["aggregation"] if isinstance(case["aggregation"], list) else [case["aggregation"]] * count
    return [
        query(
            str(index),
            window_of(window),
            keys=("key",) if _is_keyed(case) else (),
            lateness=case.get("allowed_lateness", 0),
            value=aggregation_of(name),
        )
        for index, (window, name) in enumerate(zip(case["windows"], names, strict=True))
    ]


def _is_keyed(case: Case) -> bool:
    return not case.get("unkeyed", False) and any(len(event) > 2 for event in case["events"])


def window_of(window: Case) -> windows.Window:
    """The window a case describes.

    >>> window_of({"type": "sliding", "measure": "count", "size": 4, "slide": 2})
    CountWindow(size=4, step=2, per='all')
    """
    match window["type"], window["measure"]:
        case "tumbling", "time":
            return windows.tumbling(window["size"])
        case "sliding", "time":
            return windows.sliding(window["size"], window["slide"])
        case "fixed_band", "time":
            return windows.band(window["start"], window["size"])
        case "session", "time":
            return windows.session(window["gap"])
        case "punctuation", "time":
            return windows.punctuated(marker_of(window))
        case "tumbling", "count":
            return windows.count_tumbling(window["size"])
        case "sliding", "count":
            return windows.count_sliding(window["size"], window["slide"])
        case other:
            raise FormatError(f"no window is of type and measure {other}")


def marker_of(window: Case) -> Expr:
    """A punctuation's condition: the value itself, or one pattern or value per field.

    >>> marker_of({"match": {"key": "a.*", "value": 0}})
    (col('key').matches('a.*') & (col('value') == 0))
    """
    fields = window.get("match", {"value": window.get("punctuation")})
    parts = [col(n).matches(wanted) if isinstance(wanted, str) else col(n) == wanted for n, wanted in fields.items()]
    return reduce(and_, parts)


def aggregation_of(name: str) -> Aggregation:
    """The aggregate a case names; its medians are upper medians."""
    if name == "median":
        return aggregations.median("value", method="upper")
    if name not in aggregations.FUNCTIONS:
        raise FormatError(f"no aggregate is called {name!r}")
    found: Aggregation = getattr(aggregations, name)("value")
    return found


def value_text(case: Case, value: Any) -> Any:
    """A value as the case writes it: the averages of Disco's tests are cut to integers."""
    is_cut = case["id"].startswith("disco") and isinstance(value, float)
    return math.floor(value) if is_cut else value


def expected_rows(case: Case) -> list[CaseRow]:
    """What must come: rows without a value are left out, and the right answer stands in for a quirk."""
    right = {_place(row): row for row in case.get("plain_override", ())}
    rows = [right.get(_place(row), row) for row in case["expected"]]
    expected = [
        CaseRow(
            row["window"], row.get("fn"), row["start"], row["end"], row.get("key"), row["value"], row.get("watermark")
        )
        for row in rows
        if row["value"] is not None
    ]
    return expected + [_dropped_row(index) for index in case.get("dropped_index", ())]


def _place(row: Case) -> tuple[Any, ...]:
    return row["window"], row["start"], row["end"], row.get("key")


def _actual_rows(case: Case, history: Sequence[Step], played: Played, expected: list[CaseRow]) -> Iterator[CaseRow]:
    steps = [index for index, step in enumerate(history) if isinstance(step, Advanced)]
    names_watermarks = any(row.when is not None for row in expected)
    wanted = {row[:5] for row in expected}
    for index, rows in played.emitted:
        when = steps.index(index) if names_watermarks else None
        for row in rows:
            key = row.key[0] if row.key else None
            found = CaseRow(int(row.query), None, row.start, row.end, key, value_text(case, row.values["value"]), when)
            # The originals count time from 0: a sliding window that begins before has an answer here and none there.
            exists_there = row.start >= 0 or any(event[0] < 0 for event in case["events"])
            if row.event_count and exists_there and (case.get("complete", True) or found[:5] in wanted):
                yield found


def _dropped_row(index: int) -> CaseRow:
    return CaseRow(-1, None, index, index, "dropped event", index, None)


def _dropped_rows(case: Case, played: Played) -> Iterator[CaseRow]:
    if "dropped_index" in case:
        sources = [source for source, _ in _event_rows(case)]
        places = [(source, sources[:place].count(source)) for place, source in enumerate(sources)]
        for place in sorted({(source, offset) for _, source, offset in played.dropped}):
            yield _dropped_row(places.index(place))
