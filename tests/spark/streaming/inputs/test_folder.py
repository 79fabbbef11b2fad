"""A growing folder: every split reads the same, what was seen stays as it was seen, and what is broken has a defined outcome."""

import errno
import gzip
import json
import os
import random
import re
import tempfile
from itertools import pairwise, product
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.base.arrow import schema_to_bytes
from headwater.spark.formats import FORMATS, FileRange, Passed, Wanted, batches, parquet, text
from headwater.spark.formats.ranges import counted, rows_of
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs import folder as folder_input
from headwater.spark.streaming.inputs import seen_files
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.inputs.seen_files import SeenFile, SeenFiles

SCHEMA = pa.schema([("time", pa.int64()), ("load", pa.float64())])
WANTED = Wanted(["time", "load"], SCHEMA)


def events(first: int, count: int) -> pa.Table:
    rows = range(first, first + count)
    return pa.table({"time": list(rows), "load": [i / 4 for i in rows]}, SCHEMA)


def write(path: Path, table: pa.Table, group: int = 3) -> None:
    """A file as its name says, renamed into place as all writers do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    if path.name.endswith(".parquet"):
        pq.write_table(table, hidden, row_group_size=group)
    elif path.name.endswith((".arrow", ".arrows")):
        opened = pa.ipc.new_file if path.name.endswith(".arrow") else pa.ipc.new_stream
        with opened(str(hidden), table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    elif ".csv" in path.name:
        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink)
        write_text(hidden, sink.getvalue().to_pybytes())
    else:
        write_text(hidden, b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist()))
    hidden.rename(path)


def write_text(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)


def rows(found) -> list[dict]:
    """Rows without the columns of what could not be read where all could."""
    listed = []
    for batch in found:
        assert not isinstance(batch, Passed)
        listed += [{k: v for k, v in row.items() if v is not None} for row in batch.to_pylist()]
    return listed


def times(given: FolderInput, source: str, start: int, end: int) -> list[int]:
    stretches = json.loads(json.dumps(given.stretches(source, start, end)))
    return [row["time"] for stretch in stretches for row in rows(given.read(stretch, WANTED))]


def ends(given: FolderInput) -> dict[str, int]:
    return {source: extent.end for source, extent in given.extents().items()}


def cuts(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, count), max_size=4).map(lambda some: [0, *sorted(some), count])


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def opened(folder: Path, **options) -> FolderInput:
    options.setdefault("schema", SCHEMA)
    return FolderInput(folder, folder.parent / "checkpoint" / "seen", **options)


def again(given: FolderInput) -> FolderInput:
    """As it comes to another process."""
    return FolderInput.from_data(json.loads(json.dumps(given.to_data())))


CSV_LINES = st.sampled_from(
    [
        "1,2",
        "1,2.5",
        "",
        '"1","2"',
        "many,2",
        "1",
        '1,"2',
        " ",
        "1,2\r3,4",
        "\r",
        "1,\ufffd",
        '1,"2\n3,"4"',
        "\t",
        "1,2,3",
    ]
)
JSON_LINES = st.sampled_from(
    [
        '{"time": 1, "load": 2}',
        "",
        "  ",
        "null",
        '{"time": 1}{"time": 2}',
        '{"time":',
        "3}",
        "[]",
        "\t\r",
        '{"load": "x"}',
    ]
)


@settings(max_examples=100)
@given(data=st.data(), kind=st.sampled_from(["csv", "json"]), is_packed=st.booleans())
def test_lines_are_counted_as_they_are_read(data, kind, is_packed):
    """And any split of them reads the same."""
    lines = data.draw(st.lists(CSV_LINES if kind == "csv" else JSON_LINES, max_size=12))
    header = (
        data.draw(st.sampled_from(["time,load\n", "\n\r\ntime,load\r\n", "\ufefftime,load\n"])) if kind == "csv" else ""
    )
    between, last = data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.sampled_from(["", "\n", "\r\n"]))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text, "BLOCK_BYTES", data.draw(st.sampled_from([16, 40, 1 << 20])))
        place = str(Path(folder, f"a.{kind}{'.gz' if is_packed else ''}"))
        write_text(Path(place), (header + between.join(lines) + last).encode())
        whole = rows(batches(kind, FileRange("a", "a", (place,), 0), WANTED))
        count, marks = counted(kind, place)
        assert count == len(whole)
        assert is_packed <= (not marks)
        points = data.draw(cuts(count))
        split = []
        for start, end in pairwise(points):
            mark = data.draw(st.sampled_from([None, *(mark for mark in marks if mark.row <= start)]))
            split += rows(rows_of(kind, place, WANTED, start, end - start, mark))
        assert split == whole


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "csv", "csv.gz", "jsonl", "jsonl.gz"])
@settings(max_examples=25)
@given(data=st.data())
def test_any_split_reads_the_same_however_files_came(suffix, data):
    """Files that come one after another, planners that are started again, stretches cut anywhere: one sequence."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.setattr(text, "BLOCK_BYTES", 40)
        patch.setattr(seen_files, "TOGETHER_MIN", data.draw(st.integers(1, 3)))
        patch.setattr(folder_input, "LOOK_FILES", data.draw(st.sampled_from([1, 2, 100])))
        folder = Path(place, "in")
        folder.mkdir()
        given = opened(folder)
        expected: dict[str, list[int]] = {}
        first = 0
        for _ in range(data.draw(st.integers(1, 4))):
            names = data.draw(st.lists(st.sampled_from(["a/1", "a/2", "b/1", "3", "é"]), unique=True, max_size=3))
            new = [name for name in names if not (folder / f"{name}.{suffix}").exists()]
            for name in sorted(new, key=lambda name: f"{name}.{suffix}".encode()):
                count = data.draw(st.integers(0, 7))
                write(folder / f"{name}.{suffix}", events(first, count))
                expected.setdefault(name.rpartition("/")[0] or ".", []).extend(range(first, first + count))
                first += count
            for _ in range(len(new) + 1):
                found = ends(given)
            assert found == {source: len(some) for source, some in expected.items() if some}
            if data.draw(st.booleans()):
                given = again(given)
                assert ends(given) == found
        for source, some in expected.items():
            points = data.draw(cuts(len(some)))
            assert [times(given, source, *pair) for pair in pairwise(points)] == [
                some[start:end] for start, end in pairwise(points)
            ]


