"""Small traps that newcomers met, in files: globs, `file:` paths, `day=1` folders and renamed columns, without Spark."""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.generator import SmartHome
from headwater.language.renames import Renaming
from headwater.logs import Log
from headwater.spark.batch.files import find_pieces
from headwater.spark.batch.plan import plan_events, plan_queries
from headwater.spark.batch.renames import renamed_batches, stored_wanted
from headwater.spark.formats import Wanted
from headwater.spark.streaming.checkpoint import CheckpointError, StreamCheckpoint
from headwater.spark.streaming.inputs.input import input_class
from headwater.spark.streaming.inputs.renamed import RenamedInput
from headwater.spark.streaming.kafka.values import batches_of
from headwater.spark.streaming.start.prepare import check_same, renamed_input
from spark.answers import assert_same, expected, without_spark

OPTIONS = {"format": None, "sources": "folder", "schema": None, "types": None, "strict": False}
CLOCK = {"pace": "fast", "time": "time", "unit": "us"}
SETTINGS = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
BY_DAY = hw.query("days", hw.tumbling(10), keys=["day"], n=hw.count(), total=hw.sum("v"))
FIRST_DAY = hw.query("first", hw.tumbling(10), where=hw.col("day") == 1, n=hw.count())
SUFFIXES = ("parquet", "arrow", "csv", "jsonl")


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def events(first: int, count: int = 4) -> list[dict]:
    return [{"time": first + i, "v": i} for i in range(count)]


def by_folders(root: Path, suffix: str = "parquet") -> dict[str, list[dict]]:
    """Three files in two folders of days, and what the reference sees of them."""
    files = {f"day=1/a.{suffix}": events(0), f"day=1/b.{suffix}": events(7), f"day=2/a.{suffix}": events(3)}
    for name, rows in files.items():
        write(root / name, rows)
    return {name: [{**row, "day": int(name[4])} for row in rows] for name, rows in files.items()}


def answers(source, queries, **options):
    plan = plan_queries(source, queries, None, 2, True, **options)
    return without_spark(plan, queries)


def names_of(source) -> list[str]:
    return [piece.source for piece in find_pieces(source, None)[1]]


def event_rows(source, **options) -> list[dict]:
    plan = plan_events(source, None, options.pop("columns", None), 2, **options)
    return [row for task in range(len(plan.tasks)) for batch in plan.events(task) for row in batch.to_pylist()]


def stream_rows(given, names: list[str]) -> list[dict]:
    """All events of an input, as workers read them."""
    copy = input_class(given.kind).from_data(json.loads(json.dumps(given.to_data())))
    wanted, found = Wanted(names, given.schema), []
    for source, extent in sorted(copy.extents().items()):
        for stretch in json.loads(json.dumps(copy.stretches(source, 0, extent.end))):
            for batch in input_class(given.kind).read(stretch, wanted):
                found += batch.select(names).to_pylist()
    return found


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_day_folders_are_columns_and_keys(tmp_path, suffix):
    files = by_folders(tmp_path, suffix)
    queries = [BY_DAY, FIRST_DAY]
    assert_same(expected(files, queries), answers(tmp_path, queries))


@pytest.mark.parametrize("sources", ["folder", lambda name: "all"])
def test_day_folders_are_columns_of_each_file_however_files_are_put_together(tmp_path, sources):
    by_folders(tmp_path)
    rows = answers(tmp_path, [BY_DAY], sources=sources)
    assert sum(row.event_count for row in rows) == 12
    assert {row.key for row in rows} == {(1,), (2,)}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("day=1/*.parquet", ["a.parquet", "b.parquet"]),
        ("day=*", ["day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"]),
        ("*/a.*", ["day=1/a.parquet", "day=2/a.parquet"]),
        ("**/b.parquet", ["day=1/b.parquet"]),
        ("**/*.parquet", ["day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"]),
        ("day={2,3}/?.parquet", ["day=2/a.parquet"]),
        ("day=[!1]/*", ["day=2/a.parquet"]),
    ],
)
def test_globs_name_files_below_their_longest_fixed_part(tmp_path, pattern, names):
    by_folders(tmp_path)
    write(tmp_path / "_hidden" / "a.parquet", events(0))
    assert names_of(tmp_path / pattern) == names
    assert names_of(f"file://{tmp_path}/{pattern}") == names


