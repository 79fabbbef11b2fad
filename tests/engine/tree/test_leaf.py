"""The half that has the events: what it gives for a delta, and what it only holds because it was accepted before."""

import pyarrow as pa
import pytest

import headwater as hw
from headwater.base.count_limits import CountLimits
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.parts import (
    ALL_RAW,
    AccountsPart,
    AsidePart,
    EventsPart,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RowsPart,
)
from headwater.language.times import FOREVER, NEVER

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.int64()})
SUM = hw.query("sum", hw.tumbling(10), s=hw.sum("v"))
ONCE = hw.query("once", hw.tumbling(10), s=hw.sum("v"), distinct="k", where=hw.col("v") > 1)
MARKED = hw.query("marked", hw.punctuated(hw.col("k") == "x"), n=hw.count())
COUNTED = hw.query("counted", hw.count_tumbling(2), n=hw.count())


def batch(*rows: tuple) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def leaf(*queries: hw.Query, counts: bool = False, **standing: int) -> LeafHalf:
    root = RootHalf(queries, Role(False, counts=counts), disorder=0)
    root.check(SCHEMA)
    places = {"offset": 0, "watermark": NEVER, "hold": 0, "hold_watermark": NEVER} | standing
    return LeafHalf(root.query_set(), "chain", [Standing("s", "home", **places)], NEVER, NEVER, CountLimits())


def kinds(parts: list[Part]) -> list[type]:
    return [type(part) for part in parts]


def test_events_become_rows_of_slices_and_their_accounts():
    half = leaf(SUM)
    half.take_in("s", 0, batch((1, "a", 1), (2, "b", 2), (11, "c", 4)), None)
    moved, (rows, accounts) = half.take()
    assert (moved.sources, moved.counts, moved.latest) == ([0], [3], 11 - NEVER)
    assert isinstance(rows, RowsPart) and rows.slices.tolist() == [0, 10]
    assert isinstance(accounts, AccountsPart) and accounts.rows.tolist() == [[0, 3, 0, 0, 0]]
    assert half.take()[1] == []


def test_a_late_event_travels_beside_the_rows_and_one_that_is_too_late_to_the_side():
    late = hw.query("late", hw.tumbling(10), s=hw.sum("v"), lateness=100)
    half = leaf(SUM, late)
    half.take_in("s", 0, batch((25, "a", 1), (3, "b", 2)), None)
    _, parts = half.take()
    assert kinds(parts) == [LatePart, RowsPart, AsidePart, AccountsPart]


def test_a_malformed_event_is_set_aside_here():
    half = leaf(SUM)
    half.take_in("s", 0, batch((None, "a", 1)), None)
    _, parts = half.take()
    assert kinds(parts) == [AsidePart, AccountsPart]
    assert parts[1].timeless == parts[1].malformed == 1


def test_events_travel_for_queries_that_need_them_without_those_that_none_wants():
    half = leaf(ONCE)
    half.take_in("s", 0, batch((1, "a", 1), (2, "b", 2)), None)
    _, (events, accounts) = half.take()
    assert isinstance(events, EventsPart) and (events.family, events.times.tolist()) == (ALL_RAW, [2])
    assert accounts.rows.tolist() == [[ALL_RAW, 1, 1, 0, 0]]


def test_events_travel_for_a_while_where_partials_were_larger():
    half = leaf(SUM)
    half.take_in("s", 0, batch((1, "a", 1)), None)
    half.take()
    half.weigh(0, 10**6)
    half.take_in("s", 1, batch((2, "a", 1)), None)
    assert kinds(half.take()[1]) == [EventsPart]


def test_marked_windows_tell_their_markers_and_hold_events_until_they_are_cut():
    half = leaf(MARKED)
    half.take_in("s", 0, batch((1, "a", 1), (2, "x", 1), (3, "b", 1)), None)
    _, parts = half.take()
    assert kinds(parts) == [MarkersPart, AccountsPart]
    # The first event opens a window, the second is a marker.
    assert parts[0].times.tolist() == [1, 2]
    assert (half.held(1), half.held(4)) == (2, 0)


def test_pieces_cover_what_nothing_can_come_before():
    half = leaf(COUNTED, counts=True)
    half.begin_counting({}, {}, 100, False)
    half.take_in("s", 0, batch((1, "a", 1), (2, "b", 1), (3, "c", 1)), None)
    (pieces, _) = half.take()[1]
    assert isinstance(pieces, PiecesPart) and pieces.event_counts.sum() == 3
    assert half.covered() == {0: 4}  # one source alone: its last event has its final place too


def test_events_that_were_accepted_before_count_for_nothing_but_cuts():
    half = leaf(SUM, MARKED, offset=2, watermark=2, hold=0)
    assert half.sources.next_offset("s") == 0 and half.sources.resume_offset("s") == 2
    half.take_in("s", 0, batch((1, "x", 1), (None, "x", 1)), None)
    assert half.sources.are_past_reread()
    moved, parts = half.take()
    assert (moved.sources, parts) == ([], [])
    assert half.held(1) == 1


def test_a_watermark_that_the_root_decided_begins_at_its_offset():
    standing = Standing("s", "", 0, NEVER, 0, NEVER, [(1, 50)])
    half = LeafHalf(RootHalf([SUM]).query_set(), "chain", [standing], NEVER, NEVER, CountLimits())
    half.pass_over("s", 1, 3, 4)
    assert half.sources["s"].watermark == 50


def test_events_that_are_passed_over_are_counted():
    half = leaf(SUM, ONCE)
    half.pass_over("s", 7, 3, 4)
    moved, (accounts,) = half.take()
    assert (moved.counts, moved.latest) == ([7], 4 - NEVER)
    assert accounts.rows.tolist() == [[0, 7, 0, 7, 0], [ALL_RAW, 7, 7, 0, 0]]


def test_a_source_that_has_ended_says_so():
    half = leaf(SUM)
    half.end("s", FOREVER)
    assert half.sources.has_ended and half.has_news


@pytest.mark.parametrize("name", ["push", "flush", "add_query", "side_output", "snapshot", "results"])
def test_a_leaf_is_no_engine(name: str):
    assert not hasattr(LeafHalf, name)