def test_files_follow_in_the_order_in_which_they_were_seen(folder):
    given = opened(folder)
    for name, first in (("b", 0), ("a2", 10), ("a10", 20)):
        write(folder / f"{name}.parquet", events(first, 2))
    write(folder / "_temporary/c.parquet", events(0, 1))
    write(folder / "x/.d.parquet", events(0, 1))
    (folder / "notes.txt").write_text("nothing")
    assert ends(given) == {".": 6}
    write(folder / "a1.parquet", events(30, 2))  # late: it follows
    assert ends(given) == {".": 8}
    assert times(given, ".", 0, 8) == [20, 21, 10, 11, 0, 1, 30, 31]
    assert times(again(given), ".", 3, 7) == [11, 0, 1, 30]


def test_each_file_as_a_source_is_done_at_once(folder):
    given = opened(folder, sources="file")
    write(folder / "x/a.csv", events(0, 3))
    write(folder / "empty.csv", events(0, 0))
    extents = given.extents()
    assert list(extents) == ["x/a.csv"] and extents["x/a.csv"].is_done
    assert times(given, "x/a.csv", 1, 3) == [1, 2]


def test_a_function_names_sources_and_travels_by_its_path(folder):
    for name in ("x-1", "y-1", "x-2"):
        write(folder / f"{name}.parquet", events(0, 2))
    given = again(opened(folder, sources="os.path:basename"))
    assert ends(given) == {"x-1.parquet": 2, "x-2.parquet": 2, "y-1.parquet": 2}
    with pytest.raises(hw.DataError, match="sources makes 1 of"):
        opened(folder, sources="builtins:len", schema=SCHEMA)._source_of("x")
    for wrong in ("files", lambda name: name):
        with pytest.raises(hw.DataError, match="sources is"):
            opened(folder, sources=wrong)


def test_only_what_is_needed_is_read(folder, monkeypatch):
    write(folder / "a.parquet", events(0, 10))
    given = opened(folder)
    given.extents()
    read = []
    whole = parquet._group
    monkeypatch.setattr(
        parquet, "_group", lambda file, place, group, columns: read.append(group) or whole(file, place, group, columns)
    )
    assert times(given, ".", 4, 7) == [4, 5, 6]
    assert read == [1, 2]