def test_a_glob_that_matches_nothing_is_one_sentence(tmp_path):
    by_folders(tmp_path)
    with pytest.raises(hw.DataError, match=r"day=7/\*.csv: no file matches"):
        names_of(tmp_path / "day=7/*.csv")


def test_a_name_with_special_characters_that_is_there_is_no_pattern(tmp_path):
    write(tmp_path / "a[1].csv", events(0))
    assert names_of(tmp_path / "a[1].csv") == ["a[1].csv"]


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "file://localhost{}"])
def test_file_paths_are_paths(tmp_path, form):
    by_folders(tmp_path / "in put")
    assert len(names_of(form.format(tmp_path / "in put"))) == 3
    assert len(names_of((tmp_path / "in put").as_uri())) == 3
    assert len(names_of([form.format(tmp_path / "in put" / "day=1" / "a.parquet")])) == 1


def test_a_file_path_with_a_host_is_told_the_third_slash():
    with pytest.raises(hw.DataError, match="'data' would be another machine; give file:///data/events"):
        names_of("file://data/events")


def test_folder_columns_are_integers_dates_or_text_and_null_where_hive_says_so(tmp_path):
    write(tmp_path / "day=2026-11-18/n=07/city=S%C3%A3o/mixed=1/_own=3/a.parquet", events(0, 1))
    write(tmp_path / "day=__HIVE_DEFAULT_PARTITION__/n=-8/city=b/mixed=x/_own=4/a.parquet", events(0, 1))
    schema = plan_events(tmp_path, None, None, 2).schema
    types = ["date32[day]", "int64", "string", "string", "int64"]
    assert [str(schema.field(name).type) for name in ("day", "n", "city", "mixed", "_own")] == types
    first, second = event_rows(tmp_path, columns=["day", "n", "city", "mixed", "_own"])
    assert [str(value) for value in first.values()] == ["2026-11-18", "7", "São", "1", "3"]
    assert list(second.values()) == [None, -8, "b", "x", 4]
    assert event_rows(tmp_path, columns=["n"], types={"n": "string"}) == [{"n": "07"}, {"n": "-8"}]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_a_file_says_itself_counts_more_than_its_folder(tmp_path, suffix):
    write(tmp_path / f"day=1/a.{suffix}", [{"time": 0, "v": 1, "day": 5}])
    assert [row["day"] for row in event_rows(tmp_path)] == [5]


def test_row_groups_of_other_folders_are_not_read(tmp_path):
    by_folders(tmp_path)
    broken = tmp_path / "day=2" / "a.parquet"
    data = bytearray(broken.read_bytes())
    data[4:40] = b"\xff" * 36  # the pages; the footer is whole
    broken.write_bytes(data)
    assert len(event_rows(tmp_path, where=hw.col("day") == 1)) == 8
    with pytest.raises(hw.DataError, match=r"day=2/a\.parquet"):
        event_rows(tmp_path, where=hw.col("day") == 2)
    assert sum(row.event_count for row in answers(tmp_path, [FIRST_DAY])) == 8


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_of_files_are_renamed_on_the_way_in(tmp_path, suffix):
    rows = [{"time": i, "node": "ab"[i % 2], "v": i} for i in range(20)]
    write(tmp_path / f"a.{suffix}", rows)
    query = hw.query("devices", hw.tumbling(10), keys=["device"], where=hw.col("device") != "b", total=hw.sum("v"))
    renamed = [{"time": row["time"], "device": row["node"], "v": row["v"]} for row in rows]
    found = answers(tmp_path, [query], rename={"node": "device"})
    assert_same(expected({f"a.{suffix}": renamed}, [query]), found)
    assert event_rows(tmp_path, columns=["device", "v"], where=hw.col("device") == "a", rename={"node": "device"})[
        1
    ] == {
        "device": "a",
        "v": 2,
    }


def test_folder_columns_are_renamed_like_others(tmp_path):
    by_folders(tmp_path)
    query = hw.query("days", hw.tumbling(10), keys=["on"], where=hw.col("on") == 2, n=hw.count())
    assert (
        sum(row.event_count for row in answers(tmp_path, [query], rename={"day": "on", "time": "at"}, time="at")) == 4
    )


