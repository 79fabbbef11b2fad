"""Variables of the environment: for secrets, by name, and never in silence."""

import pytest

from headwater.job.file.job_file import load_job
from headwater.job.file.problems import JobError

JOB = """\
headwater: 1
source: {type: kafka, servers: "broker:9092", topics: readings, options: {sasl.password: "${HW_PASSWORD}"}}
queries:
  - {name: n, window: {type: tumbling, size: 1 s}, aggregates: {n: {function: count}}}
sinks:
  n: {type: postgres, dsn: "postgresql://me:${HW_PASSWORD}@db/iot", table: n}
page: {port: 0, token: "${HW_PASSWORD}"}
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "job.yaml").write_text(text)
        return load_job("job.yaml")

    return write


def test_a_secret_is_not_in_what_is_loaded(load, monkeypatch):
    monkeypatch.setenv("HW_PASSWORD", "hunter2")
    assert "hunter2" not in repr(load(JOB).job)


def test_a_missing_variable_is_named_wherever_it_stands(load, monkeypatch):
    monkeypatch.delenv("HW_PASSWORD", raising=False)
    with pytest.raises(JobError) as caught:
        load(JOB)
    assert [problem.place.line for problem in caught.value.problems] == [2, 6, 7]
    assert all("the variable HW_PASSWORD is not set" in problem.sentence for problem in caught.value.problems)


@pytest.mark.parametrize(("wrong", "told"), [
    ("x${HW_PASSWORD}", "here a variable is the whole value: write ${NAME} alone"),
    ("${HW-PASSWORD}", "a variable is written ${NAME}, of letters, digits and _"),
    ("${HW_PASSWORD", "a variable is written ${NAME}, of letters, digits and _"),
])  # fmt: skip
def test_a_variable_has_one_form(load, monkeypatch, wrong, told):
    monkeypatch.setenv("HW_PASSWORD", "hunter2")
    with pytest.raises(JobError) as caught:
        load(JOB.replace('sasl.password: "${HW_PASSWORD}"', f'sasl.password: "{wrong}"'))
    assert str(caught.value).endswith(told)


def test_queries_have_no_variables(load, monkeypatch):
    monkeypatch.setenv("HW_PASSWORD", "hunter2")
    with pytest.raises(
        JobError, match=r"4:12: queries\[0\].name is '\$\{HW_PASSWORD\}': variables are for secrets only"
    ):
        load(JOB.replace("{name: n,", '{name: "${HW_PASSWORD}",').replace("  n: {type", '  "${HW_PASSWORD}": {type'))