def test_a_look_at_many_files_opens_only_new_ones(folder, monkeypatch):
    """And the log of seen files is read from few files, however often something was found."""
    monkeypatch.setattr(seen_files, "APART_MAX", 40)
    log = SeenFiles(folder.parent / "log")
    made, read = [], []
    create, decoded = seen_files.create, seen_files._decoded
    monkeypatch.setattr(seen_files, "create", lambda path, data: made.append(len(data)) or create(path, data))
    monkeypatch.setattr(seen_files, "_decoded", lambda path: read.append(path) or decoded(path))
    for number in range(300):
        log.add([SeenFile("a", f"{number}-{i}.csv", "csv", 2, 10, 0) for i in range(1 if number else 2_000)])
    assert len(made) <= 320 and len(list((folder.parent / "log").iterdir())) <= 41
    read.clear()
    fresh = SeenFiles(folder.parent / "log")
    fresh.refresh()
    assert len(fresh.paths) == 2_299 and fresh.ends == log.ends == {"a": 2 * 2_299}
    assert len(read) <= 41
    assert [file.path for file, _, _ in fresh.between("a", 3_998, 4_004)] == ["0-1999.csv", "1-0.csv", "2-0.csv"]

    looked = []
    schema_of = folder_input.schema_of
    monkeypatch.setattr(folder_input, "schema_of", lambda kind, place: looked.append(place) or schema_of(kind, place))
    given = opened(folder)
    for number in range(30):
        write(folder / f"{number}.csv", events(0, 1))
    given.extents()
    write(folder / "new.csv", events(0, 1))
    looked.clear()
    given.extents()
    assert [Path(place).name for place in looked] == ["new.csv"]


def test_of_two_who_write_the_log_one_decides(folder):
    given = opened(folder)
    other = again(given)
    for name, first in (("b", 0), ("c", 5)):
        write(folder / f"{name}.parquet", events(first, 2))
    given.extents()
    write(folder / "a.parquet", events(9, 2))
    list(other._discoveries())  # without having read what the first has written
    assert ends(given) == ends(other) == {".": 6}
    assert times(given, ".", 0, 6) == times(other, ".", 0, 6) == [0, 1, 5, 6, 9, 10]


def test_whoever_dies_while_the_log_is_put_together_loses_nothing(folder, monkeypatch):
    monkeypatch.setattr(seen_files, "TOGETHER_MIN", 2)
    log = SeenFiles(folder.parent / "log")
    log.add([SeenFile("a", "1.csv", "csv", 2, 10, 0), SeenFile("a", "empty.csv", "csv", 0, 10, 0)])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            log.add([SeenFile("a", "0.csv", "csv", 3, 10, 0), SeenFile("b", "bad.csv", "csv", 0, 10, 0, "no reason")])
    (folder.parent / "log" / "0000000003.json.77.tmp").write_text("{")
    for _ in range(3):
        fresh = SeenFiles(folder.parent / "log")
        fresh.refresh()
        assert fresh.ends["a"] == 5 and [file.path for file, _, _ in fresh.between("a", 0, 5)] == ["1.csv", "0.csv"]
        assert {"1.csv", "0.csv", "empty.csv", "bad.csv"} <= fresh.paths
        assert [file.reason for file in fresh.broken] == ["no reason"]
        fresh.add([SeenFile("c", f"{len(fresh.paths)}.csv", "csv", 1, 10, 0)])
    log.refresh()  # from where it was left, though what follows has been put together
    assert log.ends == {"a": 5, "c": 3}


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


