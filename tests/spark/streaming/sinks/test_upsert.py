"""What the rows of a batch do to a table of last revisions, against the obvious way to do it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.stream import Loop, StoryRun
from headwater.simulator.stream.loop import DurableSink
from headwater.spark.streaming.sinks.timeline import Claimant
from headwater.spark.streaming.sinks.upsert import Upsert, upsert_of

QUERIES = {
    "active": hw.query("active", hw.session(5), keys=["house"], n=hw.count()),
    "rooms": hw.query("rooms", hw.session(5), keys=["house", "room"], n=hw.count()),
    "all": hw.query("all", hw.tumbling(10), lateness=5, n=hw.count()),
}
STREAM = Claimant("s", query_of=lambda name: QUERIES[name])
REPLACES = pa.list_(pa.struct([("window_start", pa.int64()), ("window_end", pa.int64()), ("revision", pa.int64())]))
SCHEMA = pa.schema(
    [
        ("query", pa.string()), ("window_start", pa.int64()), ("window_end", pa.int64()), ("house", pa.string()),
        ("room", pa.float64()), ("n", pa.int64()), ("event_count", pa.int64()), ("revision", pa.int64()),
        ("replaces", REPLACES),
    ]
)  # fmt: skip
Table = dict[tuple[Any, ...], dict[str, Any]]


def slow(table: Table, rows: list[dict[str, Any]], names: list[str]) -> None:
    """The obvious way: one row after the other."""
    for row in rows:
        window = {name: row.get(name) for name in names}
        for replaced in row.get("replaces") or ():
            table.pop(tuple(({**window, **replaced})[name] for name in names), None)
        table.pop(tuple(window.values()), None)
        if row["event_count"] or not row.get("replaces"):
            table[tuple(window.values())] = {name: value for name, value in row.items() if name != "replaces"}


def applied(table: Table, change: Upsert, names: list[str]) -> None:
    """What a database does with a change."""
    for window in change.windows.to_pylist():
        table.pop(tuple(window.get(name) for name in names), None)
    for row in change.rows.to_pylist():
        window = tuple(row.get(name) for name in names)
        assert window not in table
        table[window] = row


class History:
    """Draws what a stream may say of its windows: revisions rise, and what is replaced holds."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._held: dict[tuple[Any, ...], int] = {}
        self._highest: dict[tuple[Any, ...], int] = {}

    def row(self) -> dict[str, Any]:
        draw = self._draw
        query = draw(st.sampled_from(sorted(QUERIES)))
        keys = QUERIES[query].keys
        house = draw(st.sampled_from(["a", None])) if "house" in keys else None
        room = draw(st.sampled_from([1.5, None])) if "room" in keys else None
        start = draw(st.integers(0, 3))
        window = (query, house, room, start, start + draw(st.integers(1, 3)))
        of_keys = [each for each in self._held if each[:3] == window[:3] and each != window]
        gone = draw(st.lists(st.sampled_from(of_keys), max_size=2, unique=True)) if of_keys else []
        vanishes = window in self._held and draw(st.booleans())
        replaced = [(*each[3:], self._held.pop(each)) for each in [*gone, *([window] if vanishes else [])]]
        revision = 1 + max([self._highest.get(window, -1), *(each[2] for each in replaced)])
        self._highest[window] = revision
        if not vanishes:
            self._held[window] = revision
        count = 0 if vanishes else draw(st.integers(0 if not replaced else 1, 9))
        names = ("window_start", "window_end", "revision")
        return {
            "query": query, "window_start": window[3], "window_end": window[4], "house": house, "room": room,
            "n": count, "event_count": count, "revision": revision,
            "replaces": [dict(zip(names, each)) for each in replaced] or None,
        }  # fmt: skip


NAMES = ["query", "window_start", "window_end", "house", "room"]


@given(st.data())
def test_a_table_of_last_revisions_is_what_one_row_after_the_other_gives(data):
    history = History(data.draw)
    quick: Table = {}
    one_by_one: Table = {}
    for _ in range(data.draw(st.integers(1, 4))):
        rows = [history.row() for _ in range(data.draw(st.integers(1, 8)))]
        change = upsert_of(pa.Table.from_pylist(rows, SCHEMA), STREAM)
        assert len(change.windows.group_by(change.names).aggregate([])) == len(change.windows)
        applied(quick, change, NAMES)
        slow(one_by_one, rows, NAMES)
        assert quick == one_by_one


@given(st.data())
def test_rows_may_come_in_any_order_within_a_batch(data):
    history = History(data.draw)
    rows = [history.row() for _ in range(data.draw(st.integers(1, 8)))]
    wanted: Table = {}
    slow(wanted, rows, NAMES)
    found: Table = {}
    applied(found, upsert_of(pa.Table.from_pylist(data.draw(st.permutations(rows)), SCHEMA), STREAM), NAMES)
    assert found == wanted


def test_rows_without_replaces_and_of_one_query_need_no_more_than_their_window():
    only = Claimant("s", query_of=lambda name: QUERIES[name], only="active")
    rows = pa.table(
        {"window_start": [0, 0], "window_end": [5, 5], "house": ["a", None], "event_count": [0, 1], "revision": [0, 0]}
    )
    change = upsert_of(rows, only)
    assert change.names == ["window_start", "window_end", "house"] and change.rows.equals(rows)


class UpsertSink(DurableSink):
    """A table of last revisions, made batch by batch."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self.table: Table = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        if batch not in self.batches and len(rows):
            change = upsert_of(rows, Claimant("s", query_of=self._loop.runner.queries.query_of))
            applied(self.table, change, [*WINDOW, *KEYS])
        super().write(batch, rows)


WINDOW = ["query", "window_start", "window_end", "position_start", "position_end", "node"]
KEYS = ["k", "g"]


@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("seed", range(6))
def test_a_table_of_last_revisions_is_what_the_reference_says(tmp_path, seed):
    run = StoryRun(tmp_path, seed, crashes=True)
    run.loop.sink = sink = UpsertSink(run.loop)
    run.play()
    found = sorted((row["query"], row["event_count"], row["revision"]) for row in sink.table.values())
    held = [standing.row for standing in run.checker.shown.values()]
    assert found == sorted((row.query, row.event_count, row.revision) for row in held)
