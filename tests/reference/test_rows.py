"""The reference against itself: what must hold of any oracle, and the small cases a reader can do in the head."""

import math
import random
from collections import Counter
from decimal import Decimal
from statistics import median as plain_median

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.language import aggregations as agg
from headwater.language.expressions import col
from headwater.language.query import Query, query
from headwater.language.windows import between, count_tumbling, punctuated, session, sliding, tumbling
from headwater.reference.aggregates import value_of
from headwater.reference.history import Added, Advanced, Arrived, Emit, Flushed, StreamSettings
from headwater.reference.rows import Row, counters, emissions, identity, story
from headwater.reference.rows import rows as reference_rows
from strategies import FLOATS, INTEGERS, Scenario, queries, rows, scenarios


def history_of(events, *, source="a", then=()):
    """Events as (time, x), one source, then more steps."""
    return [Arrived(source, offset, {"time": time, "x": x}) for offset, (time, x) in enumerate(events)] + list(then)


def windows_of(window, events, watermark=None, **options):
    """The windows of one query that collects `x`: {(start, end): xs}."""
    last = [Flushed()] if watermark is None else [Advanced("a", watermark)]
    settings = StreamSettings((query("q", window, xs=agg.collect("x"), **options),))
    found = reference_rows(settings, history_of(events, then=last))
    return {place[3:]: row.values["xs"] for place, row in found.items()}


def test_a_sliding_window_takes_every_start_that_covers_the_event():
    assert windows_of(sliding(10, 4), [(0, 1), (9, 2)]) == {
        (-8, 2): [1],
        (-4, 6): [1],
        (0, 10): [1, 2],
        (4, 14): [2],
        (8, 18): [2],
    }


def test_a_window_closes_when_its_end_reaches_the_watermark():
    assert windows_of(tumbling(10), [(9, 1), (10, 2)], watermark=9) == {}
    assert windows_of(tumbling(10), [(9, 1), (10, 2)], watermark=10) == {(0, 10): [1]}


def test_a_session_closes_only_above_its_end():
    assert windows_of(session(10), [(0, 1), (10, 2)], watermark=20) == {}
    assert windows_of(session(10), [(0, 1), (10, 2)], watermark=21) == {(0, 20): [1, 2]}


def test_a_marker_closes_the_window_before_at_its_own_time():
    marker = punctuated(col("x") == 0)
    assert windows_of(marker, [(1, 5), (4, 0), (4, 6)], watermark=4) == {(1, 4): [5]}
    assert windows_of(marker, [(1, 5), (4, 0), (4, 6), (9, 0)]) == {(1, 4): [5], (4, 9): [0, 6]}


def test_markers_of_one_instant_give_one_window():
    window = between(col("x") == 1, col("x") == 2)
    assert windows_of(window, [(5, 1), (5, 2), (5, 1), (5, 2)]) == {(5, 5): [1, 2, 1, 2]}


def test_count_windows_follow_the_order_and_not_the_arrival():
    assert windows_of(count_tumbling(2), [(5, "b"), (1, "a"), (9, "c")]) == {(0, 2): ["a", "b"]}


def test_sources_order_as_utf8_bytes():
    settings = StreamSettings((query("q", tumbling(10), xs=agg.collect("x")),))
    sources = ["\U0001f600", "\uffff", "b", "a"]
    history = [Arrived(source, 0, {"time": 1, "x": source}) for source in sources] + [Flushed()]
    [row] = reference_rows(settings, history).values()
    assert row.values["xs"] == sorted(sources, key=str.encode)


def test_an_added_query_sees_nothing_before_its_time():
    late = query("late", session(10), n=agg.count())
    history = history_of([(1, 1), (5, 1)], then=[Added(late, 6), Arrived("a", 2, {"time": 8, "x": 1}), Flushed()])
    assert list(reference_rows(StreamSettings(()), history)) == [("late", (), "", 8, 18)]


def test_a_vanished_window_is_taken_back():
    # Late: the event at 4 starts a window at 4 that ends with 5; what began at 5 and ended at 9 is no window any more.
    window = between(col("x") == 1, col("x") == 2)
    settings = StreamSettings((query("q", window, lateness=100, n=agg.count()),))
    first = history_of([(5, 1), (9, 2)], then=[Advanced("a", 20)])
    second = [Arrived("a", 2, {"time": 5, "x": 2}), Arrived("a", 3, {"time": 4, "x": 1}), Advanced("a", 21)]
    before, after = emissions(settings, first + second)
    assert [(row.start, row.end, row.revision) for row in before] == [(5, 9, 0)]
    taken, new = sorted(after, key=lambda row: row.event_count)
    assert (new.start, new.end, new.revision, new.replaces) == (4, 5, 0, None)
    assert (taken.start, taken.end, taken.event_count, taken.values) == (5, 9, 0, {"n": None})
    assert (taken.revision, taken.replaces) == (1, ((5, 9, 0),))