BROKEN = {
    "footer.parquet": (lambda path: (write(path, events(0, 5)), cut_off(path)), "no parquet file that can be read"),
    "nothing.parquet": (lambda path: path.touch(), r"no parquet file .*\(the file ends at byte 0\)"),
    "short.arrow": (lambda path: (write(path, events(0, 50)), half(path)), "arrow"),
    "half.csv.gz": (lambda path: (write(path, events(0, 50_000)), half(path)), r"broken behind byte \d+ of its text"),
    "other.parquet": (lambda path: write(path, events(0, 5).drop_columns("load")), "there is no column 'load'"),
    "other.csv": (lambda path: path.write_text("time,place\n1,2\n"), "there is no column 'load'"),
    "twice.csv": (lambda path: path.write_text("time,load,load\n1,2,3\n"), "has 2 columns 'load'"),
    "kinds.parquet": (
        lambda path: write(path, pa.table({"time": ["noon"], "load": [1.5]})),
        "column 'time' holds string, but int64 in other files",
    ),
    "\udcff.csv": (lambda path: path.write_text("time,load\n1,2\n"), "its name is no UTF-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_does_not_stop_the_stream(name, folder):
    make, reason = BROKEN[name]
    given = opened(folder)
    make(folder / name)
    write(folder / "good.parquet", events(0, 5))
    assert ends(given) == {".": 5}
    assert times(given, ".", 0, 5) == [0, 1, 2, 3, 4]
    for each in (given, again(given)):
        assert ends(each) == {".": 5}
        ((source, path, found),) = each.problems()
        assert (source, path) == (".", os.fsencode(name).decode("utf-8", "replace"))
        assert re.search(reason, found) and re.search(r"\bbyte \d", found), found
    strict = opened(folder, strict=True)
    strict._seen = SeenFiles(folder.parent / "other")
    with pytest.raises(hw.DataError, match=reason) as caught:
        strict.extents()
    assert str(caught.value).startswith(str(folder)) and "byte" in str(caught.value)
    write(folder / "repaired.parquet", events(5, 2))
    assert ends(given) == {".": 7}


def test_what_the_machine_refuses_is_tried_again(folder, monkeypatch):
    write(folder / "a.csv", events(0, 3))
    given = opened(folder)

    def refuse(kind, place):
        raise hw.DataError("...") from PermissionError(errno.EACCES, "Permission denied", place)

    with monkeypatch.context() as patch:
        patch.setattr(folder_input, "schema_of", refuse)
        assert ends(given) == {}
        assert given.problems() == [(".", "a.csv", "it cannot be opened for now: Permission denied")]
    assert ends(given) == {".": 3}
    assert given.problems() == []


def test_a_file_that_is_gone_or_changed_is_named_when_it_is_needed(folder):
    for name, first in (("a.csv", 0), ("b.csv", 5), ("c.parquet", 10)):
        write(folder / name, events(first, 5))
    given = opened(folder)
    assert ends(given) == {".": 15}
    (folder / "a.csv").rename(folder / ".a")
    assert times(given, ".", 5, 15) == list(range(5, 15))
    with pytest.raises(hw.DataError, match=r"a\.csv: the file is gone, but its rows \[2, 5\) of 5 are needed"):
        times(given, ".", 2, 7)
    for name in ("b.csv", "c.parquet"):
        write(folder / name, events(0, 4))
    for start in (5, 10):
        with pytest.raises(hw.DataError, match=r"(b\.csv|c\.parquet): it has 4 rows, but had 5 when it was first seen"):
            times(given, ".", start, start + 1)
    # Put back with as many rows, though in other bytes.
    (folder / ".a").rename(folder / "a.csv")
    (folder / "b.csv").write_text("time,load\n\n\n5,0\n6,0\n\n7,0\n8,0\r\n9,0")
    write(folder / "c.parquet", events(10, 5), group=100)
    assert times(given, ".", 0, 15) == list(range(15))
    assert times(given, ".", 7, 9) == [7, 8]


def test_a_file_that_is_broken_in_its_middle_is_named_with_the_byte(folder):
    path = folder / "a.parquet"
    pq.write_table(events(0, 4000), path, row_group_size=1000, compression="zstd", use_dictionary=False)
    given = opened(folder)
    assert ends(given) == {".": 4000}
    whole = path.read_bytes()
    start = pq.read_metadata(path).row_group(2).column(0).data_page_offset
    noise = random.Random(1).randbytes(600)
    path.write_bytes(whole[:start] + noise + whole[start + len(noise) :])
    assert times(given, ".", 0, 2000) == list(range(2000))
    with pytest.raises(hw.DataError, match=r"a\.parquet, row group 2, byte \d+: "):
        times(given, ".", 1900, 2100)
    path.write_bytes(whole)
    assert times(given, ".", 1900, 2100) == list(range(1900, 2100))


def test_a_folder_that_is_gone_has_nothing_new_until_it_is_back(folder):
    write(folder / "a.csv", events(0, 3))
    given = opened(folder)
    assert ends(given) == {".": 3}
    away = folder.rename(folder.with_name("away"))
    assert ends(given) == ends(again(given)) == {".": 3}
    away.rename(folder)
    write(folder / "b.csv", events(3, 2))
    assert ends(given) == {".": 5}
    assert times(given, ".", 0, 5) == [0, 1, 2, 3, 4]


def test_a_lost_log_is_told_rather_than_guessed(folder):
    write(folder / "a.csv", events(0, 3))
    given = opened(folder)
    given.extents()
    log = folder.parent / "checkpoint" / "seen"
    (log / "0000000001.json").unlink()
    with pytest.raises(hw.DataError, match=r"source '\.' has 0 rows in the log of seen files, but 3 were read"):
        again(given).stretches(".", 0, 3)
    (log / "0000000002.json").write_text('{"version": 1, "files": 0}\n')
    with pytest.raises(hw.DataError, match=r"0000000001\.json: this part of the log of seen files is missing"):
        again(given).extents()
    for content, reason in (
        ("{", "is damaged"),
        ('{"version": 9, "files": 0}', "has version 9"),
        ('{"version": 1, "files": 2}', "0 of its 2"),
    ):
        (log / "0000000001.json").write_text(content)
        with pytest.raises(hw.DataError, match=reason):
            again(given).extents()


def test_columns_come_from_the_first_files_and_stay(folder):
    with pytest.raises(hw.DataError, match="there are no files yet that say which columns there are; give schema="):
        _ = opened(folder, schema=None).schema
    (folder / "0.csv").write_bytes(b"")
    (folder / "1.csv.gz").write_bytes(b"no gzip")
    (folder / "2.csv").write_text("time,load\n1,2\n")
    assert opened(folder, schema=None).schema == pa.schema([("time", pa.int64()), ("load", pa.int64())])
    (folder / "2.csv").write_text("time,load\n1,x\n")
    given = opened(folder, schema=None)
    assert given.schema.field("load").type == pa.int64()
    with pytest.raises(hw.DataError, match=r"types are .*, but were \{\} when the stream began"):
        _ = opened(folder, schema=None, types={"load": "float64"}).schema
    other = FolderInput(folder, folder.parent / "new", types={"load": "float64"})
    assert other.schema == again(other).schema == SCHEMA
    assert opened(folder, schema={"time": "int64", "load": "float64"}).schema == SCHEMA
    with pytest.raises(hw.DataError, match="schema= and types= are both given"):
        _ = opened(folder, types={"load": "float64"}).schema
    with pytest.raises(hw.DataError, match="schema is"):
        _ = opened(folder, schema={"time": "number"}).schema


def test_no_bit_of_the_columns_that_are_kept_can_be_flipped_unseen(folder):
    (folder / "1.csv").write_text("time,load\n1,2\n")
    found = opened(folder, schema=None).schema
    kept = folder.parent / "checkpoint" / "seen" / "columns.txt"
    data = kept.read_bytes()
    for place, bit in product(range(0, len(data), 7), range(8)):
        kept.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        with pytest.raises(CheckpointError, match="this part of the checkpoint is damaged"):
            _ = opened(folder, schema=None).schema
    # As a release wrote them that knew no checksums.
    kept.write_text(json.dumps({"version": 1, "types": {}, "schema": schema_to_bytes(found).hex()}))
    assert opened(folder, schema=None).schema == found


def test_impossible_options_are_refused(folder):
    with pytest.raises(hw.DataError, match="format is 'log': give one of 'parquet'"):
        opened(folder, format="log")
    write(folder / "a.csv", events(0, 3))
    with pytest.raises(hw.DataError, match="this is a file; a stream reads a folder"):
        opened(folder / "a.csv")


def test_a_format_that_is_given_is_that_of_all_files(folder):
    (folder / "a.txt").write_text("time,load\n1,2\n")
    given = opened(folder, format="csv")
    assert ends(given) == {".": 1}
    assert FORMATS["csv"].parts is None  # Batch reading does not count lines.
    assert os.listdir(folder) == ["a.txt"]


def test_two_objects_in_one_line_are_not_made_up_for_by_an_empty_line(folder):
    """Counted together they look right; one line is one event, and this one is none."""
    (folder / "a.jsonl").write_text('{"time": 1} {"time": 2}\n\n')
    (row,) = rows(batches("json", FileRange("a", "a", (str(folder / "a.jsonl"),), 0), WANTED))
    assert row["\0\0"]["reason"].startswith("line 1, byte 0: this is no JSON")
