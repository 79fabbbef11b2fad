"""What headwater's streams rest on in Spark: the order of calls, pinned with a source that writes down when it is called."""

import json
import os
from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from waiting import wait_until

pytestmark = pytest.mark.spark


class Noting(DataSource):
    @classmethod
    def name(cls):
        return "noting"

    def schema(self):
        return "n long"

    def streamReader(self, schema):  # noqa: N802
        return NotingReader(self.options["path"])


class NotingReader(DataSourceStreamReader):
    """A batch for each word of the "root", up to three: no data is needed for one."""

    def __init__(self, path):
        self._path = path

    def initialOffset(self):  # noqa: N802
        return {"batch": -1}

    def latestOffset(self, start, limit):  # noqa: N802
        said = Path(self._path, f"said-{start['batch']}").exists() or start["batch"] == -1
        if not said or start["batch"] >= 2:
            return start
        note(self._path, f"latest {start['batch'] + 1}")
        return {"batch": start["batch"] + 1}

    def partitions(self, start, end):
        note(self._path, f"partitions {end['batch']}")
        return [InputPartition(end["batch"])]

    def read(self, partition):
        note(self._path, f"read {partition.value}")
        yield (partition.value,)


def note(path, what):
    """Whole lines, whoever writes them."""
    with os.fdopen(os.open(Path(path, "notes"), os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w") as file:
        file.write(json.dumps([what, os.getpid()]) + "\n")


def test_a_batch_is_planned_after_the_one_before_it_is_done(spark, tmp_path):
    spark.dataSource.register(Noting)
    place = tmp_path / "place"
    place.mkdir()

    def batch(frame, number):
        note(place, f"begin {number}")
        frame.collect()
        note(place, f"end {number}")
        (place / f"said-{number}").touch()

    frame = spark.readStream.format("noting").option("path", str(place)).load()
    query = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: (place / "said-2").exists() or not query.isActive, "the third batch is done")
        assert query.isActive, query.exception()
    finally:
        query.stop()
    notes = [json.loads(line) for line in (place / "notes").read_text().splitlines()]
    calls = [what for what, _ in notes]
    per_batch = [f"{what} {{0}}" for what in ("latest", "partitions", "begin", "read", "end")]
    assert calls == [call.format(number) for number in range(3) for call in per_batch]
    # The planner, the driver and the workers are processes of their own: nothing is shared but files and offsets.
    processes = {what.split()[0]: process for what, process in notes}
    assert len({processes["latest"], processes["begin"], processes["read"]}) == 3