#: Texts, among them some that are nearly integers and dates.
VALUES = st.text(min_size=1, max_size=4) | st.text("+-0123456789", min_size=1, max_size=20) | st.dates().map(str)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["day", "city=x", "%/ä", "_k"]), VALUES), max_size=3),
    st.sampled_from(SUFFIXES),
)
def test_what_spark_would_write_into_folder_names_comes_back(tmp_path_factory, pairs, suffix):
    """Whatever names and values are written as folders, escaped as Spark does, events have them."""
    from urllib.parse import quote

    root = tmp_path_factory.mktemp("hive")
    told = {name: value for name, value in pairs if not name.startswith("_") or "=" not in name}
    folders = "/".join(f"{quote(name, safe='_')}={quote(value, safe='')}" for name, value in told.items())
    write(root / folders / f"a.{suffix}", events(0, 1))
    (row,) = event_rows(root)
    assert {name: row[name] for name in told} == {name: said(value) for name, value in told.items()}


def said(text: str) -> int | date | str:
    """What the name of a folder says: an integer of at most 18 digits, a date, or the text itself."""
    digits = text[1:] if text[0] in "+-" else text
    if digits and set(digits) <= set("0123456789") and len(digits) <= 18:
        return int(text)
    try:
        return date.fromisoformat(text) if len(text) == 10 and text[4] == text[7] == "-" else text
    except ValueError:
        return text


# --- streams ---


@pytest.fixture
def checkpoint(tmp_path):
    return StreamCheckpoint(tmp_path / "checkpoint")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_stream_has_the_columns_of_its_folders(tmp_path, checkpoint, suffix):
    files = by_folders(tmp_path / "in", suffix)
    opened = renamed_input(tmp_path / "in", checkpoint, None, **CLOCK, **OPTIONS)
    found = stream_rows(opened, ["time", "v", "day"])
    assert found == [row for rows in files.values() for row in rows]


def test_a_stream_notices_new_files_that_match_its_glob(tmp_path, checkpoint):
    by_folders(tmp_path / "in")
    opened = renamed_input(f"file:{tmp_path}/in/day=*/a.*", checkpoint, None, **CLOCK, **OPTIONS)
    assert {name: extent.end for name, extent in opened.extents().items()} == {"day=1": 4, "day=2": 4}
    write(tmp_path / "in" / "day=3" / "a.parquet", events(0, 2))
    write(tmp_path / "in" / "day=3" / "b.parquet", events(0, 2))
    copy = input_class(opened.kind).from_data(json.loads(json.dumps(opened.to_data())))
    for each in (opened, copy):
        assert {name: extent.end for name, extent in each.extents().items()} == {"day=1": 4, "day=2": 4, "day=3": 2}
    assert {row["day"] for row in stream_rows(opened, ["day"])} == {1, 2, 3}


def test_a_folder_that_says_what_its_column_cannot_hold_is_passed_over_with_the_reason(tmp_path, checkpoint):
    by_folders(tmp_path / "in")
    opened = renamed_input(tmp_path / "in", checkpoint, None, **CLOCK, **OPTIONS)
    assert len(opened.extents()) == 2
    write(tmp_path / "in" / "day=monday" / "a.parquet", events(0))
    assert len(opened.extents()) == 2
    ((_, path, reason),) = opened.problems()
    assert path == "day=monday/a.parquet"
    assert reason.startswith("its folder says day=monday, but column 'day' holds int64")


def log_of(path: Path) -> Path:
    with Log.create(path, partition_count=1).writer(0) as writer:
        writer.append(pa.RecordBatch.from_pylist([{"time": 1, "node": "a"}]))
    return path


def test_streams_rename_columns_of_every_kind_of_source(tmp_path, checkpoint):
    write(tmp_path / "in" / "a.jsonl", [{"time": 1, "node": "a"}])
    for source in (tmp_path / "in", log_of(tmp_path / "log")):
        opened = renamed_input(source, checkpoint, {"node": "device"}, **CLOCK, **OPTIONS)
        assert opened.schema.names == ["time", "device"]
        assert stream_rows(opened, ["device"])[0] == {"device": "a"}
    made = renamed_input(SmartHome(seconds=1), checkpoint, {"time": "at"}, **{**CLOCK, "time": "at"}, **OPTIONS)
    assert len(stream_rows(made, ["at"])) > 0


