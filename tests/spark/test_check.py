"""`headwater check --on spark`: all cases of a file as one job."""

import json

import pytest

from case_files import CASES, FILES, WRONG_CASE
from headwater.cases import check_files
from headwater.cases.spark_host import run_cases

pytestmark = pytest.mark.spark


def test_every_case_passes_as_a_batch_on_spark(spark):
    lines: list[str] = []
    assert check_files(FILES, "spark", lines.append) == 0, "\n".join(lines)
    assert lines[-1] == f"{len(CASES)} passed, 0 failed, 0 skipped"


def test_what_failed_is_shown_and_spoils_nothing_else(spark, tmp_path):
    right = WRONG_CASE | {
        "id": "right",
        "expected": [{"window": 0, "start": 0, "end": 10, "value": 3}],
        "complete": False,
    }
    nonsense = WRONG_CASE | {"id": "nonsense", "aggregation": "mystery"}
    path = tmp_path / "cases.json"
    path.write_text(
        json.dumps(
            {"cases": [WRONG_CASE, right, nonsense, WRONG_CASE | {"id": "empty", "events": [], "watermarks": []}]}
        )
    )
    lines: list[str] = []
    assert check_files([path], "spark", lines.append) == 1
    wrong, senseless, skipped, totals = lines
    assert wrong.splitlines()[:3] == [
        "FAILED wrong",
        "window  start  end  key  expected  actual",
        "0       0      10        3 @1      3 @0",
    ]
    assert senseless.startswith("FAILED nonsense\nFormatError: no aggregate is called 'mystery'")
    assert skipped == "SKIPPED empty: it has no events, so there is no source that a task could read"
    assert totals == "1 passed, 2 failed, 1 skipped"


def test_cases_of_several_sources_and_added_queries_meet_in_one_job(spark):
    added = {"type": "tumbling", "measure": "time", "size": 5, "added_after": 2, "active_from": 20}
    case = {
        "id": "two nodes",
        "kind": "stream",
        "windows": [WRONG_CASE["windows"][0], added],
        "aggregation": "sum",
        "unkeyed": True,
        "events": [[1, 1, 0, 0], [2, 2, 0, 1], [21, 4, 0, 1], [24, 8, 0, 0]],
        "watermarks": [{"after": 2, "ts": 10}, {"after": 4, "ts": 40}],
        "expected": [
            {"watermark": 0, "window": 0, "start": 0, "end": 10, "value": 3},
            {"watermark": 1, "window": 0, "start": 20, "end": 30, "value": 12},
            {"watermark": 1, "window": 1, "start": 20, "end": 25, "value": 12},
        ],
    }
    assert [outcome.status for outcome in run_cases(spark, [case, WRONG_CASE])] == ["passed", "failed"]
