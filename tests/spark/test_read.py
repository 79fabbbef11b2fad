"""`headwater.read` on a real Spark: the same rows as the reference, from files of every format."""

import gzip

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import headwater as hw
from headwater.generator import SmartHome
from headwater.logs import Log
from headwater.spark import read, register
from spark.answers import assert_same, expected, found, write
from spark.batch.test_tasks import renamed, some_files
from strategies import SCHEMA, WINDOWS, drawn, queries

pytestmark = pytest.mark.spark

EVENTS = pa.table(
    {
        "time": [5, 1, 12, 12, 30, 31, 55, 58],
        "house": ["a", "b", "a", "b", "a", "a", "b", None],
        "load": [1.5, 2.0, None, 4.0, 0.1, 0.2, 0.3, 1e16],
        "note": ["go", "x", "x", "go", "x", "x", "x", "go"],
    }
)
QUERIES = [
    hw.query("mean", hw.sliding(20, 10), keys=["house"], mean=hw.avg("load"), n=hw.count()),
    hw.query("rests", hw.session(10), total=hw.sum("load"), mid=hw.median("load")),
    hw.query("threes", hw.count_tumbling(3), notes=hw.collect("note")),
    hw.query("work", hw.punctuated(hw.col("note") == "go"), top=hw.max("load")),
]


@pytest.mark.parametrize("disorder", [None, 5])
def test_read_agrees_with_the_reference_on_every_kind_of_window(session, tmp_path, disorder):
    every_kind = st.tuples(*(queries(kinds=(kind,)) for kind in WINDOWS)).map(renamed)
    ((asked, events),) = drawn(st.tuples(every_kind, some_files(rows_min=4)))
    rows = read(session, write(tmp_path, events, SCHEMA), asked, disorder=disorder, tasks=3)
    assert_same(expected(events, asked, disorder), found(rows, asked))


def as_parquet(folder, name, table):
    pq.write_table(table, folder / f"{name}.parquet")


def as_arrow(folder, name, table):
    with pa.ipc.new_file(folder / f"{name}.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def as_stream(folder, name, table):
    with pa.ipc.new_stream(folder / f"{name}.arrows", table.schema) as writer:
        writer.write_table(table)


def as_csv(folder, name, table):
    pa.csv.write_csv(table, folder / f"{name}.csv")


def as_csv_gz(folder, name, table):
    with gzip.open(folder / f"{name}.csv.gz", "wb") as file:
        pa.csv.write_csv(table, file)


def as_json(folder, name, table):
    table.to_pandas().to_json(folder / f"{name}.jsonl", orient="records", lines=True)


def as_json_gz(folder, name, table):
    table.to_pandas().to_json(folder / f"{name}.jsonl.gz", orient="records", lines=True, compression="gzip")


FORMATS = [as_parquet, as_arrow, as_stream, as_csv, as_csv_gz, as_json, as_json_gz]


@pytest.mark.parametrize("save", FORMATS)
def test_every_format_gives_the_same_rows(save, spark, tmp_path):
    halves = {"one": EVENTS.slice(0, 3), "two": EVENTS.slice(3)}
    for name, table in halves.items():
        save(tmp_path, name, table)
    (tmp_path / "_SUCCESS").touch()
    events = {name: table.to_pylist() for name, table in halves.items()}
    wanted = expected(events, QUERIES)
    assert len(wanted) > 10
    assert_same(wanted, found(read(spark, tmp_path, QUERIES), QUERIES))


def test_empty_files_are_sources_without_events(spark, tmp_path):
    as_csv(tmp_path, "b", EVENTS)
    (tmp_path / "a.csv").touch()
    (tmp_path / "c.csv").write_text("time,house,load,note\n")
    assert_same(expected({"b.csv": EVENTS.to_pylist()}, QUERIES), found(read(spark, tmp_path, QUERIES), QUERIES))


def test_a_segment_log_is_read_as_its_partitions(spark, tmp_path):
    log = Log.create(tmp_path / "log", partition_count=2)
    for partition in range(2):
        with log.writer(partition) as writer:
            writer.append(EVENTS.slice(partition * 4, 4).combine_chunks().to_batches()[0], 0)
    events = {f"{i:05d}": EVENTS.slice(i * 4, 4).to_pylist() for i in range(2)}
    assert_same(expected(events, QUERIES), found(read(spark, tmp_path / "log", QUERIES), QUERIES))


def test_generated_events_are_read_as_sources(spark):
    homes = [SmartHome(seconds=60, rate=50, houses=3, seed=seed) for seed in range(2)]
    asked = [hw.query("load", hw.tumbling(10_000_000), keys=["house"], mean=hw.avg("load"), n=hw.count())]
    events = {f"{i:05d}": home.table().to_pylist() for i, home in enumerate(homes)}
    assert_same(expected(events, asked), found(read(spark, homes, asked), asked))


def test_late_events_are_late_in_batch_too(spark, tmp_path):
    as_parquet(tmp_path, "a", EVENTS.sort_by([("note", "ascending")]))
    events = {"a": EVENTS.sort_by([("note", "ascending")]).to_pylist()}
    wanted = expected(events, QUERIES, disorder=3)
    assert sum(row.event_count for row in wanted) < sum(row.event_count for row in expected(events, QUERIES))
    assert_same(wanted, found(read(spark, tmp_path, QUERIES, disorder=3), QUERIES))


def test_events_themselves_are_read_without_queries(session, tmp_path):
    wide = EVENTS.append_column("at", pa.array(range(8), pa.timestamp("ns"))).append_column(
        "code", pa.array(range(8), pa.uint8())
    )
    as_parquet(tmp_path, "one", wide)
    register(session)
    everything = session.read.format("headwater").load(str(tmp_path))
    assert everything.columns == wide.schema.names
    assert sorted(row.code for row in everything.collect()) == list(range(8))
    chosen = read(session, tmp_path, columns=["load", "time"])
    assert chosen.toArrow().to_pylist() == EVENTS.select(["load", "time"]).to_pylist()
