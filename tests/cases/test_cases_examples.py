"""A case by hand: what it is read as, what a host makes of it, and what a failure looks like."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cases import HOSTS, explain_difference, run_case
from headwater.cases.differences import content_text
from headwater.cases.hosts import batches
from headwater.cases.stream import aggregation_of, expected_rows, history_of, marker_of, settings_of, window_of
from headwater.cases.tree_host import apart, as_one, in_random_tree
from headwater.errors import FormatError
from headwater.reference.history import Advanced, Arrived, Joined
from headwater.reference.rows import ResultRow

CASE: dict[str, Any] = {
    "id": "by-hand",
    "kind": "stream",
    "windows": [{"type": "tumbling", "measure": "time", "size": 10}],
    "aggregation": "sum",
    "events": [[1, 5, "k", 0], [4, 7, "k", 1], [6, 1, "k", 0]],
    "watermarks": [{"after": 3, "ts": 10}],
    "expected": [{"watermark": 0, "window": 0, "start": 0, "end": 10, "key": "k", "value": 13}],
}


def test_a_case_is_a_history_of_sources_that_join_events_and_watermarks() -> None:
    (query,) = settings_of(CASE).queries
    assert (query.name, query.keys) == ("0", ("key",))
    assert list(history_of(CASE)) == [
        Joined("0", "0"),
        Joined("1", "1"),
        Arrived("0", 0, {"time": 1, "value": 5, "key": "k"}, "0"),
        Arrived("1", 0, {"time": 4, "value": 7, "key": "k"}, "1"),
        Arrived("0", 1, {"time": 6, "value": 1, "key": "k"}, "0"),
        Advanced(None, 10),
    ]


def test_neighbouring_arrivals_of_a_source_are_one_batch() -> None:
    events = [[1, 5], [2, 6], [3, 7]]
    found = batches(list(history_of(CASE | {"events": events})))
    assert [[arrival.offset for arrival in arrivals] for _, _, arrivals in found] == [[], [0, 1, 2], []]


@pytest.mark.parametrize("host", ["reference", "engine", "tree"])
def test_each_host_plays_it_to_the_same_row(host: str) -> None:
    played = HOSTS[host].play(settings_of(CASE), list(history_of(CASE)))
    assert [(index, [(row.start, row.end, row.key, row.values) for row in rows]) for index, rows in played.emitted] == [
        (5, [(0, 10, ("k",), {"value": 13})])
    ]
    assert played.dropped == frozenset() and played.counters["0"]["member"] == 3


@pytest.mark.parametrize("host", ["reference", "engine", "tree"])
def test_each_host_finishes_an_aggregate_of_several_nodes(host: str) -> None:
    assert HOSTS[host].finish(aggregation_of("median"), [[1, 9], [5], []]) == 5
    assert HOSTS[host].sessions([(0, 4), (4, 9), (12, 15)], 2) == [[0, 1], [2]]


def test_a_wrong_row_fails_with_expected_and_actual_side_by_side() -> None:
    wrong = CASE | {"expected": [CASE["expected"][0] | {"value": 12}]}
    outcome = run_case(wrong, HOSTS["reference"])
    assert outcome.status == "failed"
    assert outcome.text.splitlines() == [
        "window  start  end  key  expected  actual",
        "0       0      10   k    12 @0     13 @0",
    ]


def test_a_row_whose_value_is_not_known_is_left_out() -> None:
    assert expected_rows(CASE | {"expected": [CASE["expected"][0] | {"value": None}]}) == []


def test_windows_markers_and_aggregates_are_named_in_words() -> None:
    assert repr(window_of({"type": "session", "measure": "time", "gap": 5})) == "Session(gap=5, max_duration=None)"
    assert repr(marker_of({"punctuation": 3})) == "(col('value') == 3)"
    with pytest.raises(FormatError, match="no window is of type and measure"):
        window_of({"type": "session", "measure": "count"})
    with pytest.raises(FormatError, match="no aggregate is called 'sun'"):
        aggregation_of("sun")


def test_sources_stand_together_apart_or_below_relays() -> None:
    assert as_one(["a", "b"]) == ({"leaf": "root"}, {"a": "leaf", "b": "leaf"})
    assert apart(["a", "b"]) == ({"leaf-0": "root", "leaf-1": "root"}, {"a": "leaf-0", "b": "leaf-1"})
    parents, leaves = in_random_tree(1)(["a", "b", "c"])
    assert set(leaves.values()) <= set(parents) and set(parents.values()) <= {"root", *parents}


def test_a_difference_names_the_window_and_what_either_side_says() -> None:
    row = ResultRow("load", 0, 10, (), {"n": 1}, 1)
    assert explain_difference([row], [row]) == ""
    assert content_text(row) in explain_difference([row], [])