class Message:
    """A message of Kafka, as far as it is asked."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int:
        return 7

    def key(self) -> bytes:
        return b"\xff"


def test_fields_and_keys_of_kafka_are_renamed_also_where_they_cannot_be_read():
    renaming = Renaming.of({"node": "device", "kafka_key": "key"})
    schema = pa.schema([("device", pa.int64()), ("key", pa.string())])
    wanted = stored_wanted(Wanted(["device", "key"], schema), renaming)
    ((_, batch),) = batches_of([Message(b'{"node": "many"}')], "t/00000", wanted)
    (renamed,) = renamed_batches([batch], renaming)
    assert renamed.to_pylist() == [{"device": None, "\0device": "many", "key": None, "\0key": "b'\\xff'"}]


def test_a_text_that_cannot_be_read_is_malformed_under_its_new_name(tmp_path):
    write(tmp_path / "in" / "a.csv", [{"time": 1, "node": 1}, {"time": 2, "node": 2}])
    with (tmp_path / "in" / "a.csv").open("a") as file:
        file.write("3,many\n")
    query = hw.query("q", hw.tumbling(10), total=hw.sum("device"))
    options = {"rename": {"node": "device"}, "types": {"node": "int64"}}
    (row,) = answers(tmp_path / "in", [query], **options)
    assert (row.event_count, row.values) == (2, {"total": 3})
    *_, misread = event_rows(tmp_path / "in", columns=["device"], **options)
    assert misread == {"device": None}


def test_a_stream_is_not_gone_on_with_under_another_rename(tmp_path, checkpoint):
    from headwater.spark.stream import begin

    write(tmp_path / "in" / "a.parquet", [{"time": 1, "node": "a"}])
    opened = renamed_input(tmp_path / "in", checkpoint, {"node": "device"}, **CLOCK, **OPTIONS)
    assert isinstance(opened, RenamedInput)
    begin(checkpoint, opened, [hw.query("q", hw.tumbling(10), keys=["device"], n=hw.count())], SETTINGS, 1)
    about = checkpoint.begun()
    check_same(about, opened, SETTINGS, tmp_path)
    for rename in (None, {"node": "machine"}):
        other = renamed_input(tmp_path / "in", checkpoint, rename, **CLOCK, **OPTIONS)
        with pytest.raises(CheckpointError, match=r"rename is .*, but was \{'node': 'device'\} when the stream began"):
            check_same(about, other, SETTINGS, tmp_path)


def test_an_unknown_name_in_a_streams_rename_is_refused_before_anything_begins(tmp_path, checkpoint):
    write(tmp_path / "in" / "a.parquet", events(0))
    opened = renamed_input(tmp_path / "in", checkpoint, {"nod": "device"}, **CLOCK, **OPTIONS)
    with pytest.raises(hw.DataError, match="rename names 'nod': there is no such column; there is time, v"):
        _ = opened.schema


def test_one_file_given_to_a_stream_is_told_the_right_door(tmp_path, checkpoint):
    write(tmp_path / "in" / "a.parquet", events(0))
    with pytest.raises(hw.DataError, match=r"this is a file; a stream reads a folder.*hw.read\(spark, file, queries\)"):
        renamed_input(tmp_path / "in" / "a.parquet", checkpoint, None, **CLOCK, **OPTIONS)


def test_an_integer_duration_over_timestamps_is_refused_for_files(tmp_path):
    write(tmp_path / "a.parquet", [{"v": 1}])
    pq.write_table(pa.table({"time": pa.array([1], pa.timestamp("us"))}), tmp_path / "a.parquet")
    query = hw.query("q", hw.tumbling("10 s"), n=hw.count())
    with pytest.raises(hw.QueryError, match=r"query 'q': window\.size is 10: the time column 'time' holds timestamp"):
        plan_queries(tmp_path, [hw.query("q", hw.tumbling(10), n=hw.count())], None, 1, True)
    with pytest.raises(hw.QueryError, match="disorder is 3: the time column 'time' holds timestamp"):
        plan_queries(tmp_path, [query], None, 1, True, disorder=3)


def test_renaming_changes_nothing_that_it_does_not_name():
    batch = pa.record_batch({"time": [1], "node": [None], "\0node": ["many"], "\0\0": [None]})
    assert Renaming.of({"node": "device"}).batch(batch).schema.names == ["time", "device", "\0device", "\0\0"]
