"""What is no local path is refused at every door before anything is made; Spark is not asked, so none is started."""

import pyarrow as pa
import pytest
from pyarrow import parquet

import headwater as hw
from headwater.logs import Log
from headwater.spark.streaming.sinks import FolderSink, LogSink


class Session:
    """Looks like a session of Spark; nothing is asked of it but its version."""

    readStream = None  # noqa: N815
    version = "4.3.0"


SESSION = Session()
QUERY = hw.query("load", hw.tumbling(10), n=hw.count())
URLS = [
    "s3://bucket/w",
    "abfss://container@account/w",
    "hdfs://namenode:8020/w",
    "dbfs:/w",
    "gs://bucket/w",
    "kafka://b/t",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with events; nothing but what is there may be there afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    parquet.write_table(pa.table({"time": [1, 2]}), tmp_path / "events" / "a.parquet")
    yield tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events"]


@pytest.mark.parametrize("url", URLS)
def test_a_url_as_sink_aside_checkpoint_or_source_does_not_become_a_local_folder(folder, url):
    doors = {
        "sink": lambda: hw.stream(SESSION, "events", QUERY, checkpoint="c", sink=url),
        "aside": lambda: hw.stream(SESSION, "events", QUERY, checkpoint="c", sink="memory", aside=url),
        "checkpoint": lambda: hw.stream(SESSION, "events", QUERY, checkpoint=url),
        "source": lambda: hw.stream(SESSION, url, QUERY, checkpoint="c"),
    }
    for what, open_door in doors.items():
        with pytest.raises(hw.DataError, match=f"^{what} is '{url}': .* is not served; give "):
            open_door()
    for source in (url, [url]):
        with pytest.raises(hw.DataError, match=f"^source is '{url}'"):
            hw.read(SESSION, source, QUERY, tasks=1)
    for make in (FolderSink, LogSink, Log.create, Log.open):
        with pytest.raises(hw.DataError, match="is not served"):
            make(url)


@pytest.mark.parametrize("name", ["main.iot.windows", "iot.windows", "`my catalog`.iot.windows"])
def test_a_sink_that_looks_like_a_table_is_refused_with_the_form_for_a_folder(folder, name):
    for what in ("sink", "aside"):
        with pytest.raises(hw.DataError, match=f"^{what} is .* the name of a table.* give '\\./{name}'$"):
            hw.stream(SESSION, "events", QUERY, checkpoint="c", **{"sink": "memory"} | {what: name})


@pytest.mark.parametrize("name", ["parquet", "delta", "kafka", "Iceberg"])
def test_a_sink_that_is_the_name_of_a_format_is_refused(folder, name):
    with pytest.raises(hw.DataError, match=f"^sink is '{name}': this is the name of a format.* give '\\./{name}'$"):
        hw.stream(SESSION, "events", QUERY, checkpoint="c", sink=name)


def test_a_table_as_source_is_told_the_door_for_tables(folder):
    with pytest.raises(hw.DataError, match=r"hw.aggregate\(spark.readStream.table\('main.iot.readings'\), ...\)"):
        hw.stream(SESSION, "main.iot.readings", QUERY, checkpoint="c")
    with pytest.raises(hw.DataError, match=r"hw.aggregate\(spark.table\('main.iot.readings'\), ...\)"):
        hw.read(SESSION, "main.iot.readings", QUERY, tasks=1)


def test_a_folder_named_like_a_table_is_written_when_it_is_said_to_be_one(tmp_path, monkeypatch):
    from headwater.spark.streaming.sinks import sink_of

    monkeypatch.chdir(tmp_path)
    sink_of("./main.iot.windows").write(0, pa.table({"query": ["load"]}))
    sink_of(f"file://{tmp_path}/served").write(0, pa.table({"query": ["load"]}))
    assert len(list(tmp_path.glob("main.iot.windows/*.parquet"))) == len(list(tmp_path.glob("served/*.parquet"))) == 1
