"""Figures as people and programs read them."""

import io
import json

from headwater.bench.common.report import Report, at_least, at_most


def test_json_has_one_object_per_line_with_bench_figure_value_unit():
    out = io.StringIO()
    report = Report("engine", as_json=True, out=out)
    report.add("scan_ratio_int", 0.5, "ratio", at_least(0.35), "a note is for people")
    report.add("rows", 40_000, "rows")
    report.close()
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"bench": "engine", "figure": "scan_ratio_int", "value": 0.5, "unit": "ratio"},
        {"bench": "engine", "figure": "rows", "value": 40_000, "unit": "rows"},
    ]


def test_a_quick_run_says_so_and_judges_nothing():
    out = io.StringIO()
    report = Report("engine", quick=True, as_json=True, out=out)
    report.add("memory_growth", 2.0, "ratio", at_most(1.1))
    assert json.loads(out.getvalue())["quick"] is True
    assert report.failed == []


def test_a_figure_beyond_its_bound_fails_and_one_on_it_passes():
    report = Report("engine", out=io.StringIO())
    report.add("scan", 0.12, "ratio", at_least(0.12))
    report.add("cost", 1.01, "ratio", at_most(1.0))
    report.close()
    assert [figure.name for figure in report.failed] == ["cost"]
    assert "1 of 2 figures miss their bound" in report.out.getvalue()
