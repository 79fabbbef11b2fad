"""The half that has the events: what it gives for a delta, and what it only holds because it was accepted before."""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.base.count_limits import CountLimits
from headwater.engine.intake.arrivals import times_of
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.part_bytes import part_to_bytes
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


# --- stretches of a batch ---

STREAM = pa.schema({"time": pa.int64(), "k": pa.int64(), "v": pa.int64(), "x": pa.float64(), "name": pa.string()})
ASKED = {
    "integers": hw.query("integers", hw.tumbling(10), n=hw.count(), s=hw.sum("v"), high=hw.max("v"), keys=["k"]),
    "floats": hw.query("floats", hw.sliding(20, 10), n=hw.count(), total=hw.sum("x"), low=hw.min("x"), keys=["k"]),
    "runs": hw.query("runs", hw.tumbling(7), m=hw.median("v"), best=hw.top("x", 2), keys=["k"]),
    "texts": hw.query("texts", hw.tumbling(10), s=hw.sum("v"), keys=["name"]),
    "all": hw.query("all", hw.tumbling(10), s=hw.sum("v")),
    "some": hw.query("some", hw.tumbling(10), s=hw.sum("v"), keys=["k"], where=hw.col("v") > 0),
    "sessions": hw.query("sessions", hw.session(3), s=hw.sum("v"), keys=["k"]),
    "late": hw.query("late", hw.tumbling(10), s=hw.sum("v"), keys=["k"], lateness=15),
    "raw": hw.query("raw", hw.punctuated(hw.col("v") == 1), n=hw.count()),
}


def stream(dice: Random, begin: int, size: int, keys: int, disorder: int, has_nulls: bool) -> pa.RecordBatch:
    times = sorted(begin + dice.randrange(60) for _ in range(size))
    rows = [
        {
            "time": None if has_nulls and not dice.randrange(20) else time - dice.randrange(disorder + 1),
            "k": None if has_nulls and not dice.randrange(9) else dice.randrange(keys),
            "v": dice.choice([-3, 1, 2, 1 << 60]),
            "x": dice.choice([0.1, -0.0, 1e300]),
            "name": dice.choice("ab"),
        }
        for time in times
    ]
    return pa.RecordBatch.from_pylist(rows, STREAM)


@given(
    st.sets(st.sampled_from(sorted(ASKED)), min_size=1, max_size=3),
    st.integers(0, 2**32),
    st.sampled_from([3, 30, 150]),
    st.sampled_from([1, 3, 70_000]),
    st.sampled_from([0, 0, 4]),
    st.booleans(),
)
def test_stretches_of_a_batch_give_what_each_of_them_gives_by_itself(
    names: set[str], seed: int, size: int, keys: int, disorder: int, has_nulls: bool
):
    dice = Random(seed)
    root = RootHalf([ASKED[name] for name in sorted(names)], Role(False, round_trips=False), disorder=0)
    root.check(STREAM)
    standing = [Standing("s", "home", 0, NEVER, 0, NEVER)]
    together, apart = (LeafHalf(root.query_set(), "c", standing, NEVER, NEVER, CountLimits()) for _ in range(2))
    offset = 0
    for begin in (0, dice.choice([30, 70])):
        batch = stream(dice, begin, size, keys, disorder, has_nulls)
        ends = sorted({dice.randrange(1, size + 1) for _ in range(dice.randrange(4))})
        begun = 0
        walk = together.take_in_stretches("s", offset, batch, ends, times_of(batch, "time", "us"))
        for end in (*ends, size):
            next(walk)
            apart.take_in("s", offset + begun, batch.slice(begun, end - begun), None)
            begun = end
            if dice.randrange(3) or end < size:
                (moved, parts), (wanted_moves, wanted) = together.take(), apart.take()
                assert [part_to_bytes(part) for part in parts] == [part_to_bytes(part) for part in wanted]
                assert moved == wanted_moves
        offset += size