@given(scenarios())
def test_what_was_emitted_adds_up_to_what_holds(scenario: Scenario):
    """Whoever applies every emission, in order, holds exactly the reference's rows."""
    live = {each.name for each in scenario.settings.queries}
    held: dict[tuple, tuple] = {}
    steps = list(story(scenario.settings, scenario.history))
    for _, emitted in steps:
        for row in emitted:
            for start, end, revision in row.replaces or ():
                assert held.get((row.query, row.key, row.node, start, end), (None, revision))[1] == revision
        for row in emitted:
            for start, end, _ in row.replaces or ():
                held.pop((row.query, row.key, row.node, start, end), None)
        for row in emitted:
            is_gone = row.replaces == ((row.start, row.end, row.revision - 1),)
            if not is_gone:
                held[row.query, row.key, row.node, row.start, row.end] = (row, row.revision)
    shown = scenario.history[: steps[-1][0] + 1] if steps else []
    now = reference_rows(scenario.settings, shown)
    live = {place[0] for place in now}
    assert {place for place in held if place[0] in live} == set(now)
    for place, row in now.items():
        assert identity(held[place][0].values) == identity(row.values)
        assert held[place][0].event_count == row.event_count


@given(scenarios())
def test_revisions_count_up(scenario: Scenario):
    last: dict[tuple, int] = {}
    for emitted in emissions(scenario.settings, scenario.history):
        for row in emitted:
            place = (row.query, row.key, row.node, row.start, row.end)
            assert row.revision >= last.get(place, -1) + 1
            last[place] = row.revision


@given(scenarios())
def test_every_event_is_counted_once(scenario: Scenario):
    arrived = sum(isinstance(step, Arrived) for step in scenario.history)
    for name, counts in counters(scenario.settings, scenario.history).items():
        total = counts.pop("in")
        assert sum(counts.values()) == total
        if name in {each.name for each in scenario.settings.queries} and not _is_changed(scenario, name):
            assert total == arrived


def _is_changed(scenario: Scenario, name: str) -> bool:
    return any(getattr(step, "name", None) == name for step in scenario.history)


@given(st.lists(rows(bad_times=False), max_size=20), queries(), st.randoms(use_true_random=False))
def test_arrival_does_not_matter_while_nothing_is_late(events: list[dict], asked: Query, chance: random.Random):
    settings = StreamSettings((asked,))
    sources = [chance.choice("abc") for _ in events]
    arrivals = [Arrived(source, n, row, f"node {source}") for n, (source, row) in enumerate(zip(sources, events))]
    shuffled = chance.sample(arrivals, len(arrivals))
    expected = reference_rows(settings, [*arrivals, Flushed()])
    assert _same(reference_rows(settings, [*shuffled, Flushed()]), expected)


@given(st.lists(rows(bad_times=False), max_size=20), queries(), st.integers(1, 10))
def test_watermarks_do_not_matter_while_nothing_is_late(events: list[dict], asked: Query, every: int):
    settings = StreamSettings((asked,))
    events = sorted(events, key=lambda row: row["time"])
    batch = [Arrived("a", offset, row) for offset, row in enumerate(events)]
    stream = []
    for offset, arrival in enumerate(batch):
        stream.append(arrival)
        if offset % every == 0:
            stream.append(Advanced("a", arrival.row["time"]))
    stepwise = reference_rows(settings, [*stream, Flushed()])
    if not asked.emit_empty:
        assert _same(stepwise, reference_rows(settings, [*batch, Flushed()]))


@given(st.lists(rows(bad_times=False), max_size=20), st.integers(1, 12), st.randoms(use_true_random=False))
def test_sessions_that_overlap_are_the_global_sessions(events: list[dict], gap: int, chance: random.Random):
    """Disco's merge of local sessions loses nothing: chains of chains are the chains of all events."""
    arrivals = [Arrived(source := chance.choice("abc"), n, row, source) for n, row in enumerate(events)]
    by_scope = {
        scope: reference_rows(
            StreamSettings((query("q", session(gap), keys=["k"], scope=scope, xs=agg.collect("i")),)),
            [*arrivals, Flushed()],
        )
        for scope in ("global", "overlap")
    }
    assert _same(by_scope["overlap"], by_scope["global"])


