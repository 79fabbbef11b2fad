"""The same job in this process and on Spark: the same rows, for a folder and for generators."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from headwater.generator import SmartHome
from headwater.job.command import DONE, first_file, run_job
from headwater.job.file.job_file import load_job
from headwater.job.interrupts import Stopping
from headwater.job.on_spark import run_on_spark
from headwater.job.progress import Show
from waiting import SECONDS_MAX

QUERIES = """\
queries:
  - name: load
    window: {type: sliding, size: 10 s, slide: 5 s}
    keys: [house]
    aggregates: {mean: {function: avg, column: load}, p99: {function: quantile, column: load, q: 0.99}}
  - name: active
    window: {type: session, gap: 5 s}
    keys: [house]
    aggregates: {n: {function: count}}
sinks:
  load: {type: folder, path: out/load, every: 1 h}
  active: out/active
  aside: out/aside
spark: {master: "local[2]"}
"""


def rows(path: Path) -> list[dict[str, object]]:
    if not list(path.glob("*.parquet")):
        return []
    found = ds.dataset(path, format="parquet", ignore_prefixes=["_", "."]).to_table().to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


def job_over_a_folder(folder: Path) -> str:
    for number, home in enumerate(SmartHome(houses=6, rate=40, seconds=90, delay_max=4_000_000).sources(2)):
        (folder / "events" / str(number)).mkdir(parents=True)
        table = home.table()
        half = len(table) // 2
        for part, some in enumerate([table.slice(0, half), table.slice(half)]):
            times = some.column("time").cast(pa.timestamp("us", "UTC"))
            stamped = some.set_column(0, "at", times).set_column(1, "house", some.column("house").cast(pa.string()))
            pq.write_table(stamped, folder / "events" / str(number) / f"{part}.parquet")
    return f"headwater: 1\nsource: events\ntime: at\ndisorder: 2 s\n{QUERIES}"


def job_over_generators(folder: Path) -> str:
    fields = "{houses: 6, rate: 40, seconds: 90}"
    source = f"{{type: generators, count: 2, fields: {fields}}}"
    return f"headwater: 1\nsource: {source}\ntime: {{type: epoch, column: time, unit: us}}\ndisorder: 2 s\n{QUERIES}"


@pytest.mark.spark
@pytest.mark.parametrize("make", [job_over_a_folder, job_over_generators])
def test_spark_gives_the_rows_of_this_process(spark, tmp_path, make):
    found = {}
    for host in ("engine", "spark"):
        folder = tmp_path / host
        folder.mkdir()
        (folder / "job.yaml").write_text(make(folder))
        if host == "engine":
            assert run_job(folder / "job.yaml", once=True, on="engine") == DONE
        else:
            options = {"once": True, "show": Show.nobody(), "stopping": Stopping(), "event_bytes": 20.0}
            done = run_on_spark(load_job(folder / "job.yaml"), spark, **options)
            assert done.sent_bytes > 0
            assert "of partials travelled instead" in done.text()
        found[host] = {name: rows(folder / "out" / name) for name in ("load", "active", "aside")}
    assert len(found["engine"]["load"]) > 50
    assert found["spark"]["load"] == found["engine"]["load"]
    assert found["spark"]["active"] == found["engine"]["active"]
    assert len(found["spark"]["aside"]) == len(found["engine"]["aside"])


@pytest.mark.spark
def test_a_job_with_a_checkpoint_goes_on_where_it_was(spark, tmp_path):
    (tmp_path / "job.yaml").write_text(job_over_a_folder(tmp_path) + "checkpoint: state\n")
    options = {"once": True, "show": Show.nobody(), "stopping": Stopping(), "event_bytes": None}
    last = tmp_path / "events" / "1" / "1.parquet"
    late = last.rename(tmp_path / "later.parquet")
    first = run_on_spark(load_job(tmp_path / "job.yaml"), spark, **options)
    late.rename(last)
    second = run_on_spark(load_job(tmp_path / "job.yaml"), spark, **options)
    assert 0 < first.status.events < second.status.events
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "job.yaml").write_text(job_over_a_folder(whole) + "end: keep\n")
    assert run_job(whole / "job.yaml", once=True, on="engine") == DONE
    assert rows(tmp_path / "out" / "load") == rows(whole / "out" / "load")


@pytest.mark.spark
@pytest.mark.slow(reason="starts a Spark of its own, as people do")
def test_the_file_that_init_writes_runs_under_spark_submit(tmp_path):
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs")

    text = first_file().replace("seconds: 600", "seconds: 180").replace("# checkpoint: ", "checkpoint: ")
    (tmp_path / "job.yaml").write_text(text.replace(", replace: true", ""))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = Path(sys.modules["headwater"].__file__ or "").parent / "job" / "submit.py"
    source = str(Path(sys.modules["headwater"].__file__ or "").parent.parent)
    environ = {**os.environ, "PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable}
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", script, "job.yaml", "--once"]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=SECONDS_MAX * 2)
    assert ran.returncode == DONE, ran.stderr
    assert "events in" in ran.stdout
    assert rows(tmp_path / "headwater-job" / "load")
