"""A table of Delta on a real Spark, filled by drivers that die at every moment: it has what the reference says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import SECONDS_MAX

TESTS = Path(__file__).parents[3]
#: What the process ends with where Delta cannot be had.
UNAVAILABLE = 3


@pytest.mark.spark
@pytest.mark.slow(reason="starts a Spark of its own, for which Delta is fetched")
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_table_has_the_rows_of_the_reference_after_every_death_of_the_driver(mode):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs")
    places = [str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "spark.streaming.sinks.table_job", mode, "0", "12"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS_MAX * 4, check=False)
    if ran.returncode == UNAVAILABLE:
        pytest.skip(ran.stdout.strip())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "as the reference says after" in ran.stdout
