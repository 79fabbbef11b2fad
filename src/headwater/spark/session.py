"""A Spark of headwater's own on this machine: for the demo, for cases and for benchmarks."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from headwater.spark.setup import check_java, check_libraries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Quiet, reachable from this machine only, and with as few tasks behind a shuffle as a small job needs.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def local_session(name: str, *, master: str = "local[*]", **settings: str) -> SparkSession:
    """A Spark on the cores of this machine; what it needs and does not find is said in one sentence.

    ``settings`` are Spark's own: ``**{"spark.sql.shuffle.partitions": "8"}``. A session stops at the end of a ``with``.
    """
    check_libraries()
    check_java()
    from pyspark.sql import SparkSession

    _prepare_workers()
    own = {"spark.sql.warehouse.dir": str(Path(gettempdir(), "headwater-warehouse"))}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (SETTINGS | own | settings).items():
        builder = builder.config(key, value)
    with _silence():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _prepare_workers() -> None:
    """Workers run the Python of this process and find headwater where it does, installed or not."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    here = str(Path(__file__).parent.parent.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, *known]))
    logging.getLogger("py4j").setLevel(logging.ERROR)


@contextmanager
def _silence() -> Iterator[None]:
    """What starts meanwhile says nothing: the JVM inherits stderr, and writes to it before it reads any setting."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
