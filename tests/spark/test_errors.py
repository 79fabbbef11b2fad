"""What users do wrong is said in one sentence, before any job; a file that breaks in the middle of one is named."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.spark import aggregate, read

pytestmark = pytest.mark.spark

EVENTS = pa.table({"time": range(1000), "load": [float(i % 7) for i in range(1000)], "at": ["noon"] * 1000})
MEAN = hw.query("mean", hw.tumbling(10), mean=hw.avg("load"))


def save(folder):
    folder.mkdir(exist_ok=True)
    pq.write_table(EVENTS, folder / "a.parquet", row_group_size=250, compression="none", use_dictionary=False)
    return folder / "a.parquet"


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ("nowhere", {}, "there is no such file or folder"),
        ("empty", {}, "no files that are known by their names"),
        ("events", {"format": "xml"}, "format is 'xml': give one of 'parquet'"),
        ("events", {"time": "at"}, "event times are integers, timestamps or dates, the column holds string"),
        ("events", {"time": "when"}, "the data has no such column; its columns are 'time', 'load', 'at'"),
        ("broken", {}, "this is no parquet file that can be read"),
        ("mixed", {}, "files of several kinds (parquet, csv)"),
        ("hollow", {}, "all files are empty"),
        ("events", {"columns": ["load"]}, "queries say which columns they need"),
    ],
)
def test_wrong_files_and_queries_are_refused_before_any_job(given, options, sentence, spark, tmp_path):
    (tmp_path / "empty").mkdir()
    save(tmp_path / "events")
    save(tmp_path / "mixed")
    (tmp_path / "mixed" / "b.csv").write_text("time\n1\n")
    (tmp_path / "hollow").mkdir()
    (tmp_path / "hollow" / "a.csv").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(hw.HeadwaterError, match=re.escape(sentence)) as caught:
        read(spark, tmp_path / given, MEAN, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", ["id time, id v, id v", "id time, id v, id V"])
def test_doubled_columns_of_a_dataframe_are_refused(columns, spark):
    frame = spark.range(3).selectExpr(*columns.split(", "))
    with pytest.raises(hw.DataError, match="the DataFrame has 2 columns 'v': it is unclear which one is meant"):
        aggregate(frame, hw.query("n", hw.tumbling(10), n=hw.count()))


def test_queries_that_clash_are_refused(spark, tmp_path):
    save(tmp_path)
    with pytest.raises(hw.QueryError, match="there already"):
        read(spark, tmp_path, [MEAN, MEAN])
    other = hw.query("other", hw.tumbling(10), mean=hw.max("at"))
    with pytest.raises(hw.QueryError, match="give one of them another name"):
        read(spark, tmp_path, [MEAN, other])


def test_wrong_dataframes_are_refused_before_any_job(spark):
    frame = spark.createDataFrame([("noon", 1.0)], "at string, load double")
    with pytest.raises(hw.QueryError, match="event times are integers, timestamps or dates"):
        aggregate(frame, MEAN, time="at")
    with pytest.raises(hw.DataError, match="order is 'x': there is no such column"):
        aggregate(frame, MEAN, time="at", order="x")


def test_a_file_that_breaks_in_the_middle_of_a_job_is_named(spark, tmp_path):
    path = save(tmp_path)
    data = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(2).column(0).data_page_offset
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    rows = read(spark, tmp_path, MEAN)
    with pytest.raises(Exception, match=r"a\.parquet, row group 2, byte \d+"):
        rows.collect()
