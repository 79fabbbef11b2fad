"""Text that is not as it should be: set aside, counted, in its place, and never anybody else's trouble."""

import gzip
import json
import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import headwater as hw
from headwater.spark.batch.plan import ReadPlan, plan_events, plan_queries
from headwater.spark.formats import text
from spark.answers import assert_same, expected, told, without_spark

TYPES = {"time": "int64", "load": "float64", "room": "string"}
TOTAL = hw.query("total", hw.tumbling(10), total=hw.sum("load"), n=hw.count())
# A condition of its own: then nothing is shared with those who read other columns.
ROOMS = hw.query("rooms", hw.tumbling(10), where=hw.col("time") > -100, rooms=hw.collect("room"))
SEATS = hw.query("threes", hw.count_tumbling(3), rooms=hw.collect("room"))
ASKED = [TOTAL, ROOMS, SEATS]


def plan_of(folder, asked=ASKED, tasks=1, **options) -> ReadPlan:
    return plan_queries(folder, asked, None, tasks, True, types=TYPES, **options)


def asides(plan: ReadPlan) -> list[tuple]:
    found = [(row["source"], row["offset"], row["reason"], json.loads(row["event"])) for row in told(plan, "aside")]
    return sorted(found, key=lambda row: row[:2])


CSV = '''time,load,room
1,1.5,hall
2,many,hall
3,2.5
4,"3.5","say ""hi"""

5,4.5,loft,attic
noon,1,hall
7,,
8,1e3,"open
9,2, loft
10,0.5,hall'''


