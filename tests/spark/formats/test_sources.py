"""Which files are which source, and what is said of files that do not fit together."""

import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.generator import SmartHome
from headwater.spark.batch import files
from headwater.spark.batch.files import find_pieces, split
from headwater.spark.batch.plan import ReadPlan, plan_events, plan_queries
from spark.answers import assert_same, expected, without_spark, write
from spark.batch.test_tasks import renamed, some_files
from strategies import SCHEMA, queries

NAMES = ("a/2.parquet", "a/10.parquet", "a!.parquet", "b/x/1.parquet", "b/x/2.parquet", "é/1.parquet")
EVENTS = pa.table({"time": [1, 2, 3], "load": [1.5, 2.0, 3.0]})
LOAD = hw.query("load", hw.tumbling(10), total=hw.sum("load"), firsts=hw.first("load"))


def joined(events: dict, source_of) -> dict:
    """The rows of all files of a source, in the order of the names of the files."""
    found: dict = {}
    for name in sorted(events, key=str.encode):
        found.setdefault(source_of(name), []).extend(events[name])
    return found


@settings(max_examples=40)
@given(data=st.data())
def test_files_of_one_folder_are_one_source(data):
    asked = renamed(data.draw(st.lists(queries(), min_size=1, max_size=3)))
    events, disorder = data.draw(some_files(NAMES)), data.draw(st.sampled_from([None, None, 5]))
    task_bytes = data.draw(st.sampled_from([1, 4000, 1 << 27]))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(files, "TASK_BYTES", task_bytes)
        write(Path(folder), events, SCHEMA)
        plan = plan_queries(folder, asked, None, 2, True, sources="folder", disorder=disorder)
        whole = joined(events, lambda name: name.rpartition("/")[0] or ".")
        assert_same(expected(whole, asked, disorder, {name: name for name in whole}), without_spark(plan, asked))


def test_stretches_know_where_in_their_source_they_begin(tmp_path):
    for name, count in (("a/1.parquet", 2), ("a/2.parquet", 3), ("b/1.parquet", 1)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(EVENTS.slice(0, count), tmp_path / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "TASK_BYTES", 1)
        parts = split(find_pieces(tmp_path, None, "folder")[1], "parquet")
    assert [(part.home, part.base) for part in parts] == [("a", 0), ("a", 2), ("b", 0)]
    assert sorted(part.source for part in parts) == [part.source for part in parts]


def test_a_function_says_which_files_belong_together(tmp_path):
    for name in ("x-1", "y-1", "x-2"):
        pa.csv.write_csv(EVENTS, tmp_path / f"{name}.csv")
    _, pieces = find_pieces(tmp_path, None, lambda name: name.split("-")[0])
    assert [(piece.source, len(piece.places)) for piece in pieces] == [("x", 2), ("y", 1)]
    plan = plan_queries(tmp_path, LOAD, None, 4, True, sources=lambda name: name.split("-")[0])
    rows = EVENTS.to_pylist()
    assert_same(expected({"x": rows + rows, "y": rows}, [LOAD]), without_spark(plan, [LOAD]))


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [("files", "give 'auto', 'file', 'folder' or a function"), (len, "a source is named by text")],
)
def test_sources_that_make_no_sense_are_refused(sources, sentence, tmp_path):
    pq.write_table(EVENTS, tmp_path / "a.parquet")
    with pytest.raises(hw.DataError, match=sentence):
        find_pieces(tmp_path, None, sources)


def saved(folder: Path, **tables: pa.Table) -> Path:
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def test_types_are_wide_enough_for_all_files(tmp_path):
    wide = EVENTS.set_column(0, "time", pa.array([2**40, 2, 3]))
    narrow = EVENTS.set_column(0, "time", pa.array([1, 2, 3], pa.int16())).set_column(1, "load", pa.array([1, 2, 3]))
    saved(tmp_path, a=narrow, b=wide)
    plan = plan_queries(tmp_path, LOAD, None, 1, True)
    assert plan.schema == EVENTS.schema
    as_floats = narrow.set_column(1, "load", pa.array([1.0, 2.0, 3.0]))
    assert_same(expected({"a": as_floats.to_pylist(), "b": wide.to_pylist()}, [LOAD]), without_spark(plan, [LOAD]))


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (EVENTS.set_column(1, "load", pa.array(["a", "b", "c"])), "b.parquet: column 'load' holds string, but double"),
        (EVENTS.drop_columns(["load"]), "b.parquet: there is no column 'load', which other files have"),
    ],
)
def test_files_that_do_not_fit_together_are_named_before_any_job(other, sentence, tmp_path):
    saved(tmp_path, a=EVENTS, b=other)
    with pytest.raises(hw.DataError, match=re.escape(sentence)):
        plan_queries(tmp_path, LOAD, None, 1, True)
    with pytest.raises(hw.DataError, match=re.escape(sentence)):
        plan_events(tmp_path, None, None, 1)
    # What nobody reads does not matter.
    assert sum(map(len, plan_events(tmp_path, None, ["time"], 1).events(0))) == 6


def test_a_broken_footer_is_named_before_any_job(tmp_path):
    saved(tmp_path, a=EVENTS, b=EVENTS)
    data = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(hw.DataError, match=r"b\.parquet: this is no parquet file that can be read: ") as caught:
        plan_queries(tmp_path, LOAD, None, 1, True)
    assert "\n" not in str(caught.value)


def test_a_broken_batch_of_arrow_names_the_file(tmp_path):
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, EVENTS.schema) as writer:
        writer.write_table(pa.concat_tables([EVENTS] * 50).combine_chunks(), max_chunksize=30)
    data = bytearray(path.read_bytes())
    middle = data.index(b"\xff\xff\xff\xff", len(data) // 3)
    data[middle : middle + 64] = b"\x77" * 64
    path.write_bytes(data)
    with pytest.raises(hw.DataError, match=r"a\.arrow, record batch \d+"):
        without_spark(plan_queries(tmp_path, LOAD, None, 1, True), [LOAD])


def test_generators_are_sources_too():
    homes = SmartHome(seconds=40, rate=40, houses=4, changes=((10, 80),), drift=0.2, drift_seconds=7).sources(2)
    asked = [hw.query("load", hw.sliding(10_000_000, 5_000_000), keys=["house"], mean=hw.avg("load"), n=hw.count())]
    events = {f"{number:05d}": home.table().to_pylist() for number, home in enumerate(homes)}
    plan = ReadPlan.from_text(plan_queries(homes, asked, None, 2, True).to_text())
    assert_same(expected(events, asked), without_spark(plan, asked))
    alone = plan_events(homes[0], None, ["time"], 1)
    assert sum(map(len, alone.events(0))) == homes[0].table().num_rows


def test_a_file_twice_in_a_list_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,v\n1,2\n")
    with pytest.raises(hw.DataError, match="twice"):
        plan_events([path, path], None, None, 1)


def test_a_column_without_values_takes_its_type_from_the_next_file(tmp_path):
    (tmp_path / "a.csv").write_text("time,v\n1,\n")
    (tmp_path / "b.csv").write_text("time,v\n1,2.5\n3,4\n")
    assert plan_events(tmp_path, None, None, 1).schema.field("v").type == pa.float64()
    (tmp_path / "a.csv").write_text("time,v\n")
    assert plan_events(tmp_path, None, None, 1).schema.field("time").type == pa.int64()