@given(st.lists(rows(bad_times=False), max_size=20), queries(scopes=("global",)))
def test_on_one_node_scope_node_is_the_global_answer(events: list[dict], asked: Query):
    assume(not asked.window.is_context or asked.scope == "global")
    history = [*(Arrived("a", n, row, "home") for n, row in enumerate(events)), Flushed()]
    alone = query("q", asked.window, keys=asked.keys, scope="node", **dict(asked.aggregates))
    together = query("q", asked.window, keys=asked.keys, **dict(asked.aggregates))
    found = reference_rows(StreamSettings((alone,)), history)
    renamed = {(name, key, "", *bounds): row for (name, key, _, *bounds), row in found.items()}
    assert _same(renamed, reference_rows(StreamSettings((together,)), history))


def _same(left: dict[tuple, Row], right: dict[tuple, Row]) -> bool:
    return set(left) == set(right) and all(identity(left[place]) == identity(right[place]) for place in left)


def values(function, column_values, **options):
    return value_of(getattr(agg, function)("x", **options), [{"x": value} for value in column_values])


@given(st.lists(FLOATS.filter(math.isfinite), min_size=1, max_size=20))
def test_float_sums_are_those_of_fsum(numbers: list[float]):
    assert values("sum", numbers) == math.fsum(numbers)
    assert values("min", numbers) == min(numbers)
    assert values("median", numbers) == pytest.approx(plain_median(numbers))


@given(st.lists(INTEGERS, min_size=1, max_size=20))
def test_integer_sums_are_exact_or_null(numbers: list[int]):
    total = sum(numbers)
    assert values("sum", numbers) == (total if -(2**63) <= total < 2**63 else None)
    assert values("avg", numbers) == total / len(numbers)
    assert values("mode", numbers) == min(
        n for n, count in Counter(numbers).items() if count == max(Counter(numbers).values())
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(0, 1))
def test_quantile_and_variance_are_close_to_numpy(numbers: list[float], q: float):
    assert values("quantile", numbers, q=q) == pytest.approx(np.quantile(numbers, q), rel=1e-9, abs=1e-9)
    assert values("variance", numbers) == pytest.approx(np.var(numbers, ddof=1), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("function", "numbers", "expected"),
    [
        ("sum", [], None),
        ("sum", [1e308, 1e308, -1e308], 1e308),
        ("sum", [1.7e308, 1.7e308], math.inf),
        ("sum", [math.inf, -math.inf], math.nan),
        ("sum", [math.inf, 1.0], math.inf),
        ("sum", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
        ("sum", [Decimal(10**37), Decimal(9 * 10**37)], None),
        ("avg", [1.7e308, 1.7e308], 1.7e308),
        ("avg", [2**63 - 1, 2**63 - 1], float(2**63)),
        ("max", [1.0, math.nan], math.nan),
        ("min", [1.0, math.nan], 1.0),
        ("value_range", [-(2**63), 2**63 - 1], None),
        ("variance", [1.0], None),
        ("variance", [1e200, 1e200, 1e200], 0.0),
        ("variance", [1e200, -1e200], math.inf),
        ("variance", [1.0, math.inf], math.nan),
        ("stddev", [1.0, 3.0], math.sqrt(2.0)),
        ("product", [2**62, 2], None),
        ("product", [2**62, 2, 0], 0),
        ("product", [1e200, 1e200, 1e-300], 1e100),
        ("product", [1e-300, 1e-300, math.inf], math.inf),
        ("product", [0.0, math.inf], math.nan),
        ("geometric_mean", [2.0, 8.0], 4.0),
        ("geometric_mean", [0.0, 8.0], 0.0),
        ("count", [None, 1], 1),
        ("count_distinct", [math.nan, math.nan, 1.0], 2),
        ("collect", [], []),
        ("first", [None, 3, 4], 3),
        ("last", [3, 4, None], 4),
        ("mode", [2, 1, 2, 1, 3], 1),
    ],
)
def test_aggregates_of_few_or_odd_values_are_as_defined(function, numbers, expected):
    found = values(function, numbers)
    assert identity(found) == identity(expected) or found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("method", "expected"), [("lower", 2), ("upper", 3), ("nearest", 3), ("linear", 2.5)])
def test_the_median_follows_its_method(method, expected):
    assert values("median", [4, 1, 3, 2], method=method) == expected


def test_emit_shows_what_a_disorder_bound_closed():
    settings = StreamSettings((query("q", tumbling(10), n=agg.count()),), disorder=0)
    history = [*history_of([(1, 1), (11, 1)]), Emit(), Emit()]
    assert [(index, len(found)) for index, found in story(settings, history)] == [(2, 1)]
