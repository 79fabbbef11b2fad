"""Code of a notebook, which no worker could import: Spark carries it in batches, and nothing else does."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.errors import DataError, QueryError
from headwater.language.user_code import load_path, path_of
from headwater.spark import shipped

EVENTS = pa.table({"time": list(range(40)), "k": [n % 3 for n in range(40)], "v": [n * 7 % 11 for n in range(40)]})


def spread():
    """As a cell would: nothing of it has a name that another process could import."""
    low = hw.Operator("low", lambda values: int(values.min()), min, None_of)
    high = hw.Operator("high", lambda values: int(values.max()), max, lambda: -(1 << 40))
    return hw.Aggregate("spread", (low, high), lambda low, high: high - low, pa.int64())


def None_of():  # noqa: N802
    return 1 << 40


def every_ten(events, state):
    return [int(time) for time in np.asarray(events["time"]) if time % 10 == 0], state


def local_cut():
    def cut(events, state):
        return [int(time) for time in np.asarray(events["time"]) if time % 10 == 0], state

    return cut


def wanted(own) -> list[tuple]:
    query = hw.query("q", hw.tumbling(10), keys=["k"], s=hw.apply(own, "v"))
    return rows_of(hw.run(EVENTS, [query], time="time").table.to_pylist())


def rows_of(rows) -> list[tuple]:
    return sorted((row["window_start"], row["k"], row["s"]) for row in rows)


@pytest.mark.spark
def test_an_aggregate_of_a_cell_is_carried_to_the_readers_and_the_roots(spark, tmp_path):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    own = hw.ship(spread())
    query = hw.query("q", hw.tumbling(10), keys=["k"], s=hw.apply(own, "v"))
    expected = wanted(spread())
    assert rows_of(row.asDict() for row in hw.read(spark, tmp_path, [query]).collect()) == expected
    frame = spark.createDataFrame(EVENTS.to_pandas())
    assert rows_of(row.asDict() for row in hw.aggregate(frame, [query]).collect()) == expected


@pytest.mark.spark
def test_without_ship_the_message_says_what_would_do(spark, tmp_path):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    query = hw.query("q", hw.tumbling(10), s=hw.apply(spread(), "v"))
    with pytest.raises(QueryError, match=r"for hw\.read and batch hw\.aggregate hw\.ship\(\.\.\.\) of it will do"):
        hw.read(spark, tmp_path, [query])


@pytest.mark.spark
def test_streams_refuse_what_was_shipped_with_the_reason(spark, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(EVENTS, tmp_path / "in" / "events.parquet")
    query = hw.query("q", hw.tumbling(10), s=hw.apply(hw.ship(spread()), "v"))
    says = r"query 'q': it has code that was handed to hw\.ship.*nothing pickled is kept there"
    with pytest.raises(QueryError, match=says):
        hw.stream(spark, tmp_path / "in", [query], checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint" / "headwater").exists()
    frame = spark.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS v")
    with pytest.raises(QueryError, match=says):
        hw.aggregate(frame, [query], time="at", disorder="1 s")


def test_what_was_shipped_is_found_under_its_path_and_nowhere_else():
    own = hw.ship(spread())
    assert load_path(path_of(own)) is own and own.path.startswith("headwater.spark.shipped:s")
    code = f"from headwater.language.user_code import load_path; load_path({own.path!r})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "QueryError: import path is" in found.stderr


def test_a_task_that_installs_what_was_shipped_finds_the_same(monkeypatch):
    own = hw.ship(spread())
    carried = shipped.carried()
    monkeypatch.setattr(shipped, "_things", {})
    monkeypatch.setattr(shipped, "_pickled", {})
    shipped.install(carried)
    found = load_path(own.path)
    assert found.lower(*(part.lift(np.array([3, 8])) for part in found.operators)) == 5
    assert [part.path for part in found.operators] == [part.path for part in own.operators]


def test_functions_of_a_cell_are_shipped_as_they_are():
    cut = hw.ship(local_cut())
    query = hw.query("q", hw.custom(cut), n=hw.count())
    assert path_of(cut) in hw.to_json([query])


def test_what_has_a_path_needs_no_shipping_and_what_is_no_code_is_refused():
    assert hw.ship(every_ten) is every_ten
    with pytest.raises(DataError, match=r"hw\.ship of 5: give an own aggregate, an operator or a function"):
        hw.ship(5)
    with pytest.raises(DataError, match=r"it cannot be pickled"):
        hw.ship(hw.Operator("o", (n for n in ()).__next__, max, 0))
