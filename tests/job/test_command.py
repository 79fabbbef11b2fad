"""The commands of job files as a stranger meets them: init, run, schema, and which host is chosen."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from headwater.cli import app
from headwater.job import command, opening
from headwater.job.file.job_file import load_job
from headwater.job.file.problems import JobError
from headwater.job.opening import choose_host
from headwater.spark import doors
from headwater.spark.setup import SetupError
from headwater.spark.streaming.sinks.timeline import OtherStreamError

JOB = """\
headwater: 1
source: events
queries:
  - {name: n, window: {type: tumbling, size: 10}, aggregates: {n: {function: count}}}
sinks: {n: out}
"""


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Writes a job beside a folder with a file of events."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    pq.write_table(pa.table({"time": [1, 5, 12]}), tmp_path / "events" / "1.parquet")

    def write(more="", text=JOB):
        (tmp_path / "job.yaml").write_text(text + more)
        return tmp_path / "job.yaml"

    return write


@pytest.fixture
def no_java(monkeypatch):
    def refuse():
        raise SetupError("there is no Java")

    monkeypatch.setattr(opening, "check_java", refuse)


@pytest.fixture
def some_java(monkeypatch):
    monkeypatch.setattr(opening, "check_libraries", lambda: None)
    monkeypatch.setattr(opening, "check_java", lambda: None)


def test_what_init_writes_is_checked_and_would_run(job, tmp_path):
    written = invoke("init")
    assert written.exit_code == 0
    (tmp_path / "first.yaml").write_text(written.output)
    checked = invoke("run", "first.yaml", "--check")
    assert checked.exit_code == 0, checked.output
    assert "first.yaml is in order: 2 queries in this process" in checked.output
    assert not (tmp_path / "headwater-job").exists()


def test_run_writes_rows_and_ends_with_a_summary(job):
    ran = invoke("run", job(), "--once")
    assert ran.exit_code == 0, ran.output
    assert "3 events in" in ran.output
    assert len(pq.read_table("out")) == 2


def test_a_wrong_file_ends_with_code_2(job):
    ran = invoke("run", job("chekpoint: x\n"), "--once")
    assert ran.exit_code == 2
    assert "job.yaml:6:1: chekpoint is no field: did you mean 'checkpoint'?" in ran.output


def test_a_file_that_is_not_there_ends_with_code_2(job):
    ran = invoke("run", "nothing.yaml")
    assert ran.exit_code == 2
    assert "nothing.yaml:1:1: there is no such file: headwater init" in ran.output


def test_a_job_that_fails_on_the_way_ends_with_code_1(job, tmp_path):
    path = job("strict: true\n")
    pq.write_table(pa.table({"time": pa.array([1, None])}), tmp_path / "events" / "1.parquet")
    assert invoke("run", path, "--once").exit_code == 1


def test_a_time_column_that_is_not_there_is_said_once_where_it_stands(job):
    another = "  - {name: m, window: {type: tumbling, size: 20}, aggregates: {n: {function: count}}}\nsinks: {m: more, "
    ran = invoke("run", job("time: at\n", JOB.replace("sinks: {", another)), "--check")
    assert ran.exit_code == 2
    assert ran.output.count("time is 'at': the data has no such column") == 1 and "query 'n'" not in ran.output


def test_a_run_says_where_its_metrics_are(job):
    pytest.importorskip("prometheus_client")
    ran = invoke("run", job("metrics: {port: 0}\n"), "--once")
    assert re.search(r"Metrics are at http://127.0.0.1:[1-9]\d*/metrics", ran.output)


def test_the_file_may_say_itself_that_it_runs_once(job):
    assert invoke("run", job("trigger: availableNow\n")).exit_code == 0


def test_schema_prints_json():
    assert json.loads(invoke("schema").output)["title"] == "A job of headwater"


def test_job_script_names_the_program_that_spark_submit_runs():
    assert invoke("job-script").output.strip().endswith("submit.py")


def test_modules_beside_the_file_are_found(job, tmp_path):
    (tmp_path / "own_generators.py").write_text(
        "from dataclasses import dataclass\n"
        "import pyarrow as pa\n"
        "@dataclass\n"
        "class Ticks:\n"
        "    count: int = 3\n"
        "    def batches(self, batch_events):\n"
        "        yield pa.record_batch({'time': list(range(self.count))})\n"
    )
    source = "source: {type: generators, generator: 'own_generators:Ticks', fields: {count: 25}}"
    ran = invoke("run", job(text=JOB.replace("source: events", source)), "--once")
    assert ran.exit_code == 0, ran.output
    assert len(pq.read_table("out")) == 3


@pytest.mark.parametrize(("more", "host"), [
    ("", "engine"),
    ("checkpoint: state\n", "spark"),
    ("spark: {master: 'local[1]'}\n", "spark"),
], ids=["plain", "checkpoint", "spark"])  # fmt: skip
def test_the_file_says_what_runs_it(job, some_java, more, host):
    file = load_job(job(more))
    assert choose_host(file, None).name == host
    assert choose_host(file, "spark").name == "spark"


def test_a_job_that_prefers_spark_runs_in_this_process_where_there_is_none(job, no_java):
    ran = invoke("run", job("spark: {master: 'local[1]'}\n"), "--once")
    assert ran.exit_code == 0, ran.output
    assert "Spark cannot start here, so the job runs in this process (there is no Java)\n" in ran.output


def test_a_job_with_a_checkpoint_is_refused_where_there_is_no_spark(job, no_java):
    ran = invoke("run", job("checkpoint: state\n"), "--once")
    assert ran.exit_code == 2
    assert "this job needs Spark, which cannot start here: there is no Java" in ran.output


def test_a_job_for_a_spark_that_has_no_streams_is_refused_before_anything_runs(job, some_java, monkeypatch):
    monkeypatch.setattr(doors, "version", lambda _: "4.1.4")
    ran = invoke("run", job("checkpoint: state\n"), "--check")
    assert ran.exit_code == 2
    assert "this is Spark 4.1.4, and hw.stream needs Spark 4.2 or newer" in ran.output
    assert choose_host(load_job(job("spark: {master: 'local[1]'}\n")), None).name == "engine"


def test_a_table_is_refused_in_this_process(job):
    text = JOB.replace("{n: out}", "{n: {type: table, name: main.iot.n}}")
    with pytest.raises(
        JobError, match=r"sinks\.n: tables are written by Spark; run it with --on spark, or leave sinks\.n out"
    ):
        choose_host(load_job(job(text=text)), "engine")


def test_a_run_that_meets_the_rows_of_another_is_told_of_checkpoints(job, monkeypatch):
    def refuse(*_, **__):
        raise OtherStreamError("table 'n' belongs to another stream, a (this one is b): drop it")

    monkeypatch.setattr(command, "build_sinks", refuse)
    ran = invoke("run", job(), "--once")
    assert ran.exit_code == 1
    assert "drop it. A run without a checkpoint is a stream of its own: give the job one" in ran.output
