"""`headwater check --on spark-stream`: all cases of a file in one stream."""

import json

import pytest

from case_files import CASES, FILES, WRONG_CASE
from headwater.cases import HOSTS, check_files, run_case
from headwater.cases.stream_host import run_cases

pytestmark = pytest.mark.spark

RIGHT = WRONG_CASE | {"id": "right", "expected": [{"window": 0, "start": 0, "end": 10, "value": 3}], "complete": False}


def test_cases_of_all_kinds_are_one_stream(spark):
    added = {"type": "tumbling", "measure": "time", "size": 5, "added_after": 2, "active_from": 20}
    nodes = {
        "id": "two nodes",
        "kind": "stream",
        "windows": [WRONG_CASE["windows"][0], added, {"type": "punctuation", "measure": "time", "punctuation": 8}],
        "aggregation": "sum",
        "unkeyed": True,
        "events": [[1, 1, 0, 0], [2, 2, 0, 1], [21, 4, 0, 1], [24, 8, 0, 0]],
        "watermarks": [{"after": 2, "ts": 10}, {"after": 4, "ts": 40}],
        "expected": [
            {"watermark": 0, "window": 0, "start": 0, "end": 10, "value": 3},
            {"watermark": 1, "window": 0, "start": 20, "end": 30, "value": 12},
            {"watermark": 1, "window": 1, "start": 20, "end": 25, "value": 12},
            {"watermark": 1, "window": 2, "start": 1, "end": 24, "value": 7},
        ],
    }
    late = {
        "id": "late, by key",
        "kind": "stream",
        "windows": [WRONG_CASE["windows"][0], {"type": "tumbling", "measure": "count", "size": 2}],
        "aggregation": "avg",
        "events": [[1, 1.5, "a"], [3, 2.5, "b"], [12, 1.0, "a"], [2, 9.0, "a"]],
        "watermarks": [{"after": 3, "ts": 11}, {"after": 4, "ts": 30}],
        "expected": [
            {"watermark": 0, "window": 0, "start": 0, "end": 10, "key": "a", "value": 1.5},
            {"watermark": 0, "window": 0, "start": 0, "end": 10, "key": "b", "value": 2.5},
            {"watermark": 0, "window": 1, "start": 0, "end": 2, "key": "a", "value": 1.5},
            {"watermark": 0, "window": 1, "start": 0, "end": 2, "key": "b", "value": 2.5},
            {"watermark": 1, "window": 0, "start": 10, "end": 20, "key": "a", "value": 1.0},
        ],
        "dropped_index": [3],
    }
    merge = {
        "id": "partials of two nodes",
        "kind": "merge",
        "windows": [{"id": 0, "type": "tumbling", "measure": "time", "size": 10}],
        "aggregation": "sum",
        "partials": [
            {"node": 0, "window": 0, "start": 0, "end": 10, "value": 2},
            {"node": 1, "window": 0, "start": 0, "end": 10, "value": 5},
        ],
        "expected": [{"window": 0, "start": 0, "end": 10, "value": 7}],
    }
    cases = [nodes, RIGHT, late, merge]
    assert [run_case(case, HOSTS["reference"]).status for case in cases] == ["passed"] * 4
    outcomes = run_cases(spark, [*cases, WRONG_CASE])
    assert {outcome.id: outcome.text for outcome in outcomes if outcome.status != "passed"} == {
        "wrong": run_case(WRONG_CASE, HOSTS["reference"]).text
    }


def test_what_cannot_be_played_is_said_and_spoils_nothing_else(spark, tmp_path):
    nonsense = WRONG_CASE | {"id": "nonsense", "aggregation": "mystery"}
    path = tmp_path / "cases.json"
    path.write_text(
        json.dumps({"cases": [nonsense, RIGHT, WRONG_CASE | {"id": "empty", "events": [], "watermarks": []}]})
    )
    lines: list[str] = []
    assert check_files([path], "spark-stream", lines.append) == 1
    senseless, skipped, totals = lines
    assert senseless.startswith("FAILED nonsense\nFormatError: no aggregate is called 'mystery'")
    assert skipped == "SKIPPED empty: it has no events, so there is no source that a task could read"
    assert totals == "1 passed, 1 failed, 1 skipped"


@pytest.mark.slow(reason="kinds of cases are in the first test; all of them are played on four other hosts")
def test_every_case_passes_as_a_stream_on_spark(spark):
    lines: list[str] = []
    assert check_files(FILES, "spark-stream", lines.append) == 0, "\n".join(lines)
    assert lines[-1] == f"{len(CASES)} passed, 0 failed, 0 skipped"
