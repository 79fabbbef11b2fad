"""The command line as a stranger meets it."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli import app
from headwater.logs import Log

CASE = {
    "id": "own-tumbling-sum",
    "kind": "stream",
    "windows": [{"type": "tumbling", "measure": "time", "size": 10}],
    "aggregation": "sum",
    "events": [[1, 1], [5, 2], [12, 4]],
    "watermarks": [{"after": 3, "ts": 20}],
    "expected": [
        {"watermark": 0, "window": 0, "start": 0, "end": 10, "value": 3},
        {"watermark": 0, "window": 0, "start": 10, "end": 20, "value": 4},
    ],
    "complete": True,
}


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def case_file(tmp_path):
    def write(**changes):
        path = tmp_path / "cases.json"
        path.write_text(json.dumps({"cases": [{**CASE, **changes}]}))
        return path

    return write


def test_help_lists_every_command():
    assert all(command in invoke("--help").output for command in ("check", "demo", "bench"))
    assert all(command in invoke("bench", "--help").output for command in ("engine", "sharing"))


@pytest.mark.parametrize("host", ["reference", "engine"])
def test_check_passes_a_right_case(case_file, host):
    result = invoke("check", case_file(), "--on", host)
    assert result.exit_code == 0, result.output
    assert "1 passed, 0 failed, 0 skipped" in result.output


def test_check_shows_what_was_expected_and_what_came(case_file):
    wrong = [{**CASE["expected"][0], "value": 99}, CASE["expected"][1]]
    result = invoke("check", case_file(expected=wrong))
    assert result.exit_code == 1
    assert "0 passed, 1 failed, 0 skipped" in result.output
    assert "99" in result.output


def test_check_names_a_file_that_is_not_there():
    result = invoke("check", "nowhere.json")
    assert result.exit_code == 2
    assert "nowhere.json" in result.output


def test_demo_shows_each_query_and_where_every_event_went():
    result = invoke("demo", "--on", "engine", "--events", 20_000, "--seed", 3)
    assert result.exit_code == 0, result.output
    assert all(word in result.output for word in ("average", "active", "tail", "peak", "malformed", "M events/s"))


def test_without_java_the_demo_says_so_and_runs_on_the_engine(monkeypatch, tmp_path):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = invoke("demo", "--events", 20_000)
    assert result.exit_code == 0, result.output
    assert "where there is no bin/java, and Spark needs Java 17" in result.output
    assert "M events/s" in result.output


def test_check_on_spark_without_java_is_one_sentence(monkeypatch, tmp_path, case_file):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = invoke("check", case_file(), "--on", "spark")
    assert result.exit_code == 2
    assert result.output.count("\n") == 1


def test_the_demo_replaces_nothing_but_its_own(tmp_path):
    pytest.importorskip("pyspark")
    (tmp_path / "thesis.tex").touch()
    result = invoke("demo", "--out", tmp_path)
    assert result.exit_code == 2
    assert "holds 'thesis.tex', which is not of this demo: name another folder with --out" in result.output


def test_a_log_of_version_1_is_upgraded(tmp_path):
    shutil.copytree(Path(__file__).parent / "golden" / "log", tmp_path / "log")
    assert Log.open(tmp_path / "log").id is None
    result = invoke("upgrade", str(tmp_path / "log"))
    assert result.exit_code == 0
    assert Log.open(tmp_path / "log").id in result.output
    assert "there is no log here" in invoke("upgrade", str(tmp_path)).output


def test_the_demo_leaves_its_rows_in_no_folder_named_like_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("demo", "--out", "s3://bucket/rows")
    assert result.exit_code == 2
    assert "s3:// is not served; give a folder of this machine" in result.output
    assert not list(tmp_path.iterdir())
