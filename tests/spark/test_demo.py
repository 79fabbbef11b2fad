"""`headwater demo` in a process of its own, for it starts a Spark of its own."""

import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from headwater.demo.houses import EVENT_BYTES, HOUSES, streets
from headwater.demo.queries import queries
from spark.conftest import TESTS
from waiting import SECONDS_MAX


@pytest.mark.spark
def test_the_demo_shows_every_query_and_leaves_the_rows(tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    command = [sys.executable, "-c", "from headwater.cli import app; app()", "demo", "--events", "60000"]
    ran = subprocess.run(
        [*command, "--out", str(tmp_path / "rows")],
        env=os.environ | {"PYTHONPATH": str(TESTS.parent / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert ran.returncode == 0, ran.stderr
    if "runs on the engine alone" in ran.stderr:
        pytest.skip("there is no Java, which Spark needs")
    asked = [query.name for query in queries() if query.name != "appliance"]
    assert all(f"\n{name}: " in ran.stdout for name in asked)
    assert "stayed where they were born" in ran.stdout
    # No terminal, so no line of progress.
    assert ran.stderr == ""
    rows = pq.read_table(tmp_path / "rows")
    assert set(rows.column("query").to_pylist()) <= set(asked)
    assert len(rows) > 100


def test_streets_differ():
    some = streets(8_000, seed=7, rate=100)
    firsts = [next(street.batches(1_000)) for street in some]
    names = {name for batch in firsts for name in batch.column("house").dictionary.to_pylist()}
    assert len(names) == HOUSES * len(some)
    sensors = [set(batch.column("sensor").to_pylist()) for batch in firsts]
    assert sum(map(len, sensors)) == len(set().union(*sensors))
    assert EVENT_BYTES == 40