def test_every_bad_line_of_csv_is_set_aside_with_its_reason(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    plan = plan_of(tmp_path)
    assert asides(plan) == [
        ("a.csv", 1, "column 'load' is 'many', not double", {"time": 2, "room": "hall", "load": "many"}),
        ("a.csv", 2, f"line 4, byte {CSV.index('3,2.5')}: 2 values for 3 columns", {"line": "3,2.5"}),
        ("a.csv", 4, f"line 7, byte {CSV.index('5,4.5')}: 4 values for 3 columns", {"line": "5,4.5,loft,attic"}),
        ("a.csv", 5, "time is 'noon', not int64", {"time": "noon", "load": 1.0, "room": "hall"}),
        ("a.csv", 7, f"line 10, byte {CSV.index('8,1e3')}: a quote is not closed", {"line": '8,1e3,"open'}),
    ]
    rows = {(row.query, row.start): row for row in without_spark(plan, ASKED)}
    assert rows["total", 0].values["total"] == 1.5 + 3.5 + 2
    assert rows["total", 0].values["n"] == 4
    # Who does not read the column has no trouble with it.
    assert rows["rooms", 0].values["rooms"] == ["hall", "hall", 'say "hi"', " loft"]
    counts = {row["query"]: row for row in told(plan, "accounts")}
    assert (counts["total"]["in"], counts["total"]["malformed"]) == (10, 5)
    assert (counts["rooms"]["in"], counts["rooms"]["malformed"]) == (10, 4)


JSON = b"""{"time": 1, "load": 1.5, "room": "hall"}
{"time": 2, "load": "many", "room": "hall"}
{"time": 3, "load": 2.5
null
[4]

{"time": 5, "load": 1e999, "room": "hall"} null
{"time": 6.5, "load": 1, "room": 7}
{"time": 7, "load": null, "more": {"a": [1]}}
{"time": 8, "load": NaN, "room": "\xff"}
{"time": 9, "load": 123456789012345678901234567890, "room": "\\u00e9"}
{"time": 10, "lo"""


def test_every_bad_line_of_json_is_set_aside_with_its_reason(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(JSON)
    plan = plan_of(tmp_path)
    found = asides(plan)
    assert [(offset, reason.split(" (")[0]) for _, offset, reason, _ in found] == [
        (1, "column 'load' is 'many', not double"),
        (2, "line 3, byte 85: this is no JSON: Expecting ',' delimiter: line 1 column 24"),
        (3, "line 4, byte 109: this is no JSON object"),
        (4, "line 5, byte 114: this is no JSON object"),
        (5, "line 7, byte 119: this is no JSON: Extra data: line 1 column 44"),
        (6, "time is '6.5', not int64"),
        (8, "line 10, byte 249: byte 34 of the line is no UTF-8"),
        (10, "line 12, byte 357: this is no JSON: Unterminated string starting at: line 1 column 14"),
    ]
    assert found[5][3] == {"time": "6.5", "load": 1.0, "room": "7"}
    rows = {(row.query, row.start): row for row in without_spark(plan, ASKED)}
    assert rows["total", 0].values["total"] == 1.5 + 123456789012345678901234567890.0
    assert rows["rooms", 0].values["rooms"] == ["hall", "hall", "é"]


def csv_line(row) -> str:
    def cell(value):
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return "nan" if isinstance(value, float) and math.isnan(value) else repr(value)

    return ",".join(cell(row[name]) for name in TYPES)


def json_line(row) -> str:
    return json.dumps(row)


GOOD = st.fixed_dictionaries(
    {
        "time": st.integers(-5, 40),
        "load": st.none() | st.sampled_from([0.5, -1.25, 1e300, 3.0, float("nan")]),
        "room": st.none() | st.sampled_from(["", "a", "é", 'x"y', "a,b", " "]),
    }
)
BAD_CSV = st.sampled_from(["1,2", "1,2,3,4", '1,2,"x', '1,"2', "x", "1,1.5,\udcff", '"', ",,,", "1,2,a\rb"])
BAD_JSON = st.sampled_from(
    ["null", "[]", "1", '{"time": 1', '{"time": 1}}', '{"time": 1} null', '"\udcff"', "{]", "{1:2}"]
)
SHAPES = {".csv": (csv_line, BAD_CSV, "time,load,room\n"), ".jsonl": (json_line, BAD_JSON, "")}


@given(
    data=st.data(), suffix=st.sampled_from([".csv", ".csv.gz", ".jsonl", ".jsonl.gz"]), ends=st.sampled_from(["", "\n"])
)
def test_bad_lines_take_their_offsets_and_change_nothing_else(data, suffix, ends):
    """The same as if each bad line had been an event without a time."""
    line_of, bad, header = SHAPES[suffix.removesuffix(".gz")]
    drawn = data.draw(st.lists(GOOD | bad, min_size=1, max_size=12))
    assume(any(isinstance(each, dict) for each in drawn))
    lines = [each if isinstance(each, str) else line_of(each) for each in drawn]
    between = data.draw(st.sampled_from(["\n", "\n\n", "\r\n"]))
    content = (header + between.join(lines) + ends).encode("utf-8", "surrogateescape")
    events = [{"time": None, "load": 0.0, "room": ""} if isinstance(each, str) else each for each in drawn]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # Small blocks, so that they end anywhere among the lines.
        patch.setattr(text, "BLOCK_BYTES", data.draw(st.sampled_from([1, 30, 1 << 20])))
        patch.setattr(text, "CARE_BYTES", data.draw(st.sampled_from([1, 40, 1 << 20])))
        path = Path(folder, f"a{suffix}")
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
        plan = plan_of(folder)
        assert_same(expected({f"a{suffix}": events}, ASKED), without_spark(plan, ASKED))
        wrong = [place for place, each in enumerate(drawn) if isinstance(each, str)]
        assert [offset for _, offset, _, _ in asides(plan)] == wrong


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_blocks_that_hold_a_bad_line_are_read_as_others_are(suffix, tmp_path):
    line_of, _, header = SHAPES[suffix]
    rows = [{"time": i, "load": i / 7, "room": f"r{i % 3}"} for i in range(5000)]
    lines = list(map(line_of, rows))
    (tmp_path / f"good{suffix}").write_text(header + "\n".join(lines))
    lines[2500:2500] = ["{bad"]
    (tmp_path / f"bad{suffix}").write_text(header + "\n".join(lines))
    good, bad = (
        pa.Table.from_batches(plan_events(tmp_path / f"{name}{suffix}", None, None, 1).events(0))
        for name in ("good", "bad")
    )
    assert good.num_rows + 1 == bad.num_rows
    assert pa.concat_tables([bad.slice(0, 2500), bad.slice(2501)]).combine_chunks() == good.combine_chunks()
    # Without queries it is as in Spark: nothing can be read, so all is null.
    assert bad.slice(2500, 1).to_pylist() == [{"time": None, "load": None, "room": None}]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", CSV.encode(), "a.csv, line 3, byte 26: column 'load' is 'many', not double (strict)"),
        ("a.jsonl", JSON, "a.jsonl, line 2, byte 41: column 'load' is 'many', not double (strict)"),
        ("a.csv", b"time,load,room\n1,2\n", "a.csv, line 2, byte 15: 2 values for 3 columns (strict)"),
    ],
)
def test_strict_names_file_line_and_byte(name, content, sentence, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(hw.DataError) as caught:
        without_spark(plan_of(tmp_path, strict=True), ASKED)
    assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_doubled_columns_of_a_file_are_refused(suffix, tmp_path):
    table = pa.Table.from_arrays([pa.array([1])] * 3, names=["time", "load", "load"])
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "arrow":
        feather.write_feather(table, path)
    else:
        path.write_text("time,load,load\n1,1,1\n")
    count = hw.query("n", hw.tumbling(10), n=hw.count())
    with pytest.raises(hw.DataError, match=f"a.{suffix}.* has 2 columns 'load': it is unclear which one is meant"):
        plan_queries(tmp_path, [count], None, 1, True)
    with pytest.raises(hw.DataError, match="has 2 columns 'load'"):
        plan_events(tmp_path, None, None, 1)


def test_a_broken_gzip_stream_names_file_and_byte(tmp_path):
    lines = "time,load,room\n" + "".join(f"{i},{i * 0.37},room{i * 7919 % 1000}\n" for i in range(200_000))
    packed = gzip.compress(lines.encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(hw.DataError, match=r"a\.csv\.gz: broken behind byte \d+ of its text: "):
        without_spark(plan_of(tmp_path), ASKED)


def test_a_first_line_that_misleads_about_types_can_be_put_right(tmp_path):
    (tmp_path / "a.csv").write_text("time,load,room\n1,none,a\n2,2.5,b\n")
    with pytest.raises(hw.QueryError, match="sum needs numbers, the column holds string"):
        plan_queries(tmp_path, TOTAL, None, 1, True)
    plan = plan_queries(tmp_path, TOTAL, None, 1, True, types={"load": "float64"})
    assert [row.values["total"] for row in without_spark(plan, [TOTAL])] == [2.5]
    with pytest.raises(hw.DataError, match="types name 'lod': there is no such column"):
        plan_queries(tmp_path, TOTAL, None, 1, True, types={"lod": "float64"})
    with pytest.raises(hw.DataError, match="give one of Arrow's"):
        plan_queries(tmp_path, TOTAL, None, 1, True, types={"load": "number"})


@pytest.mark.parametrize("content", [JSON, b'{"time": 1}\nnull\n{"time": "x"}\n{"time": 2}\n'])
def test_the_types_of_json_are_those_that_most_lines_have(content, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(content)
    assert plan_events(tmp_path, None, ["time"], 1).schema.field("time").type in (pa.int64(), pa.float64())


@pytest.mark.spark
def test_malformed_text_is_set_aside_on_spark(spark, tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    options = {"types": TYPES, "tasks": 1}
    aside = hw.read(spark, tmp_path, ASKED, output="aside", **options).toArrow().to_pylist()
    assert sorted((row["offset"], row["reason"]) for row in aside) == [row[1:3] for row in asides(plan_of(tmp_path))]
    counts = hw.read(spark, tmp_path, ASKED, output="accounts", **options).toArrow().to_pylist()
    assert sorted(counts, key=str) == sorted(told(plan_of(tmp_path), "accounts"), key=str)
    assert hw.read(spark, tmp_path, types=TYPES).where("time IS NULL").count() == 4
    with pytest.raises(Exception, match=r"a\.csv, line 3, byte 26: column 'load' is 'many', not double"):
        hw.read(spark, tmp_path, ASKED, strict=True, **options).collect()


@pytest.mark.spark
def test_generated_events_are_read_by_options(session):
    hw.register(session)
    generated = session.read.format("headwater").option("generator", "headwater.generator:SmartHome")
    fields = json.dumps({"seconds": 3, "rate": 50, "silence": 0.0, "changes": [[1, 100]]})
    assert generated.option("fields", fields).load().where("time IS NOT NULL").count() == 250
