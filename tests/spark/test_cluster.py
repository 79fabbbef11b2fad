"""A real cluster: a master and two workers from the installed package, and an executor that dies in the middle of a job."""

import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from headwater.cases.hosts import result_rows
from spark.answers import assert_same, expected
from spark.cluster_job import QUERIES, paced
from spark.clusters import kill_executor

pytestmark = pytest.mark.spark


def test_an_executor_that_dies_in_the_middle_of_a_job_changes_no_row(processes, cluster, tmp_path):
    tables = {f"{paced.number:05d}": paced.table() for paced in paced()}
    (tmp_path / "events").mkdir()
    for name, table in tables.items():
        placed = table.append_column("source", pa.array([name] * len(table)))
        placed = placed.append_column("offset", pa.array(range(len(table))))
        pq.write_table(placed, tmp_path / "events" / f"{name}.parquet")
    address, workers = cluster
    driver = processes.start(
        "driver", sys.executable, "-m", "spark.cluster_job", address, str(tmp_path), stdout=subprocess.PIPE
    )
    # Whatever happens, nobody waits for ever.
    limit = threading.Timer(400, driver.kill)
    limit.start()
    said = []
    try:
        for line in driver.stdout:
            said.append(line.strip())
            if said[-1] == "at the gate":
                kill_executor(workers[0])
                (tmp_path / "gate").touch()
        assert driver.wait() == 0, processes.logs()
    finally:
        limit.cancel()
    assert said == ["at the gate", "saved during", "saved after"], processes.logs()
    wanted = expected({name: table.to_pylist() for name, table in tables.items()}, QUERIES)
    assert len(wanted) > 50
    named = {query.name: query for query in QUERIES}
    for name in ("during", "after"):
        assert_same(wanted, result_rows(pa.feather.read_table(tmp_path / f"{name}.arrow"), named))
