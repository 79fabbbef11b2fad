"""What a page is told, piece by piece: the last windows against a slow twin, reasons, and what is new."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.page.board import Reason
from headwater.page.feed import DRAWN, POINTS_KEPT, PageFeed, Seen, as_message
from headwater.page.last_windows import LastWindows, last_of_each
from headwater.page.reasons import OTHERS, REASONS_MAX, Reasons
from page.boards import MadeUpBoard

NAMES = ("a", "b", "c")
QUERIES = {name: hw.query(name, hw.tumbling(10), keys=["k"], lateness=5, n=hw.count()) for name in NAMES}
rows = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 4), st.sampled_from("xy"), st.integers(0, 99)), max_size=30
)


def table(drawn, revisions) -> pa.Table:
    columns = zip(*drawn) if drawn else ([], [], [], [])
    names, windows, keys, counts = map(list, columns)
    return pa.table(
        {
            "query": pa.array(names, pa.string()),
            "window_start": pa.array([10 * number for number in windows], pa.int64()),
            "window_end": pa.array([10 * number + 10 for number in windows], pa.int64()),
            "k": pa.array(keys, pa.string()),
            "n": pa.array(counts, pa.int64()),
            "event_count": pa.array(counts, pa.int64()),
            "revision": pa.array(revisions, pa.int64()),
        }
    )


@given(st.lists(rows, max_size=5), st.integers(1, 12))
def test_the_last_windows_are_those_of_a_slow_twin(batches, kept):
    last = LastWindows(rows_kept=kept)
    told: dict[str, list] = {name: [] for name in NAMES}
    for drawn in batches:
        last.take(table(drawn, range(len(drawn))), QUERIES)
        for name, *row in drawn:
            told[name].append(row)
    expected = {}
    for name, all_rows in told.items():
        newest = {}
        for window, key, count in all_rows[-kept:]:
            newest.pop((window, key), None)
            newest[window, key] = (10 * window, 10 * window + 10, key, count)
        if newest:
            expected[name] = tuple(sorted(newest.values(), key=lambda row: (row[1], row[0])))
    assert {each.query: each.rows for each in last.tables(0)} == expected


@given(rows, st.integers(1, 5))
def test_the_last_of_each_are_the_last_of_each(drawn, count):
    whole = table(drawn, range(len(drawn)))
    found = {name: mine["revision"].to_pylist() for name, mine in last_of_each(whole, count)}
    named = {name for name, *_ in drawn}
    assert found == {name: [at for at, row in enumerate(drawn) if row[0] == name][-count:] for name in named}


def test_only_what_has_changed_is_told_again():
    last = LastWindows()
    last.take(table([("a", 0, "x", 1), ("b", 0, "x", 2)], [0, 0]), QUERIES)
    seen = max(each.version for each in last.tables(0))
    assert last.tables(seen) == []
    last.take(table([("b", 1, "x", 3)], [0]), QUERIES)
    (changed,) = last.tables(seen)
    assert (changed.query, len(changed.rows)) == ("b", 2)


def test_queries_that_are_read_anew_keep_their_windows_and_others_lose_them():
    last = LastWindows()
    last.take(table([("a", 0, "x", 1), ("b", 0, "x", 2)], [0, 0]), QUERIES)
    same = {"a": hw.query("a", hw.tumbling(10), keys=["k"], lateness=5, n=hw.count())}
    last.take(table([("a", 1, "x", 3)], [0]), same)
    (kept,) = last.tables(0)
    assert (kept.query, [row[-1] for row in kept.rows]) == ("a", [1, 3])
    last.take(table([("a", 2, "x", 4)], [0]), {"a": hw.query("a", hw.tumbling(20), keys=["k"], n=hw.count())})
    (kept,) = last.tables(0)
    assert [row[-1] for row in kept.rows] == [4]


@pytest.mark.parametrize("type_", [pa.int64(), pa.timestamp("us"), pa.timestamp("ns", "UTC")], ids=str)
def test_a_window_that_another_replaces_is_gone(type_):
    sessions = {"s": hw.query("s", hw.session("5 s"), n=hw.count())}
    replaces = pa.list_(pa.struct([("window_start", type_), ("window_end", type_), ("revision", pa.int64())]))
    old = [{"window_start": start, "window_end": start + 6, "revision": 0} for start in (0, 8)]
    bounds = {"window_start": pa.array([0, 8, 0], type_), "window_end": pa.array([6, 14, 14], type_)}
    columns = {"query": ["s"] * 3, **bounds, "n": [2, 3, 6]}
    told = pa.table(
        {**columns, "event_count": [2, 3, 6], "revision": [0, 0, 1], "replaces": pa.array([None, None, old], replaces)}
    )
    last = LastWindows()
    last.take(told, sessions)
    assert [row[2] for row in last.tables(0)[0].rows] == [6]


def test_values_that_json_cannot_say_are_texts():
    query = {"v": hw.query("v", hw.tumbling(10), low=hw.min("x"), all=hw.collect("x"))}
    columns = {
        "query": ["v"],
        "window_start": [0],
        "window_end": [10],
        "low": [float("-inf")],
        "all": [[1.5, float("nan")]],
    }
    last = LastWindows()
    last.take(pa.table({**columns, "event_count": [2], "revision": [0]}), query)
    (told,) = last.tables(0)
    assert told.rows == ((0, 10, "-inf", "[1.5, nan]"),)
    board = MadeUpBoard()
    board.tables.append(told)
    assert b"-inf" in as_message(PageFeed(board, lambda: 0).news()[0])


@given(st.lists(st.lists(st.sampled_from(["too late", "time is null", "load is text"]), max_size=9), max_size=5))
def test_reasons_are_counted_and_the_last_of_each_is_kept(batches):
    reasons, told = Reasons(), []
    for batch in batches:
        begin = len(told)
        told += [(reason, begin + at) for at, reason in enumerate(batch)]
        lines = [
            {"reason": reason, "source": "s", "offset": begin + at, "event": "{}"} for at, reason in enumerate(batch)
        ]
        reasons.take([pa.Table.from_pylist(lines)] if lines else [])
    expected = {reason: Reason(reason, 0, "s", offset, "{}") for reason, offset in told}
    found = {each.reason: each for each in reasons.found()}
    assert {name: (each.offset, each.source) for name, each in found.items()} == {
        name: (each.offset, "s") for name, each in expected.items()
    }
    assert sum(each.count for each in found.values()) == len(told)
    assert [each.count for each in reasons.found()] == sorted((each.count for each in found.values()), reverse=True)


def test_reasons_without_end_are_counted_together():
    reasons = Reasons()
    lines = [{"reason": f"load is {n}", "source": None, "offset": None, "event": "x" * 500} for n in range(100)]
    reasons.take([pa.Table.from_pylist(lines)])
    found = reasons.found()
    assert len(found) == REASONS_MAX + 1
    assert (found[0].reason, found[0].count, len(found[0].event)) == (OTHERS, 100 - REASONS_MAX, 160)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_whoever_asks_often_or_seldom_is_told_the_same_points(pauses):
    board = MadeUpBoard()
    feed = PageFeed(board, iter(range(0, 10**9, 1000)).__next__)
    seen: Seen | None = None
    told = []
    for pause in (*pauses, 1):
        for _ in range(pause):
            feed.look()
        news, seen = feed.news(seen)
        told += news["points"]
    assert told == feed.news()[0]["points"]
    assert all(len(point) == 1 + len(DRAWN) for point in told)


def test_a_feed_forgets_what_is_long_ago():
    feed = PageFeed(MadeUpBoard(), lambda: 0)
    _, seen = feed.news()
    for _ in range(POINTS_KEPT + 5):
        feed.look()
    assert len(feed.news(seen)[0]["points"]) == len(feed.news()[0]["points"]) == POINTS_KEPT


@pytest.mark.parametrize("unit", ["us", None])
def test_a_query_says_what_it_asks_in_every_kind_of_window(unit):
    from headwater.demo.queries import queries
    from headwater.language.notebooks.words import query_in_words

    for query in queries():
        assert query_in_words(query.resolved("us") if unit else query, unit) == query_in_words(query)
