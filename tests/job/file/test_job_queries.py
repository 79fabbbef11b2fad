"""Queries of a job in a file of their own: the lines are those of that file."""

import pytest

from headwater.job.file.job_file import load_job
from headwater.job.file.problems import JobError

JOB = "headwater: 1\nsource: events\nqueries: other.yaml\nsinks: {n: out}\n"
QUERIES = """\
headwater: 1
queries:
  - name: n
    window: {type: tumbling, size: 1 s}
    aggregates:
      n: {function: count}
"""


@pytest.fixture
def load(tmp_path):
    def write(queries):
        (tmp_path / "job.yaml").write_text(JOB)
        if queries is not None:
            (tmp_path / "other.yaml").write_text(queries)
        return load_job(tmp_path / "job.yaml")

    return write


def test_queries_may_be_in_a_file_beside_the_job(load):
    assert [query.name for query in load(QUERIES).queries] == ["n"]


@pytest.mark.parametrize(("queries", "told"), [
    (None, "job.yaml:3:10: queries is 'other.yaml': there is no such file; name one beside the job file, such as queries.yaml"),
    (QUERIES.replace("headwater: 1", "headwater: 3"), "other.yaml:1:1: a file of queries is written as headwater: 1 and "
     "queries: [...]"),
    ("[]", "other.yaml:1:1: a file of queries is written as headwater: 1 and queries: [...]"),
    (QUERIES.replace("size: 1 s", "size: 0"), "other.yaml:4:36: query 'n': window.size is 0: give a duration above 0"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_file(load, tmp_path, queries, told):
    with pytest.raises(JobError) as caught:
        load(queries)
    assert str(caught.value.problems[0]).replace(f"{tmp_path}/", "").startswith(told)
