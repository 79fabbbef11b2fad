"""Mistakes in job files: each is said in one sentence with the file, the line, the field, the value and the right form."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.job.command import WRONG, run_job
from job.file.mistakes import JOB, MISTAKES, written

MORNING = datetime.datetime(2026, 1, 1, 6, tzinfo=datetime.UTC)


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Writes a job beside a folder of events and checks it; the exit code, and what is said on standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    times = [MORNING + datetime.timedelta(seconds=second) for second in range(3)]
    table = pa.table(
        {"at": pa.array(times, pa.timestamp("us", "UTC")), "house": ["a", "b", "a"], "load": [1.0, 2.0, 3.0]}
    )
    pq.write_table(table, tmp_path / "events" / "1.parquet")

    def run(text):
        (tmp_path / "job.yaml").write_text(text)
        code = run_job("job.yaml", check_only=True)
        return code, capsys.readouterr()

    return run


def test_the_job_is_in_order_before_any_mistake_is_planted(check):
    code, said = check(JOB)
    assert (code, said.err) == (0, "")
    assert said.out.startswith("job.yaml is in order: 2 queries in this process\n")


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_said_in_one_sentence(check, tmp_path, mistake):
    code, said = check(written(mistake))
    expected = [
        f"job.yaml:{each.replace('{folder}', str(tmp_path))}" for each in (mistake.sentence, mistake.also) if each
    ]
    assert (code, said.out) == (WRONG, "")
    assert sorted(said.err.splitlines()) == sorted(expected)


def test_there_are_at_least_twenty():
    assert len(MISTAKES) >= 20


def test_all_mistakes_are_said_at_once_in_the_order_of_their_lines(check):
    text = (
        JOB.replace("headwater: 1", "headwater: 2").replace("idle: 30 s", "idle: 30").replace("slide: 10 s", "slide: x")
    )
    code, said = check(text.replace("port: 9108", "port: high"))
    assert code == WRONG
    assert [sentence.split(":")[1] for sentence in said.err.splitlines()] == ["1", "5", "8", "20"]


def test_mistakes_that_only_the_world_shows_are_said_at_once(check):
    code, said = check(
        JOB.replace("column: load}\n  - name", "column: lode}\n  - name").replace('load, ">": 0', 'lod, ">": 0')
    )
    assert code == WRONG
    assert len(said.err.splitlines()) == 2
