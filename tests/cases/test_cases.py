"""The cases of the originals (Scotty, Disco, the papers) on every host, and the command that runs them."""

import random

import pytest

from case_files import CASES, FILES, WRONG_CASE
from headwater.cases import HOSTS, check_files, run_case
from headwater.cases.stream import history_of, settings_of
from headwater.reference.history import Arrived
from headwater.reference.rows import identity, rows


@pytest.mark.parametrize("host", sorted(HOSTS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_gives_its_expected_rows(case, host):
    outcome = run_case(case, HOSTS[host])
    assert outcome.status == "passed", f"\n{outcome.text}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "stream"], ids=lambda case: case["id"])
def test_arrival_and_nodes_of_a_case_do_not_matter(case, seed):
    """Between two watermarks events may arrive in any order, from any node: time, source and offset decide."""
    chance = random.Random(seed)
    settings, history = settings_of(case), list(history_of(case))
    shuffled, run = [], []
    for step in [*history, None]:
        if isinstance(step, Arrived):
            run.append(Arrived(step.source, step.offset, step.row, chance.choice(["", "one", "two"])))
            continue
        shuffled += [*chance.sample(run, len(run)), *([] if step is None else [step])]
        run = []
    assert identity(rows(settings, shuffled)) == identity(rows(settings, history))


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_check_ends_with_the_totals(host):
    lines: list[str] = []
    assert check_files(FILES, host, lines.append) == 0
    assert lines[-1] == f"{len(CASES)} passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_a_failing_case_is_shown_as_a_table(host):
    outcome = run_case(WRONG_CASE, HOSTS[host])
    assert outcome.status == "failed"
    assert outcome.text.splitlines() == [
        "window  start  end  key  expected  actual",
        "0       0      10        3 @1      3 @0",
        "0       20     30        9 @1      -",
        "0       10     20        -         4 @1",
    ]


def test_a_subset_may_leave_rows_out():
    expected = [{"watermark": 0, "window": 0, "start": 0, "end": 10, "value": 3}]
    assert run_case(WRONG_CASE | {"complete": False, "expected": expected}, HOSTS["reference"]).status == "passed"
    assert run_case(WRONG_CASE | {"expected": expected}, HOSTS["reference"]).status == "failed"


def test_a_window_that_comes_too_early_fails():
    partial = {"node": 0, "window": 0, "start": 0, "end": 10, "value": 1}
    case = {
        "id": "early",
        "kind": "merge",
        "windows": [WRONG_CASE["windows"][0] | {"id": 0}],
        "aggregation": "sum",
        "partials": [partial, partial | {"start": 10, "end": 20}],
        "expected": [{"window": 0, "start": s, "end": s + 10, "value": 1, "emitted_after_partial": 2} for s in (0, 10)],
    }
    outcome = run_case(case, HOSTS["reference"])
    assert outcome.status == "failed"
    assert outcome.text.splitlines()[1].split() == ["0", "0", "10", "1", "1", "@1"]


def test_what_cannot_be_read_is_a_failure(tmp_path):
    lines: list[str] = []
    path = tmp_path / "broken.json"
    path.write_text("{")
    assert check_files([path], "reference", lines.append) == 1
    assert "cannot be read as JSON" in lines[0]
    assert lines[-1] == "0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    "broken",
    [
        {"windows": [{"type": "spiral", "measure": "time"}]},
        {"aggregation": "mystery"},
        {"windows": [{"type": "tumbling", "measure": "time"}]},
        {"events": [[1]]},
    ],
)
def test_a_case_that_makes_no_sense_fails_with_the_reason(broken):
    outcome = run_case(WRONG_CASE | broken, HOSTS["reference"])
    assert outcome.status == "failed"
    assert ": " in outcome.text
